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
	var server, key, natsURL string
	o := demo.Options{Version: a.version, Out: a.stdout, Notes: a.stderr, Style: a.style()}
	cmd := &cobra.Command{
		Use:   "demo",
		Short: "Watch four events arrive as signed callbacks",
		Long: "Starts everything in this process, on free ports and in a temporary directory.\n" +
			"Publishes the four shipment events and shows their callbacks. The\n" +
			"standard-webhooks library checks the signatures. With --server the demo uses an\n" +
			"installation that runs already.",
		Example: "  waybill demo\n" +
			"  waybill demo --server http://127.0.0.1:8080 --key \"$WAYBILL_ADMIN_KEY\" \\\n" +
			"    --nats-url nats://127.0.0.1:4222",
		Args: cobra.NoArgs,
	}
	flags := cmd.Flags()
	flags.StringVar(&server, "server", "", "`URL` of an installation that runs already")
	flags.StringVar(&key, "key", "", "API `key` of that installation")
	flags.StringVar(&natsURL, "nats-url", "", "NATS server of that installation, a `URL`")
	flags.StringVar(&o.ReceiverAddr, "receiver-addr", "", "address for callbacks; default a free port on loopback")
	flags.StringVar(&o.ReceiverURL, "receiver-url", "", "`URL` at which the installation reaches that address")
	// The demo must not use an installation of other commands unless asked to.
	for _, name := range []string{"server", "key", "nats-url", "receiver-addr", "receiver-url"} {
		setVariable(flags, name, "WAYBILL_DEMO_"+strings.ToUpper(strings.ReplaceAll(name, "-", "_")))
	}
	renamed(flags, "url", "server")
	cmd.RunE = run(func(*cobra.Command, []string) error {
		if server != "" && (natsURL == "" || key == "") {
			return usagef("--server needs --key and --nats-url too")
		}
		if server != "" {
			var err error
			if server, err = serverURL(server); err != nil {
				return err
			}
		}
		o.URL, o.Key, o.NATSURL = server, domain.Secret(key), domain.Secret(natsURL)
		if o.KeyFrom = "the variable WAYBILL_DEMO_KEY"; flags.Changed("key") {
			o.KeyFrom = "the flag --key"
		}
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		return demo.Run(ctx, o)
	})
	return cmd
}
