package cli

import (
	"errors"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/datadir"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/waybill/internal/trial"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/signature"
)

func (a *app) check() *cobra.Command {
	var secret, data string
	var timeout time.Duration
	cmd := &cobra.Command{
		Use:   "check URL",
		Short: "Try a receiver as deliveries do",
		Long: "Tries a receiver: its name, its address by the rules for callbacks, TLS, and\n" +
			"what it answers to a test event, signed rightly and wrongly. It sends at most\n" +
			"three requests, whose data have \"test\": true. Without --secret they are signed\n" +
			"with a fresh one, which a good receiver refuses. The rules are those of the\n" +
			"settings; beside a running `waybill dev`, its own. Ends with exit code 1 if\n" +
			"there is a fault.",
		Example: "  waybill check https://hooks.example.com/in\n" +
			"  waybill check https://hooks.example.com/in --secret whsec_…\n" +
			"  pass show webhook | waybill check https://hooks.example.com/in --secret -",
		Args: cobra.ExactArgs(1),
	}
	own := pflag.NewFlagSet("", pflag.ContinueOnError)
	load := boot.BindSettingsOf(own, settings.Trial)
	cmd.Flags().AddFlagSet(own)
	form := addOutput(cmd)
	cmd.Flags().StringVar(&secret, "secret", "", "the webhook's signing `secret`, whsec_…; -: read it from standard input")
	setVariable(cmd.Flags(), "secret", "WAYBILL_WEBHOOK_SECRET")
	cmd.Flags().DurationVar(&timeout, "timeout", 15*time.Second, "how long an answer may take, as a webhook's timeoutSeconds")
	cmd.Flags().StringVar(&data, "data", defaultData, "data `directory` of waybill dev, whose rules hold if it runs")
	setVariable(cmd.Flags(), "data", settings.DataDir)
	cmd.RunE = run(func(cmd *cobra.Command, args []string) error {
		if timeout < time.Second || timeout > 30*time.Second {
			return usagef("--timeout must be from 1s to 30s")
		}
		role := settings.Trial
		if held, _ := datadir.Held(data); held {
			role = settings.Dev
		}
		set, err := load(role)
		if err != nil {
			return err
		}
		options := trial.Options{
			URL: args[0], Timeout: timeout, Version: a.version,
			Policy: egress.Policy{Allow: set.EgressAllow, HTTP: set.EgressHTTP},
		}
		if options.Secret, options.Known, err = a.trialSecret(secret); err != nil {
			return err
		}
		return a.report(*form, trial.Run(cmd.Context(), options), nil, false)
	})
	return cmd
}

// trialSecret returns the given secret, or a new one.
func (a *app) trialSecret(text string) (key signature.Key, known bool, err error) {
	switch text {
	case "":
		key, err = signature.ParseSecret(domain.NewSecret().Reveal())
		return key, false, err
	case "-":
		read, err := io.ReadAll(io.LimitReader(a.stdin, 4<<10))
		if err != nil {
			return key, false, errors.New("the secret can't be read from standard input")
		}
		text = string(read)
	}
	key, err = signature.ParseSecret(strings.TrimSpace(text))
	if err != nil {
		return key, false, usagef("--secret: %w", err)
	}
	return key, true, nil
}
