package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"waybill.dev/cmd/internal/provenance"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

// bench is what all measurements share.
type bench struct {
	options
	site      *stack.Site
	work      string // folder of all that is made
	receiver  *load.Child
	publisher *load.Child
	address   string // of the receiver
	progress  io.Writer
	undo      []func() error
}

func (b *bench) say(format string, args ...any) {
	fmt.Fprintf(b.progress, format+"\n", args...)
}

// run measures what was asked for; ok says that nothing was lost, repeated or failed.
func run(ctx context.Context, o options, out, progress io.Writer) (ok bool, err error) {
	if o.quick {
		o.duration = 700 * time.Millisecond
	}
	b := &bench{options: o, progress: progress}
	if o.budget != "" {
		return b.watchCost(ctx, out)
	}
	chosen, err := choose(scenarios(), o.only, func(s scenario) string { return s.name })
	if err != nil {
		return false, err
	}
	forms, err := choose([]string{formSplit, formAllInOne}, o.form, func(s string) string { return s })
	if err != nil {
		return false, err
	}
	grown, err := choose(axes(), o.growth, func(a axis) string { return a.name })
	if err != nil {
		return false, err
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx); err != nil {
		return false, err
	}
	r := newReport(b)
	if o.markdown != "" {
		if r.root, r.Commit, err = provenance.Commit(ctx); err != nil {
			return false, err
		}
	}
	if o.growth != "" {
		err = b.grow(ctx, r, grown, forms, out)
	} else {
		err = b.scenarios(ctx, r, chosen, forms, out)
	}
	if ctx.Err() != nil {
		return false, ctx.Err()
	}
	// What was measured before something failed is worth having.
	err = errors.Join(err, r.write(o))
	return err == nil && r.good(), err
}

// prepare builds the binaries and starts receiver and publisher. What it did before it
// failed is undone by close all the same.
func (b *bench) prepare(ctx context.Context) error {
	dir := b.dir
	if dir == "" {
		made, err := os.MkdirTemp("", "waybill-bench-")
		if err != nil {
			return fmt.Errorf("make the working folder: %w", err)
		}
		b.undo = append(b.undo, func() error { return os.RemoveAll(made) })
		dir = made
	}
	b.say("building the binaries")
	var err error
	b.work = dir
	if b.site, err = stack.NewSite(ctx, filepath.Clean(dir)); err != nil {
		return err
	}
	return b.startLoad(ctx)
}

// startLoad starts receiver and publisher, which close ends.
func (b *bench) startLoad(ctx context.Context) (err error) {
	kind := load.KindReceiver
	if b.netHTTP {
		kind = load.KindNetReceiver
	}
	if b.receiver, err = load.Start(ctx, kind); err != nil {
		return err
	}
	b.undo = append(b.undo, b.receiver.Close)
	if b.publisher, err = load.Start(ctx, load.KindPublisher); err != nil {
		return err
	}
	b.undo = append(b.undo, b.publisher.Close)
	received, err := b.receiver.Receive(nil)
	b.address = received.Address
	return err
}

// close ends what prepare started, in reverse.
func (b *bench) close() error {
	var list []error
	for _, undo := range slices.Backward(b.undo) {
		list = append(list, undo())
	}
	return errors.Join(list...)
}

// scenarios runs them in each form. The bare loop runs before and after: the machine may
// have become slower or faster meanwhile.
func (b *bench) scenarios(ctx context.Context, r *report, chosen []scenario, forms []string, out io.Writer) error {
	if err := b.bareLoop(ctx, r); err != nil {
		return err
	}
	for _, form := range forms {
		if err := b.inForm(ctx, r, chosen, form, out); err != nil {
			return err
		}
	}
	if !b.quick {
		if err := b.bareLoop(ctx, r); err != nil {
			return err
		}
	}
	r.compare()
	r.table(out)
	return nil
}

