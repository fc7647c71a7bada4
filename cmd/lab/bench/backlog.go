package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

// sip is how long others publish at a time while a backlog drains.
const sip = 5 * time.Second

// steady is what healthy webhooks get meanwhile: few events, whose latency is watched.
func (r *rig) steady(p phase) phase {
	p.job.Rate, p.job.Connections = 100, 8
	p.job.Events = int(p.job.Rate * r.duration.Seconds())
	return p
}

// note measures a phase as a point of its own.
func (r *rig) note(ctx context.Context, g *growth, n int, what string, p phase) (figures, error) {
	r.say("  %s", what)
	f, faults, err := r.measure(ctx, p)
	if err != nil {
		return f, fmt.Errorf("%s: %w", what, err)
	}
	g.Points = append(g.Points, point{At: n, What: what, figures: f})
	for _, fault := range faults {
		g.fail("%s: %s", what, fault)
	}
	return f, nil
}

// verdict notes a figure with its target.
func (g *growth) verdict(figure string, least bool, want, got float64) {
	g.Verdicts = append(g.Verdicts, verdict{Figure: figure, Least: least, Want: want, Got: got, Met: least == (got > want) || got == want})
}

// backlog holds n deliveries of an inactive webhook, then activates it.
func backlog(ctx context.Context, r *rig, n int, g *growth) error {
	healthy, err := r.ten(ctx)
	if err != nil {
		return err
	}
	// The baseline and the backlog go to the same webhook, with the same limits.
	h, err := r.register(ctx, r.api, trouble, 1, kindTrouble, client.Webhook{})
	if err != nil {
		return err
	}
	alone := phase{
		job: load.Job{
			Way: load.WayBatch, Type: kindTrouble, Connections: fillConnections,
			Events: scenario{perSecond: 40_000}.events(r.options), For: r.duration,
		},
		flock: load.Flock{Name: "one", From: trouble, To: trouble + 1, Each: true}, perEvent: 1, secrets: h.secrets,
	}
	if err := r.warm(ctx, healthy); err != nil {
		return err
	}
	one, err := r.note(ctx, g, 0, "one webhook, REST batches", alone)
	if err != nil {
		return err
	}
	before, err := r.note(ctx, g, 0, "10 others at 100 events/s", r.steady(healthy))
	if err != nil {
		return err
	}
	first, err := r.hold(ctx, h, n, g)
	if err != nil {
		return err
	}
	drained, others, err := r.drain(ctx, h, n, first, healthy, g)
	if err != nil {
		return err
	}
	g.verdict("share of the one-webhook rate at which the backlog drains", true, 0.8, drained/one.Delivered)
	g.verdict("p99 of the others while it drains, to theirs before", false, 2, others.P99/before.Latency.P99)
	return nil
}

// hold publishes n events for a webhook that is inactive, and returns the first's number.
func (r *rig) hold(ctx context.Context, h hooks, n int, g *growth) (first int64, err error) {
	r.say("  holding %d", n)
	if err := r.api.SetActive(ctx, h.ids[0], false); err != nil {
		return 0, err
	}
	first = r.numbers(n)
	if _, err := r.receiver.Receive(&load.Setup{}); err != nil {
		return 0, err
	}
	if err := r.fill(load.Job{Type: kindTrouble, First: first, Events: n}); err != nil {
		return 0, err
	}
	if _, err := r.awaitQuiet(ctx); err != nil {
		return 0, err
	}
	received, err := r.receiver.Receive(nil)
	if err != nil {
		return 0, err
	}
	if received.Faults > 0 {
		g.fail("while the webhook was inactive: %s", received.FirstFault)
	}
	memory, err := r.memoryAtRest(ctx)
	if err != nil {
		return 0, err
	}
	g.verdict("MB of services and bus with all held", false, 150, memory)
	return first, nil
}

// Go gives memory back slowly: it is collected every two minutes at the latest, and
// nats-server remembers the ids of messages for two minutes.
const (
	settleEvery = 5 * time.Second
	settleAfter = 130 * time.Second // without less memory than before
	settleMost  = 8 * time.Minute
)

// memoryAtRest is the memory of the services and the bus, without Postgres, in MB, when it no
// longer becomes less. A quick run takes it as it is.
func (r *rig) memoryAtRest(ctx context.Context) (float64, error) {
	var least int64
	started := time.Now()
	lessAt := started
	err := stack.Poll(ctx, settleEvery, func() (bool, error) {
		now, err := meter.Resident(r.own())
		if err != nil {
			return false, err
		}
		var sum int64
		for name, bytes := range now {
			if name != "postgres" {
				sum += bytes
			}
		}
		if least == 0 || sum < least-least/100 {
			least, lessAt = sum, time.Now()
		}
		return r.quick || time.Since(lessAt) > settleAfter || time.Since(started) > settleMost, nil
	})
	return megabytes(least), err
}

