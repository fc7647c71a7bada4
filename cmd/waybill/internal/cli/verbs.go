package cli

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/verb"
)

// completing is how long the shell waits for names from the installation.
const completing = 2 * time.Second

// action is one call of a verb.
type action struct {
	verb.Verb

	where   *target
	input   *verb.Input
	account string
	yes     bool
	wait    bool
	follow  bool
	web     bool // show the console's page instead
	all     bool // all pages of a list
	further bool // earlier pages have been shown
	form    *output
}

// nouns makes the commands for the API.
func (a *app) nouns() []*cobra.Command {
	var list []*cobra.Command
	for _, noun := range verb.Nouns() {
		if noun.Self != nil {
			list = append(list, a.verb(*noun.Self))
			continue
		}
		cmd := &cobra.Command{Use: noun.Name, Short: noun.Short, Long: noun.Long, RunE: subcommands}
		if one := singular(noun.Name); one != noun.Name {
			cmd.Aliases = []string{one}
		}
		var examples []string
		for _, v := range noun.Verbs {
			first, _, _ := strings.Cut(v.Example, "\n")
			examples = append(examples, strings.TrimSuffix(first, " \\"))
			cmd.AddCommand(a.verb(v))
		}
		cmd.Example = strings.Join(examples, "\n")
		if noun.Name == verb.Deployments {
			a.addDeployments(cmd)
		}
		if noun.Name == verb.Webhooks {
			a.addFeed(cmd)
		}
		if noun.Name == verb.Tunnels {
			a.addTunnels(cmd)
		}
		list = append(list, cmd)
	}
	return list
}

// singular returns the noun for one thing.
func singular(noun string) string {
	if stem, ok := strings.CutSuffix(noun, "ies"); ok {
		return stem + "y"
	}
	return strings.TrimSuffix(noun, "s")
}

func (a *app) verb(v verb.Verb) *cobra.Command {
	use := strings.Join(append([]string{v.Name}, words(v)...), " ")
	if v.Long == "" {
		v.Long = v.Short + "."
	}
	cmd := &cobra.Command{
		Use: use, Short: v.Short, Long: v.Long, Example: v.Example,
		Args:    func(cmd *cobra.Command, args []string) error { return counted(v, withFlags(cmd, v, args)) },
		Aliases: aliases(v.Name),
	}
	act := &action{Verb: v, where: addTarget(cmd), input: &verb.Input{}}
	act.input.Read = func(name string) ([]byte, error) { return a.bodyOf(&callback{body: name}) }
	a.addVerbFlags(cmd, act)
	act.form = addOutput(cmd, asID)
	act.addWeb(cmd)
	cmd.ValidArgsFunction = act.complete
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		act.input.Args = withFlags(cmd, v, args)
		err := a.perform(cmd.Context(), act)
		if misuse, ok := errors.AsType[verb.MisuseError](err); ok {
			return usage{misuse}
		}
		return err
	})
	return cmd
}

// aliases returns names that people know from shells.
func aliases(name string) []string {
	return map[string][]string{"list": {"ls"}, "delete": {"rm"}}[name]
}

// withFlags adds an argument that was given as a flag.
func withFlags(cmd *cobra.Command, v verb.Verb, args []string) []string {
	if last := len(v.Args) - 1; last >= 0 && len(args) == last && v.Args[last].Flag != "" {
		if flag := cmd.Flags().Lookup(v.Args[last].Flag); flag.Changed {
			return append(slices.Clone(args), flag.Value.String())
		}
	}
	return args
}

func counted(v verb.Verb, args []string) error {
	last := len(v.Args) - 1
	if len(args) == len(v.Args) || last >= 0 && v.Args[last].Optional && len(args) == last {
		return nil
	}
	if len(v.Args) == 0 {
		return usagef("%q is one argument too many", terminal.Clean(args[0]))
	}
	return usagef("the arguments are %s: %d given, %d needed", strings.Join(words(v), " "), len(args), len(v.Args))
}

