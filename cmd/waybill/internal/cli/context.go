package cli

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

// contextsVariable names the file of the contexts.
const contextsVariable = "WAYBILL_CONTEXTS"

// contexts are the installations that a user has given names.
type contexts struct {
	Current string                 `json:"current,omitempty"`
	Named   map[string]*oneContext `json:"contexts"`

	path string
}

// oneContext is an installation with a key, which goes to its address alone.
type oneContext struct {
	Server string `json:"server"`
	Key    string `json:"key"`
}

// readContexts reads the file; if there is none, it returns no contexts.
func readContexts() (*contexts, error) {
	c := &contexts{Named: make(map[string]*oneContext), path: os.Getenv(contextsVariable)}
	if c.path == "" {
		dir, err := os.UserConfigDir()
		if err != nil {
			return c, nil //nolint:nilerr // a user without a home has no contexts
		}
		c.path = filepath.Join(dir, "waybill", "contexts.json")
	}
	text, err := os.ReadFile(c.path) //nolint:gosec // where the user wants it
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return c, nil
	case err != nil:
		return nil, fmt.Errorf("read contexts: %w", err)
	}
	if json.Unmarshal(text, c) != nil { // the error may show a key
		return nil, fmt.Errorf("read contexts: %s is damaged: mend or remove it", c.path)
	}
	if c.Named == nil {
		c.Named = make(map[string]*oneContext)
	}
	maps.DeleteFunc(c.Named, func(_ string, one *oneContext) bool { return one == nil }) // null, if someone has edited the file
	return c, nil
}

// write keeps the file whole or not at all, readable by its owner alone.
func (c *contexts) write() error {
	text, err := json.MarshalIndent(c, "", "  ")
	if err != nil {
		return fmt.Errorf("keep contexts: %w", err)
	}
	if c.path == "" {
		return fmt.Errorf("keep contexts: there is no home directory; name a file with %s", contextsVariable)
	}
	if err := os.MkdirAll(filepath.Dir(c.path), 0o700); err != nil {
		return fmt.Errorf("keep contexts: %w", err)
	}
	partial, err := os.CreateTemp(filepath.Dir(c.path), "contexts.*") // CreateTemp uses mode 0600
	if err != nil {
		return fmt.Errorf("keep contexts: %w", err)
	}
	_, err = partial.Write(append(text, '\n'))
	if err = errors.Join(err, partial.Close()); err == nil {
		err = os.Rename(partial.Name(), c.path)
	}
	if err != nil {
		_ = os.Remove(partial.Name())
		return fmt.Errorf("keep contexts: %w", err)
	}
	return nil
}

// find returns a context by its name.
func (c *contexts) find(name string) (*oneContext, error) {
	if one := c.Named[name]; one != nil {
		return one, nil
	}
	return nil, usagef("there is no context %s: waybill context add %[1]s --server URL makes it", terminal.Clean(name))
}

// contextName matches valid names of contexts.
var contextName = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func (a *app) contexts() *cobra.Command {
	cmd := &cobra.Command{
		Use: "context", Aliases: []string{"contexts"}, Short: "Name installations, and choose the one that commands work with",
		Long: "A context is an installation with a key. Commands work with the one in use, or\n" +
			"with that of --context, unless --server, --key or --data names another. Contexts\n" +
			"are kept in a file that its owner alone may read.",
		Example: "  waybill context add production --server https://hooks.example.com\n  waybill context use production",
		RunE:    subcommands,
	}
	cmd.AddCommand(a.addContext(), a.useContext(), a.listContexts(), a.removeContext())
	return cmd
}

func (a *app) addContext() *cobra.Command {
	var server, key string
	cmd := &cobra.Command{
		Use: "add NAME", Short: "Name an installation, or change a context", Args: cobra.ExactArgs(1),
		Long: "Names an installation. The key is read from standard input, unless --key or\nWAYBILL_KEY has it. The first context is in use at once.",
		Example: "  waybill context add production --server https://hooks.example.com\n" +
			"  pass show waybill | waybill context add production --server https://hooks.example.com",
		ValidArgsFunction: cobra.NoFileCompletions,
	}
	cmd.Flags().StringVar(&server, "server", "", "`URL` of the installation; required")
	cmd.Flags().StringVar(&key, "key", "", "API `key`")
	setVariable(cmd.Flags(), "server", serverVariable)
	setVariable(cmd.Flags(), "key", keyVariable)
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		if !contextName.MatchString(args[0]) {
			return usagef("a context's name has 1 to 64 letters, digits, dots, dashes and underscores")
		}
		if server == "" {
			return usagef("--server is required")
		}
		base, err := serverURL(server)
		if err != nil {
			return err
		}
		if key == "" {
			if terminal.IsTerminal(a.stdin) {
				a.note("Paste the API key, and press Enter and Ctrl-D:")
			}
			text, err := io.ReadAll(io.LimitReader(a.stdin, 4<<10))
			if key = strings.TrimSpace(string(text)); err != nil || key == "" {
				return usagef("give the key on standard input, or with --key or %s", keyVariable)
			}
		}
		c, err := readContexts()
		if err != nil {
			return err
		}
		c.Named[args[0]] = &oneContext{Server: base, Key: key}
		if len(c.Named) == 1 {
			c.Current = args[0]
		}
		if err := c.write(); err != nil {
			return err
		}
		a.note("Context %s is %s%s.", args[0], base, map[bool]string{true: ", and in use"}[c.Current == args[0]])
		return nil
	})
	return cmd
}

