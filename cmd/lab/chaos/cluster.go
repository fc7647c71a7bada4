package main

import (
	"context"
	"fmt"
	"slices"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/bus"
)

// How long a cluster is left alone before each kill, at least, and how long the process
// stays dead: an election takes up to nine seconds.
const (
	calm      = 4 * time.Second
	deadLeast = 10 * time.Second
	deadMost  = 15 * time.Second
	// acceptWithin is how long a publication over REST may take while one of two APIs, or
	// any other process, is dead.
	acceptWithin = 5 * time.Second
)

// cluster loses each process of a scaled-out installation in turn, while the others go on:
// three nats-servers, two APIs, four dispatchers.
func cluster(ctx context.Context, b *bench) error {
	f, err := b.field(ctx, split, stack.Options{NATSServers: 3, APIs: 2, Dispatchers: 4})
	if err != nil {
		return err
	}
	defer f.close()
	c := &clusterRun{field: f}
	f.load.start(ctx, b.rate, b.busRate)
	// A round has nine kills.
	for round := range max(1, b.rounds/20) {
		if err := c.round(ctx); err != nil {
			return fmt.Errorf("round %d: %w", round+1, err)
		}
	}
	if err := wait(ctx, 2*time.Second, 3*time.Second); err != nil {
		return err
	}
	if err := f.finish(ctx); err != nil {
		return err
	}
	c.judge(ctx)
	return nil
}

// clusterRun is a field whose processes are lost one at a time.
type clusterRun struct {
	*field
	lost     []loss
	leaders  int   // of these led EVENTS
	relaying relay // of the APIs that are gone
}

// loss is the time in which one process was away.
type loss struct {
	kind string
	span
}

// round loses each process once, first the server that leads EVENTS.
func (c *clusterRun) round(ctx context.Context) error {
	servers := slices.Clone(c.stack.NATS)
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	slices.SortStableFunc(servers, func(a, b *stack.Process) int { return rank(a, leader) - rank(b, leader) })
	for kind, processes := range [][]*stack.Process{servers, c.stack.APIs, c.stack.Dispatchers} {
		for _, p := range processes {
			if err := c.lose(ctx, []string{"a nats-server", "an API", "a dispatcher"}[kind], p); err != nil {
				return fmt.Errorf("lose %s: %w", p.Name, err)
			}
		}
	}
	return nil
}

func rank(p *stack.Process, leader string) int {
	if p.Name == leader {
		return 0
	}
	return 1
}

// leader returns the name of the server that leads EVENTS.
func (c *clusterRun) leader(ctx context.Context) (string, error) {
	stream, err := c.load.js.Stream(ctx, bus.StreamEvents)
	if err != nil {
		return "", fmt.Errorf("ask who leads %s: %w", bus.StreamEvents, err)
	}
	return stream.CachedInfo().Cluster.Leader, nil
}

// lose kills a process, lets the others go on without it, and starts it again.
func (c *clusterRun) lose(ctx context.Context, kind string, p *stack.Process) error {
	if err := wait(ctx, calm, calm+2*time.Second); err != nil {
		return err
	}
	leader, err := c.leader(ctx)
	if err != nil {
		return err
	}
	if p.Name == leader {
		c.leaders++
	}
	if slices.Contains(c.stack.APIs, p) {
		c.relaying.add(ctx, c.stack, p) // it takes its count with it
	}
	from := time.Now()
	if err := p.Kill(); err != nil {
		return err
	}
	if err := wait(ctx, deadLeast, deadMost); err != nil {
		return err
	}
	to := time.Now()
	c.lost = append(c.lost, loss{kind, span{from, to}})
	if err := p.Start(ctx); err != nil {
		return err
	}
	// In flight is what a process was working on when it died. Until a server is whole again
	// that is whatever the bus takes late or twice, and hold queues keep that for a while.
	fault := span{from, from}
	if slices.Contains(c.stack.NATS, p) {
		fault.to = time.Now()
	}
	c.faults = append(c.faults, fault)
	c.say("%s was away for %.0f s, and was ready again %.1f s after its start", p.Name, to.Sub(from).Seconds(), time.Since(to).Seconds())
	if err := c.stack.Died(); err != nil {
		return fmt.Errorf("it took another with it: %w", err)
	}
	healthy, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	return c.stack.AwaitDispatchers(healthy, "waybill_dispatchers_live", float64(len(c.stack.Dispatchers)))
}