// words returns the arguments as help shows them.
func words(v verb.Verb) []string {
	var list []string
	for _, arg := range v.Args {
		list = append(list, arg.Word)
	}
	return list
}

func (a *app) addVerbFlags(cmd *cobra.Command, act *action) {
	flags := cmd.Flags()
	if act.NeedsAccount() {
		flags.StringVar(&act.account, "account", "", "the account; default: that of the key")
	}
	for _, f := range act.Flags {
		value := verb.NewValue(f, time.Now)
		act.input.Values = append(act.input.Values, value)
		flag := flags.VarPF(value, f.Name, "", f.Usage)
		if f.Kind == verb.Bool {
			flag.NoOptDefVal = "true"
		}
		if f.Former != "" {
			renamed(flags, f.Former, f.Name)
		}
		if len(f.Choices) > 0 {
			_ = cmd.RegisterFlagCompletionFunc(f.Name, cobra.FixedCompletions(f.Choices, cobra.ShellCompDirectiveNoFileComp))
		}
	}
	if act.Scrolls() {
		flags.BoolVar(&act.all, "all", false, "every page, one after the other, to the end")
	}
	if act.Follow {
		flags.BoolVarP(&act.follow, "follow", "f", false, "go on with what comes and changes, until it is interrupted")
	}
	if act.Wait {
		flags.BoolVar(&act.wait, "wait", false, "until the job is over; fails if a delivery of it does")
	}
	if act.Confirm != "" {
		flags.BoolVarP(&act.yes, "yes", "y", false, "do not ask for confirmation; scripts are never asked")
	}
}

// renamed makes a flag's former name work too.
func renamed(flags *pflag.FlagSet, former, name string) {
	flags.SetNormalizeFunc(func(_ *pflag.FlagSet, given string) pflag.NormalizedName {
		if given == former {
			given = name
		}
		return pflag.NormalizedName(given)
	})
}

// perform calls the API and shows the answer.
func (a *app) perform(ctx context.Context, act *action) error {
	request, err := act.Request(act.input)
	if err != nil {
		return err
	}
	if err := a.confirm(act); err != nil {
		return err
	}
	c, err := act.where.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	if longer, err := act.lengthen(ctx, c); err != nil {
		return err
	} else if longer {
		if request, err = act.Request(act.input); err != nil {
			return err
		}
	}
	if act.follow {
		return a.followList(act, c)
	}
	if act.all && request.Query.Get("limit") == "" {
		request.Query.Set("limit", strconv.Itoa(verb.Most))
	}
	answer, err := act.sendCompleting(ctx, c, request)
	if err != nil {
		return err
	}
	if act.web {
		return a.openPage(act, c)
	}
	if act.wait {
		return a.await(ctx, c, act, answer)
	}
	if act.Judged != nil && act.Judged(act.input) && *act.form != asID {
		return a.judge(ctx, c, act, answer)
	}
	var more func(rows []map[string]any)
	if act.More != nil {
		more = func(rows []map[string]any) {
			act.More(func(path string) ([]byte, error) { return c.Do(ctx, http.MethodGet, path, nil) }, rows)
		}
	}
	for {
		next := verb.Next(answer)
		if err := a.show(act, answer, more); err != nil || !act.all || next == "" {
			return err
		}
		request.Query.Set("cursor", next)
		act.further = true
		if answer, err = act.send(ctx, c, request); err != nil {
			return err
		}
	}
}

// sendCompleting sends the request. If the resource is not found, sendCompleting takes its id for the beginning of one,
// completes the id, and sends the request again.
func (act *action) sendCompleting(ctx context.Context, c *client.Client, request *verb.Request) ([]byte, error) {
	answer, err := act.send(ctx, c, request)
	if !client.IsStatus(err, http.StatusNotFound) {
		return answer, err
	}
	before := request.Path
	if missing := act.complement(ctx, c, request); missing != nil {
		return nil, missing
	}
	if request.Path == before {
		return nil, err
	}
	return act.send(ctx, c, request)
}

