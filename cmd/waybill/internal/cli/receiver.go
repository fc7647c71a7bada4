package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/shared/domain"
)

func (a *app) receiver() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "receiver",
		Short: "Run a receiver with a page that checks signatures",
		Long: "Runs the receiver that `waybill dev` has built in. It records every POST, shows\n" +
			"header by header whether the signature verifies, and answers as you tell it. To\n" +
			"what is not signed with a secret that it knows for the path it answers 401. Use\n" +
			"it to try things out.",
		Example: "  waybill receiver\n  waybill receiver --receiver 127.0.0.1:9999\n  waybill receiver register",
		Args: func(cmd *cobra.Command, args []string) error {
			if len(args) > 0 {
				return unknownCommand(cmd, args[0])
			}
			return nil
		},
	}
	load := addSettings(cmd, settings.Receiver)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		set, err := load()
		if err != nil {
			return err
		}
		if set.ReceiverAddr == "" {
			return fmt.Errorf("%s is none: the receiver needs an address", settings.ReceiverAddr)
		}
		log := telemetry.NewLogger(a.stderr, set.LogLevel, set.LogFormat)
		slog.SetDefault(telemetry.Stray(log))
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		server, err := boot.Listen(ctx, boot.ServerOptions{
			Name: "Receiver", Addr: set.ReceiverAddr, Setting: "--receiver or " + settings.ReceiverAddr,
			Handler: receiver.New().Handler(), Logger: log, EndCalls: true,
			MaxConnections: set.MaxConnections,
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(a.stdout, "Receiver at %s\n", server.URL())
		p := boot.NewProcess(log)
		p.Add("receiver", server.Run)
		return p.Run(ctx)
	})
	cmd.AddCommand(a.register())
	return cmd
}

// registration has the flags of `receiver register`.
type registration struct {
	receiver, target, path string
	events                 []string
	status, times          int
	delay                  time.Duration
}

