package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"waybill.dev/cmd/lab/bench/internal/budget"
	"waybill.dev/cmd/lab/bench/internal/count"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/stack"
)

const (
	// What is done for events that come alone is counted aloneRounds times, for aloneEvents each.
	aloneRounds = 5
	aloneEvents = 8
	// manyEvents are published in requests of batchEvents, one after the other.
	manyEvents = 2000
	// countIdle is how long the work without any event is counted.
	countIdle = 5 * time.Second
	// countBefore events are there before anything is counted: a statement that reads all of them does more.
	countBefore = 5000
	// leastAlone is how often a statement must run for an event that comes alone. Rarer ones ran in the background.
	leastAlone = 0.5

	countFlock = "all"
)

// The figures of counts, each of an event.
const (
	countedPrefix = "counts, "
	alone         = "alone: "    // of one event that comes when there is no other
	together      = "together: " // of one of many events
)

// exactly returns how many percent a count may be above the budget: as much as two runs of one code differ. They differ
// because work without any event is subtracted, and varies. How many events share a commit or a message depends on the
// machine, so those bounds are wide. If no events shared one, the count would be far above them.
func exactly(figure string) float64 {
	name, isAlone := strings.CutPrefix(figure, alone)
	name, _ = strings.CutPrefix(name, together)
	switch {
	case name == count.RowBytes:
		return 0.5
	case name == costAllocations, name == costBytes, !isAlone && name == count.LogBytes, !isAlone && name == count.Work:
		return 15
	case !isAlone && (name == count.Messages || name == count.Acks): // most of them are an event's own
		return 25
	case !isAlone: // if no events shared a commit, it would be ten times as much
		return 300
	case name == count.Statements:
		return 2
	case name == count.LogBytes: // on SQLite in pages of 4 KiB: runs of one code took 60,030 to 70,840
		return 25
	case name == count.Commits, name == count.Syncs: // one more for each event would be +40 % at least
		return 25
	case name == count.Work: // a table or an index that is read whole would be a hundred times as much
		return 50
	}
	return 10
}

// counter counts what one stack does.
type counter struct {
	*rig
	bus      *count.Bus
	postgres *count.Postgres // of the split form
	sqlite   *count.SQLite   // of the other one
	hook     string          // the webhook that gets all events
	other    string          // one more
	next     int64           // number of the next event
	arrivals int64           // since the webhook is there
	want     int64           // attempts in the delivery log, when all is there
}

// countForms counts in all forms at the same time, because a count mostly waits. Each form has a receiver and a publisher
// of its own.
func (b *bench) countForms(ctx context.Context, forms []string) ([]budget.Cost, error) {
	lists := make([][]budget.Cost, len(forms))
	counting, ctx := errgroup.WithContext(ctx)
	for i, form := range forms {
		counting.Go(func() (err error) {
			one := &bench{options: b.options, site: b.site, work: b.work, progress: b.progress}
			defer func() { err = errors.Join(err, one.close()) }()
			if err := one.startLoad(ctx); err != nil {
				return err
			}
			lists[i], err = one.countForm(ctx, form)
			return err
		})
	}
	err := counting.Wait()
	return slices.Concat(lists...), err
}