// drain activates the webhook and returns how fast what was held came, and what the
// others' latency was meanwhile.
func (r *rig) drain(ctx context.Context, h hooks, n int, first int64, healthy phase, g *growth) (rate float64, others meter.Quantiles, err error) {
	r.say("  draining")
	const most = time.Hour
	p := r.steady(healthy)
	p.flock.Events = int(p.job.Rate * most.Seconds())
	p.flock.First = r.numbers(p.flock.Events)
	held := load.Flock{Name: "held", From: trouble, To: trouble + 1, First: first, Events: n, Each: true}
	if _, err := r.receiver.Receive(&load.Setup{Flocks: []load.Flock{p.flock, held}, Secrets: h.secrets}); err != nil {
		return 0, others, err
	}
	sampler := meter.Watch(ctx, r.own())
	defer sampler.Stop() //nolint:errcheck // an error is returned below, where it matters
	if err := r.api.SetActive(ctx, h.ids[0], true); err != nil {
		return 0, others, err
	}
	next, published, last, changed := p.flock.First, int64(0), load.Tally{}, time.Now()
	for last.Unique < int64(n) && time.Since(changed) < stalled && next < p.flock.First+int64(p.flock.Events) {
		j := p.job
		j.First, j.Events = next, int(p.job.Rate*sip.Seconds())
		more, err := r.publisher.Publish(r.job(j))
		if err != nil {
			return 0, others, err
		}
		next += int64(j.Events)
		published += more.Events
		received, err := r.receiver.Receive(nil)
		if err != nil {
			return 0, others, err
		}
		if t := received.Tally("held"); t.Unique != last.Unique {
			last, changed = t, time.Now()
		}
		r.say("    %s of %s", grouped(float64(last.Unique)), grouped(float64(n)))
	}
	if _, err := r.awaitArrivals(ctx, p.flock.Name, published*busy); err != nil {
		return 0, others, err
	}
	received, err := r.sides(g, n, sampler,
		side{held.Name, "drained", int64(n)},
		side{p.flock.Name, "the others meanwhile", published * busy})
	return received.Tally(held.Name).PerSecond(), received.Tally(p.flock.Name).Latency, err
}

// side is a flock that gets its deliveries beside another one.
type side struct {
	flock, what string
	want        int64
}

// sides notes what came of flocks beside each other as a point each.
func (r *rig) sides(g *growth, n int, sampler *meter.Sampler, list ...side) (load.Received, error) {
	memory, err := sampler.Stop()
	if err != nil {
		return load.Received{}, err
	}
	received, err := r.receiver.Receive(nil)
	if err != nil {
		return load.Received{}, err
	}
	for _, s := range list {
		t := received.Tally(s.flock)
		f := figures{Events: s.want, Deliveries: t.Unique, Delivered: t.PerSecond(), Latency: t.Latency, Lost: s.want - t.Unique, Repeated: t.Repeated}
		f.use(nil, nil, memory)
		g.Points = append(g.Points, point{At: n, What: s.what, figures: f})
		for _, fault := range f.faults(load.Published{}, received) {
			g.fail("%s: %s", s.what, fault)
		}
	}
	return received, nil
}

// scheduled has n deliveries wait for their retry, then kills every process but Postgres
// and starts them again.
func scheduled(ctx context.Context, r *rig, n int, g *growth) error {
	healthy, err := r.ten(ctx)
	if err != nil {
		return err
	}
	if err := r.troubled(ctx); err != nil {
		return err
	}
	if err := r.warm(ctx, healthy); err != nil {
		return err
	}
	before, err := r.note(ctx, g, 0, "10 webhooks at 100 events/s", r.steady(healthy))
	if err != nil {
		return err
	}
	r.say("  scheduling %d", n)
	if err := r.schedule(ctx, n); err != nil {
		return err
	}
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	memory, err := r.memoryAtRest(ctx)
	if err != nil {
		return err
	}
	g.verdict("MB of services and bus with all scheduled", false, 900, memory)
	after, err := r.note(ctx, g, n, "10 webhooks at 100 events/s", r.steady(healthy))
	if err != nil {
		return err
	}
	g.verdict("p99 of others with all scheduled, to theirs before", false, 2, after.Latency.P99/before.Latency.P99)
	ready, err := r.restart(ctx)
	if err != nil {
		return fmt.Errorf("start again after kill -9: %w", err)
	}
	g.verdict("seconds until ready after kill -9 of all", false, 10, ready.Seconds())
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	again, err := r.note(ctx, g, n, "the same after kill -9 of all", r.steady(healthy))
	if err != nil {
		return err
	}
	g.verdict("p99 of others after the restart, to theirs before", false, 2, again.Latency.P99/before.Latency.P99)
	return nil
}

// restart kills every process of Waybill and the bus, and returns how long they take to
// be ready again.
func (r *rig) restart(ctx context.Context) (time.Duration, error) {
	r.say("  kill -9 of %s", strings.Join(r.names(), ", "))
	for _, p := range r.stack.Processes() {
		if err := p.Kill(); err != nil {
			return 0, err
		}
	}
	started := time.Now()
	for _, p := range r.stack.Processes() {
		if err := p.Launch(); err != nil {
			return 0, err
		}
	}
	for _, p := range r.stack.Processes() {
		if err := p.AwaitReady(ctx); err != nil {
			return 0, err
		}
	}
	return time.Since(started), nil
}

func (r *rig) names() []string {
	var names []string
	for _, p := range r.stack.Processes() {
		names = append(names, p.Name)
	}
	return names
}