func (a *app) register() *cobra.Command {
	var r registration
	cmd := &cobra.Command{
		Use:   "register",
		Short: "Register a receiver as a webhook",
		Long: "Registers a path of a receiver as a webhook, and gives the webhook's secret to\n" +
			"the receiver, which then checks every signature. If you register the same URL\n" +
			"again, it stays the same webhook and gets the new events.",
		Example: "  waybill receiver register\n" +
			"  waybill receiver register --path /in/flaky --status 503 --times 2\n" +
			"  waybill receiver register --target http://receiver:8090",
		Args: cobra.NoArgs,
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringVar(&r.receiver, "receiver-url", "", "`URL` of the receiver; default: that of the installation in the data directory, else "+defaultReceiver)
	flags.StringVar(&r.target, "target", "", "`URL` at which Waybill reaches the receiver, if it is another one")
	flags.StringVar(&r.path, "path", "/in/demo", "`path` of the receiver")
	addEvents(cmd, &r.events)
	flags.IntVar(&r.status, "status", 0, "status that the path answers with; 0: 200")
	flags.IntVar(&r.times, "times", 0, "how many attempts of each event get --status and --delay; 0: all")
	flags.DurationVar(&r.delay, "delay", 0, "how long the path waits before it answers")
	form := addOutput(cmd)
	cmd.RunE = run(func(cmd *cobra.Command, _ []string) error {
		return a.registerReceiver(cmd.Context(), where, r, *form)
	})
	return cmd
}

func (a *app) registerReceiver(ctx context.Context, where *target, r registration, form output) error {
	types, err := eventTypes(r.events)
	if err != nil {
		return err
	}
	if !strings.HasPrefix(r.path, "/") || strings.HasPrefix(r.path, "/-/") || strings.ContainsAny(r.path, "?#") {
		return usagef("--path must begin with / and have no query")
	}
	if r.receiver = client.WithScheme(r.receiver); r.receiver == "" {
		if r.receiver, err = where.receiverURL(); err != nil {
			return err
		}
	}
	if r.target = client.WithScheme(r.target); r.target == "" {
		r.target = r.receiver
	}
	c, err := where.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	hook, fresh, err := r.webhook(ctx, c, types)
	if err != nil {
		return err
	}
	if form == asJSON {
		hook.Secret = ""
		return terminal.JSON(a.stdout, hook)
	}
	terminal.Table(a.stdout, []string{"WEBHOOK", "URL"}, [][]string{{hook.ID, hook.URL}})
	if !fresh {
		a.note("This URL was registered already. It stays the same webhook.")
	}
	a.note("Its callbacks are shown at %s", r.receiver)
	return nil
}

// registeredBy marks the webhooks that this command has registered: it may give them a new secret.
const registeredBy = "waybill receiver register"

// webhook registers the receiver's path, or returns the existing webhook of that path. The receiver
// gets the secret before a callback can arrive that is signed only with it.
func (r *registration) webhook(ctx context.Context, c *client.Client, types []domain.EventType) (hook client.Webhook, fresh bool, err error) {
	at := strings.TrimSuffix(r.target, "/") + r.path + r.query()
	list, err := c.Webhooks(ctx)
	if err != nil {
		return hook, false, err
	}
	n := slices.IndexFunc(list, func(w client.Webhook) bool { return w.URL == at && w.Description == registeredBy })
	if n < 0 {
		secret := domain.NewSecret()
		if err := tellReceiver(ctx, r.receiver, r.path, secret); err != nil {
			return hook, false, err
		}
		hook, err = c.Register(ctx, client.Webhook{URL: at, Events: types, Secret: secret.Reveal(), Description: registeredBy})
		return hook, true, err
	}
	if hook, err = c.Update(ctx, list[n].ID, types); err != nil {
		return hook, false, err
	}
	// The secret can't be read again. The receiver may have been restarted, so it gets a new secret
	// while callbacks carry both signatures.
	secret, err := c.Rotate(ctx, hook.ID, overlap)
	if err != nil {
		return hook, false, err
	}
	return hook, false, tellReceiver(ctx, r.receiver, r.path, secret)
}

// overlap is how long callbacks carry the signature of the former secret too.
const overlap = time.Minute

// query returns the query of the webhook's URL, by which the receiver is asked for an answer.
func (r *registration) query() string {
	q := url.Values{}
	if r.status != 0 {
		q.Set("status", strconv.Itoa(r.status))
	}
	if r.delay != 0 {
		q.Set("delay", r.delay.String())
	}
	if r.times != 0 {
		q.Set("times", strconv.Itoa(r.times))
	}
	if len(q) == 0 {
		return ""
	}
	return "?" + q.Encode()
}

func tellReceiver(ctx context.Context, base, path string, secret domain.Secret) error {
	body, err := json.Marshal(map[string]string{"path": path, "secret": secret.Reveal()})
	if err != nil {
		return fmt.Errorf("encode secret: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, strings.TrimSuffix(base, "/")+"/-/paths", bytes.NewReader(body))
	if err != nil {
		return usagef("--receiver-url is not a URL")
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := client.NewHTTP().Do(request)
	if err != nil {
		return fmt.Errorf("the receiver: %w", client.NoAnswer(base, err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusNoContent {
		text, _ := io.ReadAll(io.LimitReader(response.Body, 300)) // the status says the same
		return fmt.Errorf("the server at %s is not a receiver, or refuses the request: %d %s", base, response.StatusCode, terminal.Clean(strings.TrimSpace(string(text))))
	}
	return nil
}

// addEvents adds --events, a choice of event types.
func addEvents(cmd *cobra.Command, events *[]string) {
	cmd.Flags().StringSliceVar(events, "events", nil, "event types, separated by commas; default all four")
	_ = cmd.RegisterFlagCompletionFunc("events", cobra.FixedCompletions(typeNames(), cobra.ShellCompDirectiveNoFileComp))
}

func eventTypes(names []string) ([]domain.EventType, error) {
	if len(names) == 0 {
		return domain.EventTypes(), nil
	}
	var types []domain.EventType
	for _, name := range names {
		t := domain.EventType(strings.TrimSpace(name))
		if !t.Valid() {
			return nil, usagef("--events: %q is not an event type; the types are %s", terminal.Clean(name), strings.Join(typeNames(), ", "))
		}
		types = append(types, t)
	}
	return types, nil
}
