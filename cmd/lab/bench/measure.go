package main

import (
	"context"
	"time"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/cmd/lab/internal/stack"
)

const (
	// stalled: nothing arrived for so long, so what is missing is lost. It is longer than
	// the first retry takes.
	stalled = 20 * time.Second
	// quietTimeout is how long bookkeeping may go on after the last arrival.
	quietTimeout = 60 * time.Second
	// A group of processes is quiet when it uses less than this share of one core: somewhat
	// more than what idle processes use for their timers.
	quietShare  = 0.06
	quietWindow = 500 * time.Millisecond
	watchEvery  = 50 * time.Millisecond
)

// phase is something that is published and delivered and measured.
type phase struct {
	job load.Job
	// flock is where all of it arrives; perEvent endpoints of it get an event.
	flock    load.Flock
	perEvent int
	secrets  map[int]string
}

// measure runs a phase until all has arrived and the bookkeeping is done.
func (r *rig) measure(ctx context.Context, p phase) (figures, []string, error) {
	p.job.First = r.numbers(p.job.Events)
	p.flock.First, p.flock.Events = p.job.First, p.job.Events
	if _, err := r.receiver.Receive(&load.Setup{Flocks: []load.Flock{p.flock}, Secrets: p.secrets}); err != nil {
		return figures{}, nil, err
	}
	recorded, err := r.recorded(ctx)
	if err != nil {
		return figures{}, nil, err
	}
	before, err := meter.CPU(r.all())
	if err != nil {
		return figures{}, nil, err
	}
	sampler := meter.Watch(ctx, r.own())
	defer sampler.Stop() //nolint:errcheck // an error is returned below, where it matters
	published, err := r.publisher.Publish(r.job(p.job))
	if err != nil {
		return figures{}, nil, err
	}
	want := published.Events * int64(p.perEvent)
	if _, err := r.awaitArrivals(ctx, p.flock.Name, want); err != nil {
		return figures{}, nil, err
	}
	arrived := time.Now()
	unrecorded, err := r.awaitRecords(ctx, recorded+want)
	if err != nil {
		return figures{}, nil, err
	}
	quiet, err := r.awaitQuiet(ctx)
	if err != nil {
		return figures{}, nil, err
	}
	after, err := meter.CPU(r.all())
	if err != nil {
		return figures{}, nil, err
	}
	memory, err := sampler.Stop()
	if err != nil {
		return figures{}, nil, err
	}
	received, err := r.receiver.Receive(nil) // again: something may have come twice meanwhile
	if err != nil {
		return figures{}, nil, err
	}
	tally := received.Tally(p.flock.Name)
	f := figures{
		Events: published.Events, Deliveries: tally.Unique,
		Accepted: published.PerSecond(), Delivered: tally.PerSecond(),
		Publish: published.Latency, Latency: tally.Latency, Quiet: quiet.Sub(arrived).Seconds(),
		Lost: max(0, want-tally.Unique), Repeated: tally.Repeated, Refused: published.Refused,
		Unrecorded: unrecorded, Checked: received.Checked,
	}
	f.use(before, after, memory)
	faults := f.faults(published, received)
	return f, faults, nil
}

// warm publishes a little in the way of a phase, so that connections are open and code
// and tables have been used once.
func (r *rig) warm(ctx context.Context, p phase) error {
	events, deliveries := 2000, 20_000
	if r.quick {
		events, deliveries = 200, 2_000
	}
	p.job.Rate, p.job.Events, p.job.For = 0, min(events, max(1, deliveries/p.perEvent)), 0
	p.flock.Delay = 0
	_, _, err := r.measure(ctx, p)
	return err
}

// awaitArrivals waits until so many deliveries have arrived at a flock, or nothing more
// arrives.
func (r *rig) awaitArrivals(ctx context.Context, name string, want int64) (load.Tally, error) {
	return r.awaitTally(ctx, name, func(t load.Tally) bool { return t.Unique >= want })
}

// awaitTally waits until a flock's tally is good, or does not change any more.
func (r *rig) awaitTally(ctx context.Context, name string, good func(load.Tally) bool) (load.Tally, error) {
	var last load.Tally
	changed := time.Now()
	err := stack.Poll(ctx, watchEvery, func() (bool, error) {
		received, err := r.receiver.Receive(nil)
		if err != nil {
			return false, err
		}
		if t := received.Tally(name); t != last {
			last, changed = t, time.Now()
		}
		return good(last) || time.Since(changed) > stalled, nil
	})
	return last, err
}

// recorded is how many attempts were written to the delivery log.
func (r *rig) recorded(ctx context.Context) (int64, error) {
	sum := 0.0
	for process := range r.stack.Ops {
		n, err := r.stack.Metric(ctx, process, "waybill_records_attempts_total")
		if err != nil {
			return 0, err
		}
		sum += n
	}
	return int64(sum), nil
}

// awaitRecords waits until so many attempts are in the delivery log, and returns how many
// are missing when no more come.
func (r *rig) awaitRecords(ctx context.Context, want int64) (missing int64, err error) {
	last, changed := int64(-1), time.Now()
	err = stack.Poll(ctx, 4*watchEvery, func() (bool, error) {
		n, err := r.recorded(ctx)
		if err != nil {
			return false, err
		}
		if n != last {
			last, changed = n, time.Now()
		}
		return n >= want || time.Since(changed) > stalled, nil
	})
	return max(0, want-last), err
}

// awaitQuiet waits until Waybill and what it stands on do next to nothing, and returns
// since when.
func (r *rig) awaitQuiet(ctx context.Context) (time.Time, error) {
	used, since := time.Duration(0), time.Now()
	first := true
	window, deadline := quietWindow, since.Add(quietTimeout)
	if r.quick {
		window, deadline = quietWindow/2, since.Add(quietTimeout/20)
	}
	err := stack.Poll(ctx, window, func() (bool, error) {
		all, err := meter.CPU(r.own())
		if err != nil {
			return false, err
		}
		now, sum := time.Now(), time.Duration(0)
		for _, cpu := range all {
			sum += cpu
		}
		quiet := !first && float64(sum-used) < quietShare*float64(now.Sub(since))
		if quiet || now.After(deadline) {
			return true, nil
		}
		used, since, first = sum, now, false
		return false, nil
	})
	return since, err
}

// webhook is what a scenario's webhooks are registered as.
func (s scenario) webhook() client.Webhook { return client.Webhook{MaxInFlight: s.inFlight} }
