// Package cli is waybill's command line. Data go to stdout, notes and progress to stderr;
// the exit code is 0, 1 when something failed, 2 when the command was used wrongly.
package cli

import (
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
)

// app is the state that every command works with.
type app struct {
	version string
	binary  string // as it was called, for commands that users can paste
	args    []string
	stdin   io.Reader
	stdout  io.Writer
	stderr  io.Writer
	query   *query // nil: no --jq
}

// failure marks an error of a command that was used rightly.
type failure struct{ error }

func (f failure) Unwrap() error { return f.error }

// usage is an error for wrong usage of a command.
type usage struct{ error }

func (u usage) Unwrap() error { return u.error }

func usagef(format string, args ...any) error { return usage{fmt.Errorf(format, args...)} }

// Main runs the command line and returns the exit code. args begins with the program's name.
func Main(version string, args []string, stdin io.Reader, stdout, stderr io.Writer) int {
	a := &app{version: version, binary: "waybill", args: args[1:], stdin: stdin, stdout: stdout, stderr: stderr}
	if strings.ContainsRune(args[0], os.PathSeparator) && !strings.HasPrefix(args[0], os.TempDir()) {
		a.binary = args[0]
	}
	root := a.root()
	root.SetArgs(args[1:])
	command, err := root.ExecuteC()
	if a.query != nil {
		if failed := a.query.end(); err == nil && failed != nil {
			err = failure{failed}
		}
	}
	if err == nil {
		return boot.ExitOK
	}
	var failed failure
	var misused usage
	if errors.As(err, &failed) && !errors.As(err, &misused) {
		if !errors.Is(failed, errSilent) {
			boot.PrintError(stderr, "waybill", failed.error)
		}
		return boot.ExitFailed
	}
	fmt.Fprintf(stderr, "waybill: %v\nRun '%s --help' for usage.\n", err, command.CommandPath())
	return boot.ExitUsage
}

// Command returns the command line for programs that describe it: the manual, and the completion of
// shells.
func Command(version string) *cobra.Command {
	a := &app{version: version, binary: "waybill", stdin: strings.NewReader(""), stdout: io.Discard, stderr: io.Discard}
	return a.root()
}

// errSilent ends a command with exit code 1 without another message.
var errSilent = errors.New("failed")

// The groups of the list of commands.
const (
	groupTry     = "try"
	groupUse     = "use"
	groupManage  = "manage"
	groupOperate = "operate"
	groupTools   = "tools"
)

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "waybill",
		Short: "Shipment events in, signed callbacks out",
		Long: "Waybill accepts shipment events over REST or NATS and delivers each of them to\n" +
			"every webhook that is registered for it: signed, retried and recorded.",
		Example:       "  waybill demo\n  waybill dev",
		SilenceUsage:  true,
		SilenceErrors: true,
		PersistentPreRunE: func(cmd *cobra.Command, _ []string) error {
			if err := fromEnvironment(cmd.Flags(), os.LookupEnv); err != nil {
				return err
			}
			return a.startQueries(cmd)
		},
	}
	root.SetIn(a.stdin)
	root.SetOut(a.stdout)
	root.SetErr(a.stderr)
	root.SetFlagErrorFunc(flagError)
	root.Version = a.version
	root.SetVersionTemplate(a.versionLine() + "\n")
	root.AddGroup(
		&cobra.Group{ID: groupTry, Title: "Try it:"},
		&cobra.Group{ID: groupUse, Title: "Work with an installation:"},
		&cobra.Group{ID: groupManage, Title: "Manage its resources:"},
		&cobra.Group{ID: groupOperate, Title: "Operate an installation:"},
		&cobra.Group{ID: groupTools, Title: "Tools:"},
	)
	add := func(group string, commands ...*cobra.Command) {
		for _, c := range commands {
			c.GroupID = group
			root.AddCommand(c)
		}
	}
	add(groupTry, a.demo(), a.dev())
	add(groupUse, a.trigger(), a.listen(), a.receiver(), a.console(), a.deploy(), a.logs(), a.contexts())
	add(groupManage, a.nouns()...)
	add(groupOperate, a.doctor(), a.check(), a.migrate(), a.backup(), a.restore(), a.health(), a.routes())
	add(groupUse, a.mcp())
	add(groupTools, a.signature(), a.versionCommand())
	root.SetHelpCommandGroupID(groupTools)
	root.SetCompletionCommandGroupID(groupTools)
	nameVariables(root)
	root.SetUsageTemplate(usageTemplate(root.UsageTemplate(), helpWidth(a.stdout)))
	return root
}

// flagError suggests a flag for one that does not exist.
func flagError(cmd *cobra.Command, err error) error {
	missing, ok := errors.AsType[*pflag.NotExistError](err)
	if !ok {
		return usage{err}
	}
	if cmd.HasSubCommands() && cmd.Flags().NArg() > 0 { // the flag belongs to the intended command
		return unknownCommand(cmd, cmd.Flags().Arg(0))
	}
	name := missing.GetSpecifiedName()
	if name == "url" && cmd.Flags().Lookup("server") != nil {
		return usagef("%w: name the installation with --server or %s", err, serverVariable)
	}
	if meant := settings.Nearest(name, flagNames(cmd)); meant != "" {
		return usagef("%w; did you mean --%s?", err, meant)
	}
	return usage{err}
}

func flagNames(cmd *cobra.Command) []string {
	var list []string
	cmd.Flags().VisitAll(func(flag *pflag.Flag) { list = append(list, flag.Name) })
	return list
}

