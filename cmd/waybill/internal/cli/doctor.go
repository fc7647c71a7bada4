package cli

import (
	"cmp"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/doctor"
	"waybill.dev/cmd/waybill/internal/finding"
	"waybill.dev/shared/judge"
)

// report has the results of checks, for JSON.
type report struct {
	Faults   int             `json:"faults"`
	Warnings int             `json:"warnings"`
	Findings []judge.Finding `json:"findings"`
	Settings []setting       `json:"settings,omitempty"`
}

type setting struct {
	Name   string `json:"name"`
	Value  string `json:"value"`
	Source string `json:"source"`
}

func (a *app) doctor() *cobra.Command {
	var role, asked string
	var parts []string
	var verbose bool
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check an installation and say what to do",
		Long: "Checks an installation with the settings that its processes would have here,\n" +
			"from flags, this command's environment and --config, but not from the\n" +
			"environment of processes that run: settings, running parts, database, bus,\n" +
			"what waits, network, disk, and what ends soon.\n" +
			"Each finding says what it means and what to do. Nothing is changed, and no\n" +
			"check takes longer than --timeout. Ends with exit code 1 if there is a fault.",
		Example: "  waybill doctor\n  waybill doctor --verbose --data /var/lib/waybill\n" +
			"  waybill doctor --config /etc/waybill/api.env --part http://api:9090\n" +
			"  waybill doctor --url https://hooks.example.com/in -o json",
		Args: cobra.NoArgs,
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	load := boot.BindSettingsOf(own, settings.Dev)
	cmd.Flags().AddFlagSet(own)
	form := addOutput(cmd)
	cmd.Flags().StringVar(&role, "role", "", "whose settings: dev, api, dispatcher or gateway; default: api if database and bus are set, else dev")
	cmd.Flags().StringVar(&asked, "url", "", "`URL` whose name is resolved and whose clock is compared")
	cmd.Flags().StringArrayVar(&parts, "part", nil, "ops `address` of a running process, such as http://api:9090; may be repeated")
	cmd.Flags().BoolVarP(&verbose, "verbose", "v", false, "also say what good findings mean, and list all settings")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Second, "how long a check may take")
	_ = cmd.RegisterFlagCompletionFunc("role", cobra.FixedCompletions(roleNames(), cobra.ShellCompDirectiveNoFileComp))
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		if limit < 100*time.Millisecond {
			return usagef("--timeout must be at least 100ms")
		}
		as, ok := roleOf(role)
		if !ok {
			return usagef("--role must be dev, api, dispatcher or gateway")
		}
		set, faults := load(as)
		if role == "" && set.DatabaseURL != "" && set.NATSURL != "" {
			set, faults = load(settings.API)
		}
		found := doctor.Diagnose(cmd.Context(), doctor.Options{
			Settings: set, Faults: faults, Environ: os.Environ(), Version: a.version, URL: asked, Parts: parts, Limit: limit,
		})
		return a.report(*form, found, set.Given, verbose)
	})
	return cmd
}

func roleNames() []string { return []string{"dev", "api", "dispatcher", "gateway"} }

func roleOf(name string) (settings.Role, bool) {
	role, ok := map[string]settings.Role{
		"": settings.Dev, "dev": settings.Dev, "api": settings.API, "dispatcher": settings.Dispatcher, "gateway": settings.Gateway,
	}[name]
	return role, ok
}

// report prints the results of checks. It fails if there is a fault.
func (a *app) report(form output, found []judge.Finding, given []settings.Given, verbose bool) error {
	out := report{Faults: finding.Count(found, judge.Fault), Warnings: finding.Count(found, judge.Warning), Findings: found}
	for _, g := range given {
		out.Settings = append(out.Settings, setting{g.Name, g.Value, boot.Origin(g.Source)})
	}
	if form == asJSON {
		if err := terminal.JSON(a.stdout, out); err != nil {
			return err
		}
	} else {
		width := cmp.Or(terminal.Columns(a.stdout), 80)
		if verbose {
			a.printSettings(out.Settings)
		}
		finding.Print(a.stdout, a.style(), found, width, verbose)
		fmt.Fprintf(a.stdout, "\n%s\n", finding.Summary(a.style(), found))
	}
	if out.Faults > 0 {
		return errSilent
	}
	return nil
}

func (a *app) printSettings(list []setting) {
	var rows [][]string
	for _, s := range list {
		rows = append(rows, []string{s.Name, terminal.Clean(s.Value), s.Source})
	}
	if len(rows) > 0 {
		terminal.Table(a.stdout, []string{"SETTING", "VALUE", "SOURCE"}, rows)
		fmt.Fprintln(a.stdout)
	}
}
