package cli

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/forward"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/units"
)

// listening has the flags of `listen`.
type listening struct {
	to, address, target, secret string
	events                      []string
}

func (a *app) listen() *cobra.Command {
	var l listening
	cmd := &cobra.Command{
		Use:   "listen [--forward-to URL]",
		Short: "Forward callbacks to a program on this machine",
		Long: "Registers a webhook for a listener of its own, and forwards each callback to a\n" +
			"URL with bytes and headers unchanged. The answer goes back to Waybill, so\n" +
			"failures are retried. Without a URL it prints the callbacks and answers 200. A\n" +
			"request that is not signed with the webhook's secret gets 401 and is not\n" +
			"forwarded. The webhook is deleted at the end.",
		Example: "  waybill listen --forward-to http://127.0.0.1:3000/webhooks\n" +
			"  waybill listen --forward-to localhost:3000 --events shipment.created\n" +
			"  waybill listen",
		Args: cobra.NoArgs,
	}
	where := addTarget(cmd)
	flags := cmd.Flags()
	flags.StringVar(&l.to, "forward-to", "", "`URL` that gets the callbacks; default: they are printed")
	addEvents(cmd, &l.events)
	flags.StringVar(&l.address, "listen", "127.0.0.1:0", "`address` to listen on; port 0: a free port")
	flags.StringVar(&l.target, "target", "", "`URL` at which Waybill reaches the listener, if it is another one")
	flags.StringVar(&l.secret, "secret", "", "signing `secret`, whsec_…; default a new one")
	form := addOutput(cmd)
	cmd.RunE = run(func(*cobra.Command, []string) error {
		to, err := l.check()
		if err != nil {
			return err
		}
		types, err := eventTypes(l.events)
		if err != nil {
			return err
		}
		key, err := signature.ParseSecret(l.secret)
		if err != nil {
			return usage{fmt.Errorf("--secret: %w", err)}
		}
		c, err := where.connect()
		if err != nil {
			return err
		}
		defer c.Close()
		ctx, stop := boot.Signals(context.Background(), nil)
		defer stop()
		f := forward.New(to, key, a.reporter(*form, to == nil))
		defer f.Close()
		return a.pass(ctx, c, l, types, f)
	})
	return cmd
}

// check reads the URL that gets the callbacks, nil when there is none, and makes a secret
// if none is given.
func (l *listening) check() (to *url.URL, err error) {
	l.target = client.WithScheme(l.target)
	if l.secret == "" {
		l.secret = domain.NewSecret().Reveal()
	}
	if l.to == "" {
		return nil, nil
	}
	if !strings.Contains(l.to, "://") {
		l.to = "http://" + l.to // no key is sent there
	}
	to, err = url.Parse(l.to)
	if err != nil || to.Hostname() == "" || to.Scheme != "http" && to.Scheme != "https" {
		return nil, usagef("--forward-to must be a URL such as http://127.0.0.1:3000/webhooks")
	}
	return to, nil
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
	style := terminal.StyleFor(a.stderr)
	if l.to != "" {
		a.note("%s  %s", style.Bold("Forwarding to "), l.to)
	} else {
		a.note("%s  %s", style.Bold("Listening on  "), l.target)
	}
	a.note("%s  %s", style.Bold("Webhook       "), hook.ID)
	a.note("%s  %s", style.Bold("Signing secret"), l.secret)
	a.note("Ctrl-C stops it and deletes the webhook.\n")
	p := boot.NewProcess(log)
	p.Add("listener", server.Run)
	p.Add("webhook", func(ctx context.Context) error {
		<-ctx.Done()
		return a.forget(context.WithoutCancel(ctx), c, hook.ID)
	})
	return p.Run(ctx)
}

// forget deletes the webhook, or prints how to delete it later.
func (a *app) forget(ctx context.Context, c *client.Client, id string) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	err := c.Delete(ctx, id)
	if client.IsStatus(err, http.StatusNotFound) {
		return nil // it was deleted by someone else
	}
	if err != nil {
		return fmt.Errorf("%s could not be deleted, so its callbacks go on and fail: %w\n  Delete it with: %s webhooks delete %s --server %s", id, err, a.binary, id, c.URL)
	}
	a.note("Webhook deleted.")
	return nil
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
	Body       string    `json:"body,omitempty"` // when it is not forwarded
}

// reporter returns a function that writes one line for each callback; whole: also its headers and
// body.
func (a *app) reporter(form output, whole bool) func(forward.Result) {
	var mu sync.Mutex
	style := a.style()
	return func(p forward.Result) {
		mu.Lock()
		defer mu.Unlock()
		if p.Refused != "" {
			a.note("%s %s for a request that is not signed with the webhook's secret: %s",
				p.At.Format("15:04:05"), terminal.StyleFor(a.stderr).Bad("401"), terminal.Clean(p.Refused))
			return
		}
		reason := ""
		if p.Err != nil {
			reason = short(p.Err)
		}
		if form == asJSON {
			_ = terminal.JSONLine(a.stdout, passed{
				At: p.At.UTC(), Type: p.Type, EventID: p.EventID, Attempt: p.Attempt, Status: p.Status, Error: reason,
				DurationMS: float64(p.Duration.Microseconds()) / 1000, Body: printed(whole, p.Body),
			}) // a closed pipe ends the command anyway
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
		fmt.Fprintf(a.stdout, "%s %s %-19s %s %s%s\n", p.At.Format("15:04:05"), status, terminal.Clean(p.Type), terminal.Clean(p.EventID),
			style.Dim(units.Duration(p.Duration)), rest)
		if whole {
			a.printCallback(p)
		}
	}
}

func printed(whole bool, body []byte) string {
	if !whole {
		return ""
	}
	return string(body)
}

// printCallback prints the parts of a callback that a receiver has to check: the signed headers,
// and the body.
func (a *app) printCallback(p forward.Result) {
	for _, name := range []string{signature.HeaderID, signature.HeaderTimestamp, signature.HeaderSignature} {
		fmt.Fprintf(a.stdout, "  %s: %s\n", name, terminal.Clean(p.Header.Get(name)))
	}
	fmt.Fprintf(a.stdout, "\n  %s\n\n", terminal.Clean(string(p.Body)))
}

// short reduces a network error to the system's own message.
func short(err error) string {
	if number, ok := errors.AsType[syscall.Errno](err); ok {
		return number.Error()
	}
	return err.Error()
}
