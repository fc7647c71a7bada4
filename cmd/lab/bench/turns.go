package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"waybill.dev/cmd/lab/bench/internal/budget"
	"waybill.dev/cmd/lab/bench/internal/stages"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/shared/pgtest"
)

// turner has a scenario and the bare loop take turns.
type turner struct {
	*rig
	costed
	loop  *load.Child
	hooks hooks
	job   load.Job
	bare  load.Bare
	flock string

	next  int64           // number of the next event
	want  int64           // arrivals so far
	older int64           // attempts in the delivery log before the first turn
	turns int             // so far
	ratio []float64       // of each turn: processor time of a delivery to that of a POST of the bare loop
	parts []processShares // likewise
	sum   taken           // in all turns
}

type processShares map[string]float64

// turner registers the webhooks of a scenario and warms it up.
func (r *rig) turner(ctx context.Context, loop *load.Child, c costed) (*turner, error) {
	h, err := r.register(ctx, r.api, 0, c.webhooks, kindBusy, c.webhook())
	if err != nil {
		return nil, err
	}
	t := &turner{rig: r, costed: c, loop: loop, hooks: h, flock: "all"}
	t.job = load.Job{Way: c.way, Connections: c.connections, Events: c.turn}
	flock := load.Flock{Name: t.flock, To: c.webhooks, Each: true}
	if err := r.warm(ctx, phase{job: t.job, flock: flock, perEvent: c.webhooks, secrets: h.secrets}); err != nil {
		return nil, fmt.Errorf("warm up: %w", err)
	}
	// One numbering for all turns, of which there may be twice as many.
	flock.Events = 2 * costRounds * c.turn
	flock.First = r.numbers(flock.Events)
	t.next = flock.First
	t.bare = load.Bare{
		URL: fmt.Sprintf("http://%s/%d", r.address, c.webhooks), Secret: bareSecret, Workers: bareWorkers, Events: costLoop, Size: r.size,
	}
	bare := load.Flock{Name: load.KindLoop, From: c.webhooks, To: c.webhooks + 1, Events: 2 * (costRounds + 1) * costLoop, Each: true}
	if _, err = r.receiver.Receive(&load.Setup{Flocks: []load.Flock{flock, bare}, Secrets: h.secrets}); err != nil {
		return nil, err
	}
	if _, err := r.awaitQuiet(ctx); err != nil {
		return nil, err
	}
	t.older, err = r.recorded(ctx)
	return t, err
}

// rounds runs n turns. What Waybill does after the last arrival, it does while the bare loop runs, and that counts as
// part of the turn.
func (t *turner) rounds(ctx context.Context, n int) error {
	groups := append(t.own(), meter.Group{Name: load.KindLoop, Pid: t.loop.Pid()})
	began, err := t.taken(ctx)
	if err != nil {
		return err
	}
	bare, before, err := t.bareTurn(groups)
	if err != nil {
		return err
	}
	for range n {
		if err := t.publish(ctx, t.job, t.turn); err != nil {
			return err
		}
		bareAfter, after, err := t.bareTurn(groups)
		if err != nil {
			return err
		}
		posts := (bare + bareAfter).Seconds() / (2 * costLoop)
		parts, sum := make(processShares), 0.0
		for name := range after {
			if name != load.KindLoop {
				parts[name] = (after[name] - before[name]).Seconds() / float64(t.turn*t.webhooks) / posts
				sum += parts[name]
			}
		}
		t.ratio, t.parts = append(t.ratio, sum), append(t.parts, parts)
		bare, before = bareAfter, after
		t.turns++
	}
	ended, err := t.taken(ctx)
	t.sum.objects += ended.objects - began.objects
	t.sum.bytes += ended.bytes - began.bytes
	t.sum.stored += ended.stored - began.stored
	return err
}

// bareTurn has the bare loop run, and returns the processor time that it used, and what all have used by then.
func (t *turner) bareTurn(groups []meter.Group) (used time.Duration, all map[string]time.Duration, err error) {
	before, err := meter.CPU(groups)
	if err != nil {
		return 0, nil, err
	}
	sent, err := t.loop.Loop(t.bare)
	if err != nil {
		return 0, nil, err
	}
	if sent.Events != costLoop {
		return 0, nil, fmt.Errorf("of %d POSTs of the bare loop %d were answered: %s", costLoop, sent.Events, sent.Fault)
	}
	t.bare.First += costLoop
	all, err = meter.CPU(groups)
	return all[load.KindLoop] - before[load.KindLoop], all, err
}