// countForm counts the work for an event in one stack: over REST and NATS, with each feature, and with it off again.
func (b *bench) countForm(ctx context.Context, form string) (costs []budget.Cost, err error) {
	c := &counter{}
	statements := filepath.Join(b.work, "statements")
	if c.rig, err = b.openWith(ctx, form, stack.Options{
		Name: "counts-" + form, Dispatchers: 1, StatementsFile: statements, PostgresSettings: strings.Split(count.PostgresSettings, ","),
	}); err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, c.close()) }()
	if err := c.fill(load.Job{Type: kindIdle, Size: storedSize, First: c.numbers(countBefore), Events: countBefore, Connections: 2}); err != nil {
		return nil, err
	}
	if c.bus, err = count.OpenBus(c.stack.NATSURL); err != nil {
		return nil, err
	}
	defer c.bus.Close()
	if c.stack.Postgres != nil {
		if c.postgres, err = count.OpenPostgres(ctx, c.stack.Postgres, c.stack.DatabaseURL); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.postgres.Close(context.WithoutCancel(ctx))) }()
	} else {
		if c.sqlite, err = count.OpenSQLite(ctx, filepath.Join(c.stack.Data(), "waybill", "waybill.db"), statements); err != nil {
			return nil, err
		}
		defer func() { err = errors.Join(err, c.sqlite.Close()) }()
	}
	if err := c.plain(ctx); err != nil {
		return nil, err
	}
	if err := c.warmUp(ctx); err != nil {
		return nil, err
	}
	for _, one := range c.cases() {
		started := time.Now()
		if err := one.prepare(ctx); err != nil {
			return nil, fmt.Errorf("%s, %s: %w", one.name, form, err)
		}
		cost, err := c.counts(ctx, one)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", one.name, form, err)
		}
		costs = append(costs, cost)
		b.say("%s %s: %.0f s", form, cost.Scenario, time.Since(started).Seconds())
	}
	return costs, nil
}

// warmUp uses code, tables and each connection, so that statements are planned and their tables known.
func (c *counter) warmUp(ctx context.Context) error {
	if err := c.publish(ctx, load.WayBatch, manyEvents); err != nil {
		return err
	}
	for range aloneRounds * aloneEvents {
		if err := c.publish(ctx, load.WayREST, 1); err != nil {
			return err
		}
	}
	return nil
}

// counts measures one case: what is done without an event, for events that come alone, and for many.
func (c *counter) counts(ctx context.Context, one countCase) (budget.Cost, error) {
	cost := budget.Cost{Scenario: countedPrefix + one.name, Form: c.form}
	first, err := c.read(ctx, one.syncs)
	if err != nil {
		return cost, err
	}
	timer := time.NewTimer(countIdle)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return cost, ctx.Err()
	case <-timer.C:
	}
	idle, err := c.read(ctx, one.syncs)
	if err != nil {
		return cost, err
	}
	anyhow := anyhow{idle.Minus(first.Reading), idle.at.Sub(first.at)}
	if err := c.countAlone(ctx, one, anyhow, idle, &cost); err != nil {
		return cost, err
	}
	err = c.countMany(ctx, one, anyhow, &cost)
	return cost, err
}

// countAlone publishes each event when the one before is in the delivery log, in rounds. The median of the rounds counts, so
// that work which is done once a minute, in one of the rounds, does not.
func (c *counter) countAlone(ctx context.Context, one countCase, anyhow anyhow, before reading, cost *budget.Cost) error {
	way := load.WayREST
	if one.bus {
		way = load.WayNATS
	}
	rounds := make(map[string][]float64)
	for range aloneRounds {
		for range aloneEvents {
			if err := c.publish(ctx, way, 1); err != nil {
				return err
			}
		}
		after, err := c.read(ctx, one.syncs)
		if err != nil {
			return err
		}
		of := anyhow.leftOut(before, after)
		sum, texts := of.Sum(leastAlone * aloneEvents)
		of.Counts[count.Statements], of.Counts[count.Work] = sum.N, sum.Work
		if c.postgres != nil {
			of.Counts[count.LogBytes] = sum.LogBytes
		}
		for name, n := range of.Counts {
			rounds[name] = append(rounds[name], n/aloneEvents)
		}
		cost.Stages = cost.Stages[:0]
		for _, text := range texts {
			cost.Stages = append(cost.Stages, budget.Stage{Process: "statement", Package: fmt.Sprintf("%.120s", text), Value: significant(of.Texts[text].N / aloneEvents)})
		}
		before = after
	}
	of := make(map[string]float64)
	for name, list := range rounds {
		of[name] = median(list)
	}
	cost.Figures = countFigures(cost.Figures, of, alone)
	return nil
}