func (a *app) useContext() *cobra.Command {
	return a.contextCommand("use NAME", "Choose the context that commands work with; none: no context", func(c *contexts, name string) error {
		if name == "none" {
			c.Current = ""
			return nil
		}
		_, err := c.find(name)
		c.Current = name
		return err
	})
}

func (a *app) removeContext() *cobra.Command {
	return a.contextCommand("remove NAME", "Forget a context with its key", func(c *contexts, name string) error {
		_, err := c.find(name)
		delete(c.Named, name)
		if c.Current == name {
			c.Current = ""
		}
		return err
	})
}

// contextCommand makes a command that changes the contexts and takes the name of one.
func (a *app) contextCommand(use, short string, change func(*contexts, string) error) *cobra.Command {
	word, _, _ := strings.Cut(use, " ")
	cmd := &cobra.Command{
		Use: use, Short: short, Args: cobra.ExactArgs(1), Example: "  waybill context " + word + " production",
		ValidArgsFunction: func(_ *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
			if len(args) > 0 {
				return nil, cobra.ShellCompDirectiveNoFileComp
			}
			return contextNames(nil, nil, "")
		},
	}
	cmd.RunE = run(func(_ *cobra.Command, args []string) error {
		c, err := readContexts()
		if err != nil {
			return err
		}
		if err := change(c, args[0]); err != nil {
			return err
		}
		return c.write()
	})
	return cmd
}

// contextNames completes the name of a context.
func contextNames(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	c, err := readContexts()
	if err != nil {
		return nil, cobra.ShellCompDirectiveNoFileComp
	}
	return slices.Sorted(maps.Keys(c.Named)), cobra.ShellCompDirectiveNoFileComp
}

// contextLine is a context in a list: without its key.
type contextLine struct {
	Name    string `json:"name"`
	Server  string `json:"server"`
	Current bool   `json:"current"`
}

func (a *app) listContexts() *cobra.Command {
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"}, Short: "List the contexts, without their keys", Args: cobra.NoArgs, Example: "  waybill context list",
	}
	form := addOutput(cmd, asID)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		c, err := readContexts()
		if err != nil {
			return err
		}
		lines := []contextLine{}
		for _, name := range slices.Sorted(maps.Keys(c.Named)) {
			lines = append(lines, contextLine{name, c.Named[name].Server, name == c.Current})
		}
		if *form == asJSON {
			return terminal.JSON(a.stdout, lines)
		}
		if len(lines) == 0 {
			a.note("There are no contexts.")
		}
		for _, line := range lines {
			if *form == asID {
				fmt.Fprintln(a.stdout, line.Name)
				continue
			}
			fmt.Fprintf(a.stdout, "%s %s  %s\n", map[bool]string{true: "*", false: " "}[line.Current], line.Name, terminal.Clean(line.Server))
		}
		return nil
	})
	return cmd
}

// chosen returns the context that a command works with, and its name; nil: none. --context takes
// precedence over variables, and other ways to name an installation take precedence over the context
// in use.
func (t *target) chosen() (*oneContext, string, error) {
	switch {
	case t.context != "" && (t.flags.Changed("server") || t.flags.Changed("key")):
		return nil, "", usagef("--context has a server and a key: leave out --server and --key")
	case t.context == "" && (t.server != "" || t.key != "" || t.flags.Changed("data") || t.data != defaultData):
		return nil, "", nil
	}
	c, err := readContexts()
	if err != nil {
		return nil, "", err
	}
	name := cmp.Or(t.context, c.Current)
	if name == "" {
		return nil, "", nil
	}
	one, err := c.find(name)
	return one, name, err
}

func (o *oneContext) secret() domain.Secret { return domain.Secret(o.Key) }