// send sends the request, with the account in its path.
func (act *action) send(ctx context.Context, c *client.Client, r *verb.Request) ([]byte, error) {
	if r.NeedsAccount() {
		account := act.account
		if account == "" {
			var err error
			if account, err = c.Account(ctx); err != nil {
				return nil, err
			}
		}
		r.In(account)
	}
	return c.Do(ctx, r.Method, r.Target(), r.Body)
}

// confirm asks a person before data is lost. Without a terminal nothing is asked.
func (a *app) confirm(act *action) error {
	if act.Confirm == "" || act.yes || !terminal.IsTerminal(a.stdin) || !terminal.IsTerminal(a.stderr) {
		return nil
	}
	a.note("%s [y/N]", act.Sentence(act.Confirm, act.input))
	line, err := bufio.NewReader(a.stdin).ReadString('\n')
	answer := strings.ToLower(strings.TrimSpace(line))
	if err != nil || answer != "y" && answer != "yes" {
		return errors.New("nothing was changed")
	}
	return nil
}

// show prints an answer, unchanged or as a table.
func (a *app) show(act *action, answer []byte, more func([]map[string]any)) error {
	answer = bytes.TrimSpace(answer)
	if len(answer) == 0 {
		a.note("%s", act.Sentence(act.Done, act.input))
		return nil
	}
	if *act.form == asID {
		for _, id := range act.Show.IDs(answer) {
			fmt.Fprintln(a.stdout, terminal.Clean(id))
		}
	} else if *act.form == asJSON {
		if _, err := a.stdout.Write(append(answer, '\n')); err != nil {
			return err
		}
	} else if err := a.showTable(act, answer, more); err != nil {
		return err
	}
	if act.Once != "" && *act.form != asID && verb.HasSecret(answer) {
		a.note("%s", act.Once)
	}
	return nil
}

func (a *app) showTable(act *action, answer []byte, more func([]map[string]any)) error {
	page, err := act.Show.Print(a.stdout, answer, tableWidth(a.stdout), more)
	switch {
	case err != nil:
		return err
	case page.NextCursor != "" && act.all:
	case page.NextCursor != "" && page.Shown == 0:
		a.note("None is found so far. To look further: --all")
	case page.NextCursor != "":
		a.note("%d are shown. All of them: --all", page.Shown)
	case page.List && page.Shown == 0 && page.Total == 0 && !act.further:
		a.note("%s", act.Show.None)
	case page.List && page.Offset+page.Shown < page.Total:
		a.note("%d of %d are shown. Next page: --offset %d.", page.Shown, page.Total, page.Offset+page.Shown)
	}
	return nil
}

// complete offers the names in the installation for the next argument. Failures are not reported:
// the user is typing a line.
func (act *action) complete(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	if len(args) < len(act.Args) && act.Args[len(args)].File {
		return nil, cobra.ShellCompDirectiveDefault
	}
	act.input.Args = args
	if _, _, ok := act.Completion(act.input, ""); !ok || cmd.Root().PersistentPreRunE(cmd, args) != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	c, err := act.where.connect()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	defer c.Close()
	ctx, cancel := context.WithTimeout(context.Background(), completing)
	defer cancel()
	groups := []string{""}
	if each := act.Each(act.input); each != nil {
		answer, err := act.send(ctx, c, each)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		groups = verb.Members(answer, "name")
	}
	var offered []string
	for _, group := range groups {
		request, member, _ := act.Completion(act.input, group)
		answer, err := act.send(ctx, c, request)
		if err != nil {
			break // the names found so far are offered
		}
		offered = append(offered, verb.Members(answer, member)...)
	}
	return offered, cobra.ShellCompDirectiveNoFileComp
}