// countMany counts for events that share commits and messages.
func (c *counter) countMany(ctx context.Context, one countCase, anyhow anyhow, cost *budget.Cost) error {
	before, err := c.read(ctx, false)
	if err != nil {
		return err
	}
	allocated, err := c.allocated(ctx)
	if err != nil {
		return err
	}
	way := load.WayBatch
	if one.bus {
		way = load.WayNATS
	}
	if err := c.publish(ctx, way, manyEvents); err != nil {
		return err
	}
	after, err := c.allocated(ctx)
	if err != nil {
		return err
	}
	many, err := c.read(ctx, false)
	if err != nil {
		return err
	}
	of := anyhow.leftOut(before, many)
	sum, _ := of.Sum(1)
	of.Counts[count.Statements], of.Counts[count.Work] = sum.N, sum.Work
	if c.postgres != nil {
		of.Counts[count.LogBytes] = sum.LogBytes
	}
	of.Counts[costAllocations], of.Counts[costBytes] = after.objects-allocated.objects, after.bytes-allocated.bytes
	for name := range of.Counts {
		of.Counts[name] /= manyEvents
	}
	cost.Figures = countFigures(cost.Figures, of.Counts, together)
	return nil
}

// countFigures adds the figures of an event.
func countFigures(list []budget.Figure, of map[string]float64, prefix string) []budget.Figure {
	for _, name := range []string{count.Statements, count.Commits, count.Syncs, count.Work, count.LogBytes, count.RowBytes, count.Messages, count.Acks, costAllocations, costBytes} {
		if n, ok := of[name]; ok {
			list = append(list, budget.Figure{Name: prefix + name, Value: significant(n), Within: exactly(prefix + name)})
		}
	}
	return list
}

// anyhow is the work in a time without any event.
type anyhow struct {
	count.Reading
	in time.Duration
}

// leftOut returns the counts between two readings, less the work that is done anyhow.
func (a anyhow) leftOut(before, after reading) count.Reading {
	return after.Minus(before.Reading).Without(a.Reading, float64(after.at.Sub(before.at))/float64(a.in))
}

// reading is what was counted until a time.
type reading struct {
	count.Reading
	at time.Time
}

// read reads the counters, after what is under way has ended.
func (c *counter) read(ctx context.Context, syncs bool) (reading, error) {
	if _, err := c.awaitQuiet(ctx); err != nil {
		return reading{}, err
	}
	r := reading{count.New(), time.Now()}
	err := c.bus.Read(&r.Reading)
	if c.sqlite != nil {
		return r, errors.Join(err, c.sqlite.Read(ctx, &r.Reading))
	}
	err = errors.Join(err, c.postgres.Read(ctx, &r.Reading))
	if syncs {
		err = errors.Join(err, c.postgres.ReadSyncs(ctx, &r.Reading))
	}
	return r, err
}

// publish publishes events and waits until they are in the delivery log. It asks for few metrics, because each answer allocates.
func (c *counter) publish(ctx context.Context, way string, events int) error {
	job := load.Job{Way: way, Connections: 1, First: c.next, Events: events}
	published, err := c.publisher.Publish(c.job(job))
	if err != nil {
		return err
	}
	if published.Refused > 0 {
		return fmt.Errorf("%d events were refused, the first with %s", published.Refused, published.Fault)
	}
	c.next += int64(events)
	c.arrivals += int64(events)
	c.want += int64(events)
	tally, err := c.awaitArrivals(ctx, countFlock, c.arrivals)
	if err != nil {
		return err
	}
	if tally.Unique != c.arrivals || tally.Repeated > 0 {
		return fmt.Errorf("of %d deliveries %d arrived, %d came again", c.arrivals, tally.Unique, tally.Repeated)
	}
	missing, err := c.awaitRecords(ctx, c.want)
	if err == nil && missing > 0 {
		err = fmt.Errorf("of %d deliveries %d are not in the delivery log", c.want, missing)
	}
	return err
}
