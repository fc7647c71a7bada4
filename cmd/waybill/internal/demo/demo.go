// Package demo shows Waybill at work. It publishes the four shipment events, each in
// another way, receives their callbacks, and checks every signature with the library
// of Standard Webhooks, which shares no code with Waybill.
package demo

import (
	"bytes"
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"time"

	"waybill.dev/cmd/internal/boot"
	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/internal/receiver"
	"waybill.dev/cmd/internal/sample"
	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/cmd/internal/terminal"
	"waybill.dev/cmd/waybill/internal/allinone"
	"waybill.dev/shared/domain"
)

const (
	// limit of the whole demo, which takes a few seconds.
	limit = 60 * time.Second
	// spread is how long a change of webhooks takes to reach every dispatcher.
	spread = 1500 * time.Millisecond
)

// Options of a demo.
type Options struct {
	Version string
	Out     io.Writer // callbacks and the result
	Notes   io.Writer // what the demo is doing
	Style   terminal.Style

	// URL of a running installation; empty: the demo starts its own in this process.
	URL     string
	Key     domain.Secret
	KeyFrom string        // where the key was taken from, for messages
	NATSURL domain.Secret // of the running installation
	// ReceiverAddr is the address at which callbacks are received, ReceiverURL the same as seen
	// from the installation; empty: a free port on loopback.
	ReceiverAddr string
	ReceiverURL  string
}

// demo is one run.
type demo struct {
	Options

	own       bool // the installation runs in this process
	client    *client.Client
	receiver  *receiver.Receiver
	callbacks <-chan receiver.Callback
	hooks     map[string]client.Webhook // by path
	step      int
	verified  int
}

// Run runs the demo. It returns nil only when all four events were delivered and verified,
// one of them on its third attempt.
func Run(ctx context.Context, o Options) (err error) {
	started := time.Now()
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	d := &demo{Options: o, receiver: receiver.New(), hooks: make(map[string]client.Webhook)}
	if d.own = d.URL == ""; d.own {
		stop, startErr := d.start(ctx)
		if startErr != nil {
			return startErr
		}
		defer func() { err = errors.Join(err, stop(err)) }()
	}
	if d.client, err = client.New(client.Access{URL: d.URL, Key: d.Key, From: d.KeyFrom}); err != nil {
		return err
	}
	defer d.client.Close()
	stop, err := d.receive(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, stop()) }()
	if err := d.story(ctx); err != nil {
		if errors.Is(ctx.Err(), context.DeadlineExceeded) {
			return fmt.Errorf("the demo took longer than %s: %w", limit, err)
		}
		return err
	}
	fmt.Fprintf(d.Out, "%s in %.1f s.\n", d.Style.Good("4 of 4 delivered and verified, one of them on its third attempt,"), time.Since(started).Seconds())
	return nil
}

// start runs an installation in this process, in a directory that is removed at the end.
func (d *demo) start(ctx context.Context) (stop func(error) error, err error) {
	dir, err := os.MkdirTemp("", "waybill-demo-")
	if err != nil {
		return nil, fmt.Errorf("make demo directory: %w", err)
	}
	var log bytes.Buffer
	logger := telemetry.NewLogger(&log, slog.LevelWarn, "text")
	slog.SetDefault(telemetry.Stray(logger))
	remove := func(err error) error { return errors.Join(err, os.RemoveAll(dir)) }
	set, err := settings.Load(settings.Dev, settings.MadeFrom(map[string]string{
		settings.HTTPAddr: "127.0.0.1:0", settings.OpsAddr: "127.0.0.1:0", settings.NATSAddr: "127.0.0.1:0",
		settings.ReceiverAddr: "none", settings.DataDir: dir,
	}))
	if err != nil {
		return nil, remove(err)
	}
	instance, err := allinone.Open(ctx, set, d.Version, logger, nil)
	if err != nil {
		return nil, remove(err)
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- instance.Run(running) }()
	d.URL, d.Key, d.NATSURL = instance.API, instance.AdminKey, domain.Secret(instance.NATS)
	d.note("%s in this process: API, dispatcher, NATS, SQLite.", d.Style.Bold("Waybill "+d.Version))
	return func(cause error) error {
		end()
		err := remove(<-ended)
		if cause != nil || err != nil {
			_, _ = log.WriteTo(d.Notes) // the log says why it failed
		}
		return err
	}, nil
}

// receive opens the receiver and registers its two paths.
func (d *demo) receive(ctx context.Context) (stop func() error, err error) {
	addr := cmp.Or(d.ReceiverAddr, "127.0.0.1:0")
	server, err := boot.Listen(ctx, boot.ServerOptions{
		Name: "receiver", Addr: addr, Setting: "--receiver-addr", Handler: d.receiver.Handler(), Logger: slog.New(slog.DiscardHandler), EndCalls: true,
	})
	if err != nil {
		return nil, err
	}
	if d.ReceiverURL == "" {
		d.ReceiverURL = server.URL()
	}
	running, end := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan error, 1)
	go func() { ended <- server.Run(running) }()
	var unsubscribe func()
	d.callbacks, unsubscribe = d.receiver.Subscribe()
	stop = func() error {
		defer unsubscribe()
		deleting, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
		defer cancel()
		var errs []error
		for _, hook := range d.hooks {
			errs = append(errs, d.client.Delete(deleting, hook.ID))
		}
		end()
		return errors.Join(append(errs, <-ended)...)
	}
	if err := d.register(ctx); err != nil {
		return nil, errors.Join(err, stop())
	}
	return stop, nil
}

const (
	steady = "/in/steady"
	flaky  = "/in/flaky"
)

func (d *demo) register(ctx context.Context) error {
	if err := d.receiver.Behave(flaky, receiver.Answer{Status: http.StatusServiceUnavailable, Times: 2}); err != nil {
		return err
	}
	d.note("Two webhooks are registered:")
	for _, hook := range []client.Webhook{
		{URL: d.ReceiverURL + steady, Events: []domain.EventType{domain.ShipmentCreated, domain.ShipmentInTransit, domain.ShipmentDelivered}},
		{URL: d.ReceiverURL + flaky, Events: []domain.EventType{domain.ShipmentException}, RetryScheduleSeconds: []float64{0.3, 0.6, 5, 10}},
	} {
		path, what := steady, "answers 200"
		if hook.RetryScheduleSeconds != nil {
			path, what = flaky, "fails twice; retries after 0.3 s, 0.6 s"
		}
		hook.Description = "waybill demo"
		made, err := d.client.Register(ctx, hook)
		if err != nil {
			return fmt.Errorf("register webhook: %w", err)
		}
		d.hooks[path] = made
		d.note("  %-36s  %s", made.URL, what)
	}
	d.note("")
	return nil
}

// event returns a fresh event with the sample's data.
func event(t domain.EventType) (id string, body, data []byte, err error) {
	if data, err = sample.Data(t); err != nil {
		return "", nil, nil, err
	}
	id = "evt_" + hex.EncodeToString(domain.NewSecretBytes(16))
	return id, sample.Event(id, t, time.Now(), data), data, nil
}

func (d *demo) note(format string, args ...any) { fmt.Fprintf(d.Notes, format+"\n", args...) }
