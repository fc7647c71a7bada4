package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/allinone"
	"waybill.dev/services/dispatcher"
)

// addSettings adds the settings of role as flags. They have their own order of precedence, without
// fromEnvironment.
func addSettings(cmd *cobra.Command, role settings.Role) func() (settings.Settings, error) {
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	load := boot.BindSettings(own, role)
	cmd.Flags().AddFlagSet(own)
	return load
}

func (a *app) dev() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "dev",
		Short: "Run everything in one process",
		Long: "Runs an API, a dispatcher, a NATS server, an SQLite database and a receiver in\n" +
			"one process. Everything that it stores is in the data directory. The API key is\n" +
			"made at the first start and stays the same. Prints a line for each attempt to\n" +
			"deliver, at most 20 lines a second.",
		Example: "  waybill dev\n" +
			"  waybill dev --http 127.0.0.1:9000 --data /var/tmp/waybill\n" +
			"  WAYBILL_DATABASE_URL=postgres://waybill@localhost/waybill waybill dev",
		Args: cobra.NoArgs,
	}
	var quiet bool
	load := addSettings(cmd, settings.Dev)
	cmd.Flags().BoolVar(&quiet, "quiet", false, "do not print a line for each attempt to deliver")
	setVariable(cmd.Flags(), "quiet", "WAYBILL_QUIET")
	cmd.RunE = run(func(*cobra.Command, []string) error {
		set, err := load()
		if err != nil {
			return err
		}
		log := telemetry.NewLogger(a.stderr, set.LogLevel, set.LogFormat)
		slog.SetDefault(telemetry.Stray(log))
		ballast := boot.TuneMemory()
		defer runtime.KeepAlive(ballast)
		ctx, stop := boot.Signals(context.Background(), func() {
			if terminal.IsTerminal(a.stderr) {
				a.note("\nStopping. Attempts in flight are finished first. Press Ctrl-C again to stop at once.")
			}
		})
		defer stop()
		var watch func(dispatcher.MadeAttempt)
		if !quiet {
			told := newTeller(a)
			watch = told.watch
			defer told.start()()
		}
		instance, err := allinone.Open(ctx, set, a.version, log, watch)
		if err != nil {
			if ctx.Err() != nil && errors.Is(err, context.Canceled) {
				return nil // asked to stop during the start
			}
			if clash, ok := errors.AsType[*allinone.ClashError](err); ok {
				return fmt.Errorf("%w\n  With free addresses: %s", err, a.again(clash.Flags))
			}
			return err
		}
		a.banner(instance, set)
		return instance.Run(ctx)
	})
	return cmd
}

// again returns the command that was given, with further flags. A command with a secret is not repeated.
func (a *app) again(flags []string) string {
	for _, spec := range settings.Flags(settings.Dev) {
		name := "--" + spec.Flag
		if spec.Secret && slices.ContainsFunc(a.args, func(word string) bool { return word == name || strings.HasPrefix(word, name+"=") }) {
			return "the same command with " + strings.Join(flags, " ")
		}
	}
	words := []string{a.binary}
	for _, word := range append(slices.Clone(a.args), flags...) {
		words = append(words, quote(word))
	}
	return strings.Join(words, " ")
}

// banner prints the addresses and the next steps.
func (a *app) banner(i *allinone.Instance, set settings.Settings) {
	style := a.style()
	key := "as set (" + settings.AdminKey + ")"
	if i.KeyIsOurs {
		key = i.AdminKey.Reveal()
	}
	fmt.Fprintf(a.stdout, "\n  %s\n\n", style.Bold("Waybill "+a.version+" is running"))
	table := tabwriter.NewWriter(a.stdout, 0, 0, 3, ' ', 0)
	line := func(name, value string) { fmt.Fprintf(table, "  %s\t%s\n", name, value) }
	line("API", i.API)
	line("NATS", i.NATS)
	line("Metrics", i.Ops+"/metrics")
	if i.Addresses.Receiver != "" {
		where := "open it in a browser"
		if i.ReceiverMoved != "" {
			where += "; " + i.ReceiverMoved + " is in use"
		}
		line("Receiver", i.Addresses.Receiver+"  ("+where+")")
	}
	line("Database", i.Database)
	line("Data", i.DataDir)
	line("API key", key)
	_ = table.Flush() // a closed pipe is not an error
	fmt.Fprintf(a.stdout, "\n  Console (signs you in once, within a minute; later: %s console):\n\n    %s\n", a.binary, style.Accent(i.Console))
	fmt.Fprintf(a.stdout, "\n  Next, in another terminal:\n\n")
	for _, command := range a.nextCommands(i, set) {
		fmt.Fprintf(a.stdout, "    %s\n", style.Accent(command))
	}
	fmt.Fprintf(a.stdout, "\n  Ctrl-C stops it.\n\n")
}

// nextCommands returns two commands that work unchanged in any folder.
func (a *app) nextCommands(i *allinone.Instance, set settings.Settings) []string {
	where, receiver := "", ""
	if set.DataDir != defaultData {
		where = " --data " + quote(i.DataDir)
	}
	if !i.KeyIsOurs {
		where = ` --key "$` + settings.AdminKey + `"`
		if i.API != defaultServer {
			where += " --server " + i.API
		}
		if i.Addresses.Receiver != defaultReceiver {
			receiver = " --receiver-url " + i.Addresses.Receiver
		}
	}
	register := a.binary + " receiver register" + where + receiver
	if i.Addresses.Receiver == "" {
		register = a.binary + " listen --forward-to http://127.0.0.1:3000/webhooks" + where
	}
	return []string{register, a.binary + " trigger shipment.delivered" + where}
}

// quote quotes text for a shell, if needed.
func quote(text string) string {
	plain := !strings.ContainsFunc(text, func(r rune) bool {
		return !strings.ContainsRune("/._-+:@%,", r) && (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z')
	})
	if plain {
		return text
	}
	return "'" + strings.ReplaceAll(text, "'", `'\''`) + "'"
}