// judge adds what is asked of a cluster to what finish has judged.
func (c *clusterRun) judge(ctx context.Context) {
	c.report.figure(figureRounds, float64(len(c.lost)))
	c.report.figure("of the killed, leaders of "+bus.StreamEvents, float64(c.leaders))
	c.report.must(c.leaders > 0, "no killed server led %s", bus.StreamEvents)
	c.report.figure("tries that REST did not accept", float64(c.load.refused.Load()))
	sent, accepted := c.load.firstSent(), c.load.restAccepted()
	onBus, acked := c.load.busSent(), c.load.busAcked()
	slowREST, slowBus := make(map[string]time.Duration), make(map[string]time.Duration)
	least := 1.0
	var kinds []string
	for _, l := range c.lost {
		if !slices.Contains(kinds, l.kind) {
			kinds = append(kinds, l.kind)
		}
		slowREST[l.kind] = max(slowREST[l.kind], slowest(sent, accepted, l.span))
		slowBus[l.kind] = max(slowBus[l.kind], slowest(onBus, acked, l.span))
		// The rate of the moment before is the measure: all share this machine's processors.
		before, without := rate(accepted, span{l.from.Add(-calm), l.from}), rate(accepted, l.span)
		least = min(least, without/before)
		c.report.must(without > before/2, "REST accepted %.0f events a second without %s, and %.0f before", without, l.kind, before)
	}
	c.report.figure("least rate of acceptances, of that before", least)
	for _, kind := range kinds {
		c.report.figure("slowest acceptance without "+kind+", seconds", slowREST[kind].Seconds())
		c.report.figure("slowest on NATS without "+kind+", seconds", slowBus[kind].Seconds())
		c.report.must(slowREST[kind] <= acceptWithin, "REST took %s to accept an event without %s, want %s at most", slowREST[kind], kind, acceptWithin)
	}
	for _, p := range c.stack.APIs {
		c.relaying.add(ctx, c.stack, p)
	}
	c.report.figure("events that the relay published again", c.relaying.republished)
	c.report.figure("deliveries that the relay gave back", c.relaying.restored)
	c.report.must(c.relaying.restored == 0 && c.relaying.losses == 0, "the relay gave back %g deliveries of %g lost streams, but the bus had lost nothing",
		c.relaying.restored, c.relaying.losses)
	for _, err := range c.relaying.errs {
		c.report.fail("%v", err)
	}
}

// slowest returns the longest time that a publication of that time took.
func slowest(sent, accepted map[string]time.Time, in span) time.Duration {
	var most time.Duration
	for id, at := range sent {
		if done, ok := accepted[id]; ok && !at.Before(in.from) && at.Before(in.to) {
			most = max(most, done.Sub(at))
		}
	}
	return most
}

// rate is how many a second there were in a time.
func rate(times map[string]time.Time, in span) float64 {
	n := 0.0
	for _, at := range times {
		if !at.Before(in.from) && at.Before(in.to) {
			n++
		}
	}
	return n / in.to.Sub(in.from).Seconds()
}

// relay is what the relays did, in sum.
type relay struct {
	republished, restored, losses float64
	errs                          []error
}

func (r *relay) add(ctx context.Context, st *stack.Stack, p *stack.Process) {
	for name, sum := range map[string]*float64{
		"waybill_relay_republished_total": &r.republished,
		"waybill_relay_restored_total":    &r.restored,
		"waybill_relay_bus_losses_total":  &r.losses,
	} {
		value, err := st.Metric(ctx, p.Name, name)
		if err != nil {
			r.errs = append(r.errs, err)
		}
		*sum += value
	}
}