// helpWidth returns the width of help: that of the terminal, at most 120, or 80 without a terminal.
func helpWidth(w io.Writer) int {
	if columns := terminal.Columns(w); columns > 0 {
		return min(columns, 120)
	}
	return 80
}

// tableWidth returns the width of tables: that of the terminal. Without a terminal nothing is cut.
func tableWidth(w io.Writer) int {
	if columns := terminal.Columns(w); columns > 0 {
		return columns
	}
	return math.MaxInt
}

// usageTemplate makes cobra's template wrap the descriptions of flags.
func usageTemplate(template string, columns int) string {
	for _, set := range []string{".LocalFlags", ".InheritedFlags"} {
		template = strings.ReplaceAll(template, set+".FlagUsages ", fmt.Sprintf("%s.FlagUsagesWrapped %d ", set, columns))
	}
	// Otherwise the line would be wider than a terminal for the longest name.
	return strings.ReplaceAll(template, "for more information about a command.", "for more about a command.")
}

// run makes the RunE of a command: an error of f is a failure, unless it is a usage error.
func run(f func(cmd *cobra.Command, args []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := f(cmd, args); err != nil {
			return failure{err}
		}
		return nil
	}
}

// subcommands is the RunE of a command that only has subcommands.
func subcommands(cmd *cobra.Command, args []string) error {
	if len(args) > 0 {
		return unknownCommand(cmd, args[0])
	}
	return usagef("give one of its commands: %s", strings.Join(names(cmd), ", "))
}

// unknownCommand names the commands that may have been meant.
func unknownCommand(cmd *cobra.Command, word string) error {
	message := fmt.Sprintf("unknown command %q for %q", terminal.Clean(word), cmd.CommandPath())
	if meant := settings.Nearest(word, names(cmd)); meant != "" {
		message += "; did you mean " + meant + "?"
	}
	return usagef("%s", message)
}

func names(cmd *cobra.Command) []string {
	var list []string
	for _, c := range cmd.Commands() {
		list = append(list, c.Name())
	}
	return list
}

// variable is the annotation of a flag that can be set by an environment variable; its value is the
// name of the variable. Other flags have no variable: only the command line says what a command
// does.
const variable = "waybill_variable"

// variableOf returns the environment variable of a flag; empty: it has none.
func variableOf(flag *pflag.Flag) string {
	if names, ok := flag.Annotations[variable]; ok {
		return names[0]
	}
	return ""
}

func setVariable(flags *pflag.FlagSet, flag, name string) {
	_ = flags.SetAnnotation(flag, variable, []string{name}) // fails only for a flag that is not there
}

// fromEnvironment sets flags that were not given from their variables.
func fromEnvironment(flags *pflag.FlagSet, lookup func(string) (string, bool)) error {
	var err error
	flags.VisitAll(func(flag *pflag.Flag) {
		name := variableOf(flag)
		if name == "" || flag.Changed || err != nil {
			return
		}
		if value, ok := lookup(name); ok && value != "" {
			if setErr := flag.Value.Set(value); setErr != nil {
				err = usagef("%s is not a value for --%s", name, flag.Name)
			}
		}
	})
	return err
}

// nameVariables shows the variable of each flag in its help.
func nameVariables(cmd *cobra.Command) {
	cmd.LocalFlags().VisitAll(func(flag *pflag.Flag) {
		if name := variableOf(flag); name != "" {
			flag.Usage += " (" + name + ")"
		}
	})
	for _, c := range cmd.Commands() {
		nameVariables(c)
	}
}

// output is the form in which data are written.
type output string

const (
	asTable output = "table"
	asJSON  output = "json"
	asID    output = "id" // only for commands that show things with an id
)

// addOutput adds -o and --jq to the command; forms are those allowed in addition to table and json.
func addOutput(cmd *cobra.Command, forms ...output) *output {
	cmd.Flags().String("jq", "", "what of the JSON to print, an `expression` of jq; texts are printed as they are")
	_ = cmd.RegisterFlagCompletionFunc("jq", cobra.NoFileCompletions)
	return addForms(cmd, forms...)
}

// addForms adds only -o.
func addForms(cmd *cobra.Command, forms ...output) *output {
	v := &outputValue{output: asTable, forms: append([]output{asTable, asJSON}, forms...)}
	cmd.Flags().VarP(v, "output", "o", v.choices())
	setVariable(cmd.Flags(), "output", outputVariable)
	var words []string
	for _, form := range v.forms {
		words = append(words, string(form))
	}
	_ = cmd.RegisterFlagCompletionFunc("output", cobra.FixedCompletions(words, cobra.ShellCompDirectiveNoFileComp))
	return &v.output
}

// outputValue is the value of -o.
type outputValue struct {
	output

	forms []output
}

// choices names the forms in words.
func (v *outputValue) choices() string {
	var words []string
	for _, form := range v.forms {
		words = append(words, string(form))
	}
	last := len(words) - 1
	return strings.Join(words[:last], ", ") + " or " + words[last]
}

// String implements pflag.Value.
func (v *outputValue) String() string { return string(v.output) }

// Type implements pflag.Value.
func (v *outputValue) Type() string { return "form" }

// Set implements pflag.Value.
func (v *outputValue) Set(text string) error {
	if !slices.Contains(v.forms, output(text)) {
		return errors.New("must be " + v.choices())
	}
	v.output = output(text)
	return nil
}

func (a *app) note(format string, args ...any) { fmt.Fprintf(a.stderr, format+"\n", args...) }

func (a *app) style() terminal.Style { return terminal.StyleFor(a.stdout) }
