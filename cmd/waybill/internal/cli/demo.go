package cli

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/waybill/internal/demo"
	"waybill.dev/shared/domain"
)

func (a *app) demo() *cobra.Command {
	var url, key, natsURL string
	o := demo.Options{Version: a.version, Out: a.stdout, Notes: a.stderr, Style: a.style()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch four events arrive as signed callbacks",
		Long: "Starts everything in this process, on free ports and in a directory that is\n" +
			"removed again, publishes the four shipment events, and shows their callbacks.\n" +
			"The signatures are checked by the standard-webhooks library. With --url it works\n" +
			"on an installation that runs already.",
		Example: "  waybill demo\n" +
			"  waybill demo --url http://127.0.0.1:8080 --key \"$WAYBILL_ADMIN_KEY\" \\\n" +
			"    --nats-url nats://127.0.0.1:4222",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&url, "url", "", "an installation that runs already")
	flags.StringVar(&key, "key", "", "API key of that installation")
	flags.StringVar(&natsURL, "nats-url", "", "NATS server of that installation")
	flags.StringVar(&o.ReceiverAddr, "receiver-addr", "", "where callbacks are received; else a free port on loopback")
	flags.StringVar(&o.ReceiverURL, "receiver-url", "", "the same as the installation reaches it")
	// An installation that other commands work with must not turn up here unasked.
	for _, name := range []string{"url", "key", "nats-url", "receiver-addr", "receiver-url"} {
		setVariable(flags, name, "WAYBILL_DEMO_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	cmd.RunE = run(func(*cobra.Command, []string) error {
		if url != "" && (natsURL == "" || key == "") {
			return usagef("--url needs --key and --nats-url too")
		}
		o.URL, o.Key, o.NATSURL = url, domain.Secret(key), domain.Secret(natsURL)
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		return demo.Run(ctx, o)
	})
	return cmd
}