// publish publishes events and waits until all have arrived, and are in the delivery log: what is recorded later would
// count for the next turn, and what the last one leaves for none.
func (t *turner) publish(ctx context.Context, job load.Job, events int) error {
	job.First, job.Events = t.next, events
	published, err := t.publisher.Publish(t.rig.job(job))
	if err != nil {
		return err
	}
	if published.Refused > 0 {
		return fmt.Errorf("%d events were refused, the first with %s", published.Refused, published.Fault)
	}
	t.next += int64(events)
	t.want += int64(events * t.webhooks)
	tally, err := t.awaitArrivals(ctx, t.flock, t.want)
	if err != nil {
		return err
	}
	if tally.Unique != t.want || tally.Repeated > 0 {
		return fmt.Errorf("of %d deliveries %d arrived, %d came again", t.want, tally.Unique, tally.Repeated)
	}
	missing, err := t.awaitRecords(ctx, t.older+t.want)
	if err == nil && missing > 0 {
		err = fmt.Errorf("of %d deliveries %d are not in the delivery log", t.want, missing)
	}
	return err
}

// taken is what processes have allocated in their lives, and what the database has now.
type taken struct{ objects, bytes, stored float64 }

func (t *turner) taken(ctx context.Context) (taken, error) {
	sum, err := t.allocated(ctx)
	if err != nil {
		return sum, err
	}
	if t.stack.Postgres != nil {
		work, err := pgtest.ReadWork(ctx, t.stack.DatabaseURL)
		sum.stored = float64(work.StoredBytes)
		return sum, err
	}
	info, err := os.Stat(filepath.Join(t.stack.Data(), "waybill", "waybill.db"))
	if err != nil {
		return sum, fmt.Errorf("measure the database: %w", err)
	}
	sum.stored = float64(info.Size())
	return sum, nil
}

// allocated is what the processes have allocated in their lives.
func (r *rig) allocated(ctx context.Context) (sum taken, err error) {
	for process := range r.stack.Ops {
		objects, err := r.stack.Metric(ctx, process, "go_memstats_mallocs_total")
		if err != nil {
			return sum, err
		}
		bytes, err := r.stack.Metric(ctx, process, "go_memstats_alloc_bytes_total")
		if err != nil {
			return sum, err
		}
		sum.objects += objects
		sum.bytes += bytes
	}
	return sum, nil
}

// figures are those of all turns so far.
func (t *turner) figures() []budget.Figure {
	deliveries := float64(t.turns * t.turn * t.webhooks)
	list := []budget.Figure{
		newFigure(costCPU, median(t.ratio)),
		newFigure(costAllocations, t.sum.objects/deliveries),
		newFigure(costBytes, t.sum.bytes/deliveries),
	}
	for i := range list {
		list[i].OfMachine = true // allocations, too: how many events share a commit depends on the speed
	}
	if t.webhooks > 1 { // the size of the file moves in steps that are large beside so few events
		return list
	}
	return append(list, newFigure(costStored, t.sum.stored/deliveries))
}

func newFigure(name string, value float64) budget.Figure {
	return budget.Figure{Name: name, Value: significant(value), Within: within(name)}
}

func median(list []float64) float64 {
	sorted := slices.Sorted(slices.Values(list))
	return (sorted[(len(sorted)-1)/2] + sorted[len(sorted)/2]) / 2
}

// significant has four digits: what stands behind them is noise.
func significant(x float64) float64 {
	rounded, _ := strconv.ParseFloat(strconv.FormatFloat(x, 'g', 4, 64), 64) // what FormatFloat writes can be parsed
	return rounded
}

// profiled runs n more turns, which take about as long as it says, and returns what each package had of the processor
// time.
func (t *turner) profiled(ctx context.Context, n int, took time.Duration) ([]budget.Stage, error) {
	dir, err := os.MkdirTemp("", "waybill-profiles-")
	if err != nil {
		return nil, fmt.Errorf("make the folder of profiles: %w", err)
	}
	defer os.RemoveAll(dir)
	taken := t.profile(ctx, dir, t.name, took)
	if err := t.rounds(ctx, n); err != nil {
		return nil, err
	}
	if err := taken.wait(); err != nil {
		return nil, err
	}
	shares := make(map[string]map[string]float64) // by process
	for process, file := range taken.files {
		group := strings.TrimSuffix(strings.TrimPrefix(process, "waybill-"), "-1") // each of one process
		if shares[group], err = stages.Of(ctx, file); err != nil {
			return nil, err
		}
	}
	return t.stages(shares), nil
}

// leastStage is the part of a delivery's cost from which on a package is a stage of its own.
const leastStage = 0.005

// stages divides the processor time of each process among its packages. A process without a profile is one stage.
func (t *turner) stages(shares map[string]map[string]float64) []budget.Stage {
	var list []budget.Stage
	whole := median(t.ratio)
	for name := range t.parts[0] {
		var of []float64
		for _, p := range t.parts {
			of = append(of, p[name])
		}
		part, small := median(of), 0.0
		for pkg, share := range shares[name] {
			if share*part < leastStage*whole {
				small += share * part
				continue
			}
			list = append(list, budget.Stage{Process: name, Package: pkg, Value: significant(share * part)})
		}
		if shares[name] == nil {
			small = part
		}
		list = append(list, budget.Stage{Process: name, Package: "all else", Value: significant(small)})
	}
	return sortStages(list)
}
