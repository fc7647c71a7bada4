package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/console"
	"waybill.dev/cmd/waybill/internal/forward"
	"waybill.dev/shared/domain"
)

// listening is what `listen` is told.
type listening struct {
	to, address, target, secret string
	events                      []string
}

func (a *app) listen() *cobra.Command {
	var l listening
	cmd := &cobra.Command{
		Use:   "listen --forward-to URL",
		Short: "Pass callbacks on to a program on this machine",
		Long: "Registers a webhook for a listener of its own and passes each callback on to a\n" +
			"URL, bytes and headers unchanged. The answer goes back to Waybill, so that\n" +
			"failures are retried. The webhook is deleted at the end.",
		Example: "  waybill listen --forward-to http://127.0.0.1:3000/webhooks\n" +
			"  waybill listen --forward-to http://localhost:3000 --events shipment.created",
		Args: cobra.NoArgs,
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.to, "forward-to", "", "`URL` that gets the callbacks")
	addEvents(cmd, &l.events)
	flags.StringVar(&l.address, "listen", "127.0.0.1:0", "where it listens; port 0: a free one")
	setVariable(flags, "listen", "WAYBILL_LISTEN_ADDR")
	flags.StringVar(&l.target, "target", "", "the listener as Waybill reaches it, when that is another URL")
	flags.StringVar(&l.secret, "secret", "", "signing secret, whsec_…; else a new one")
	setVariable(flags, "secret", "WAYBILL_WEBHOOK_SECRET")
	form := addOutput(cmd)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		to, err := url.Parse(l.to)
		if err != nil || to.Host == "" || to.Scheme != "http" && to.Scheme != "https" {
			return usagef("--forward-to must be a URL such as http://127.0.0.1:3000/webhooks")
		}
		types, err := eventTypes(l.events)
		if err != nil {
			return err
		}
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		f := forward.New(to, a.reporter(*form))
		defer f.Close()
		return a.pass(ctx, c, l, types, f)
	})
	return cmd
}

// pass listens, registers the webhook, and deletes it when ctx is done.
func (a *app) pass(ctx context.Context, c *client.Client, l listening, types []domain.EventType, handler http.Handler) error {
	log := slog.New(slog.DiscardHandler)
	server, err := boot.Listen(ctx, boot.ServerOptions{Name: "listener", Addr: l.address, Setting: "--listen", Handler: handler, Logger: log})
	if err != nil {
		return err
	}
	if l.target == "" {
		l.target = server.URL() + "/"
	}
	hook, err := c.Register(ctx, client.Webhook{URL: l.target, Events: types, Secret: l.secret, Description: "waybill listen"})
	if err != nil {
		return errors.Join(err, server.Close())
	}
	style := console.StyleFor(a.stderr)
	a.note("%s  %s", style.Bold("Forwarding to "), l.to)
	a.note("%s  %s", style.Bold("Webhook       "), hook.ID)
	a.note("%s  %s", style.Bold("Signing secret"), hook.Secret)
	a.note("Ctrl-C stops it and deletes the webhook.\n")
	p := boot.NewProcess(log)
	p.Add("listener", server.Run)
	p.Add("webhook", func(ctx context.Context) error {
		<-ctx.Done()
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		defer cancel()
		err := c.Delete(deleting, hook.ID)
		var problem *client.Problem
		if errors.As(err, &problem) && problem.Status == http.StatusNotFound {
			return nil // somebody else has deleted it
		}
		if err == nil {
			a.note("Webhook deleted.")
		}
		return err
	})
	return p.Run(ctx)
}

// passed is a callback as one line of JSON.
type passed struct {
	At         time.Time `json:"at"`
	Type       string    `json:"type"`
	EventID    string    `json:"eventId"`
	Attempt    int       `json:"attempt"`
	Status     int       `json:"status,omitempty"`
	Error      string    `json:"error,omitempty"`
	DurationMS float64   `json:"durationMs"`
}

// reporter returns what writes one line for each callback.
func (a *app) reporter(form output) func(forward.Passed) {
	var mu sync.Mutex
	style := a.style()
	return func(p forward.Passed) {
		mu.Lock()
		defer mu.Unlock()
		reason := ""
		if p.Err != nil {
			reason = short(p.Err)
		}
		if form == asJSON {
			_ = console.JSONLine(a.stdout, passed{
				At: p.At.UTC(), Type: p.Type, EventID: p.EventID, Attempt: p.Attempt, Status: p.Status, Error: reason,
				DurationMS: float64(p.Duration.Microseconds()) / 1000,
			}) // a closed pipe ends the command by itself
			return
		}
		status, rest := style.Good(strconv.Itoa(p.Status)), ""
		if p.Status >= http.StatusMultipleChoices {
			status = style.Bad(strconv.Itoa(p.Status))
		}
		if p.Attempt > 1 {
			rest += style.Warn(fmt.Sprintf(" #%d", p.Attempt))
		}
		if p.Err != nil {
			status = style.Bad("---")
			rest += " " + style.Bad("no answer: "+reason)
		}
		// As a rule 79 columns wide.
		fmt.Fprintf(a.stdout, "%s %s %-19s %s %s%s\n", p.At.Format("15:04:05"), status, console.Clean(p.Type), console.Clean(p.EventID),
			style.Dim(p.Duration.Round(100*time.Microsecond).String()), rest)
	}
}

// short leaves of a network error what the system said.
func short(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
}