// inForm runs scenarios in a form, each in a fresh stack; in a quick run all in one.
func (b *bench) inForm(ctx context.Context, r *report, chosen []scenario, form string, out io.Writer) error {
	var rg *rig
	for i, s := range chosen {
		b.say("%s %s: %s", form, s.name, s.what)
		if rg == nil {
			var err error
			if rg, err = b.open(ctx, s.name, form, b.dispatchers); err != nil {
				return err
			}
		}
		one := &result{Scenario: s.name, Form: form, What: s.what, paced: s.rate > 0}
		err := rg.scenario(ctx, s, one)
		if err != nil {
			one.fail("could not be run to its end: %v", err)
		}
		if err != nil || !b.quick || i == len(chosen)-1 {
			if err := rg.close(); err != nil {
				one.fail("%v", err)
			}
			rg = nil
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.Results = append(r.Results, one)
		r.compare()
		one.print(out)
	}
	return nil
}

// scenario measures one scenario, and leaves no webhook of it.
func (r *rig) scenario(ctx context.Context, s scenario, one *result) error {
	started := time.Now()
	h, err := r.register(ctx, r.api, 0, s.webhooks, "shipment.in_transit", s.webhook())
	if err != nil {
		return err
	}
	p := phase{
		job: load.Job{
			Way: s.way, Rate: s.rate, Connections: s.connections,
			Events: s.events(r.options), For: r.duration,
		},
		flock:    load.Flock{Name: "all", To: s.webhooks, Each: true, Delay: s.delay},
		perEvent: s.webhooks, secrets: h.secrets,
	}
	if err := r.warm(ctx, p); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	var faults []string
	taken := r.profile(ctx, r.profiles, s.name, r.duration)
	one.figures, faults, err = r.measure(ctx, p)
	err = errors.Join(err, taken.wait())
	one.Faults = append(one.Faults, faults...)
	one.Seconds = time.Since(started).Seconds()
	if err != nil || !r.quick {
		return err
	}
	return r.remove(ctx, h)
}

// bareLoop measures what a loop without queue and store sends to the receiver.
func (b *bench) bareLoop(ctx context.Context, r *report) error {
	b.say("bare loop: HMAC and POST, %d at a time", bareWorkers)
	loop, err := load.Start(ctx, load.KindLoop)
	if err != nil {
		return err
	}
	defer loop.Close()
	bare := load.Bare{
		URL: fmt.Sprintf("http://%s/0", b.address), Secret: bareSecret, Workers: bareWorkers,
		Events: int(float64(maxPerSecond) * b.duration.Seconds()), For: b.duration, Size: b.size,
	}
	one := &result{Scenario: "bare loop", What: fmt.Sprintf("HMAC and POST, %d at a time", bareWorkers)}
	_, err = b.receiver.Receive(&load.Setup{
		Flocks:  []load.Flock{{Name: "all", To: 1, Events: bare.Events, Each: true}},
		Secrets: map[int]string{0: bareSecret},
	})
	if err != nil {
		return err
	}
	groups := []meter.Group{{Name: load.KindLoop, Pid: loop.Pid()}, {Name: load.KindReceiver, Pid: b.receiver.Pid()}}
	before, err := meter.CPU(groups)
	if err != nil {
		return err
	}
	sent, err := loop.Loop(bare)
	if err != nil {
		return err
	}
	after, err := meter.CPU(groups)
	if err != nil {
		return err
	}
	received, err := b.receiver.Receive(nil)
	if err != nil {
		return err
	}
	tally := received.Tally("all")
	one.figures = figures{
		Events: sent.Events, Deliveries: tally.Unique, Accepted: sent.PerSecond(), Delivered: tally.PerSecond(),
		Publish: sent.Latency, Latency: tally.Latency, Checked: received.Checked,
		Lost: sent.Events - tally.Unique, Repeated: tally.Repeated, Refused: sent.Refused,
	}
	one.use(before, after, meter.Memory{})
	one.Faults = one.faults(sent, received)
	r.Bare = append(r.Bare, one)
	b.say("  %s POSTs/s", grouped(tally.PerSecond()))
	return nil
}

const (
	bareWorkers = 64
	// bareSecret signs what goes to this program's own receiver, and nothing else.
	bareSecret = "whsec_YSBzZWNyZXQgdGhhdCBzaWducyBub3RoaW5n"
)
