package main

import (
	"context"
	"fmt"
	"maps"
	"net/http"
	"slices"
	"time"

	"waybill.dev/cmd/lab/internal/stack"
)

// answerWithin is how soon REST must say that it can't accept.
const answerWithin = 2 * time.Second

// databaseDown takes Postgres away: REST must refuse at once, events that are published
// on NATS must go out all the same, and the log must catch up.
func databaseDown(ctx context.Context, b *bench) error {
	f, err := b.field(ctx, split, stack.Options{})
	if err != nil {
		return err
	}
	defer f.close()
	f.load.start(ctx, b.rate, b.busRate)
	if err := wait(ctx, 5*time.Second, 6*time.Second); err != nil {
		return err
	}
	v := postgres(f.stack)
	err = f.broken(func() error {
		if err := v.kill(); err != nil {
			return err
		}
		down, cancel := context.WithTimeout(ctx, b.outage)
		defer cancel()
		// A server process that is at work outlives Postgres by a moment; what it commits
		// in it is stored.
		if err := wait(down, time.Second/2, time.Second); err != nil {
			return err
		}
		f.refusals(down)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f.goneOut()
		return v.start(ctx)
	})
	if err != nil {
		return err
	}
	back := time.Now()
	if _, err := f.api.Publish(ctx, f.load.next().body); err != nil {
		f.report.must(f.acceptsWithin(ctx, 10*time.Second), "REST does not accept within 10 s of the database's return")
	}
	f.report.figure("seconds until REST accepted again", time.Since(back).Seconds())
	if err := wait(ctx, 5*time.Second, 6*time.Second); err != nil {
		return err
	}
	return f.finish(ctx)
}

// refusals asks REST until ctx is done; each answer must be 503 and come in time.
func (f *field) refusals(ctx context.Context) {
	client := f.stack.Client()
	defer client.Close()
	var slowest time.Duration
	n := 0
	for ; ctx.Err() == nil; n++ {
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		asked := time.Now()
		answer, err := client.Ask(asking, http.MethodPost, "/v1/events", f.load.next().body, nil)
		took := time.Since(asked)
		cancel()
		slowest = max(slowest, took)
		switch {
		case err != nil:
			f.report.fail("REST gives no answer while the database is down: %v", err)
		case answer.Status != http.StatusServiceUnavailable:
			f.report.fail("REST answers %d while the database is down", answer.Status)
		case answer.Header.Get("Retry-After") == "":
			f.report.fail("the 503 has no Retry-After")
		}
		if len(f.report.Faults) > 5 {
			break
		}
		_ = wait(ctx, 200*time.Millisecond, 300*time.Millisecond)
	}
	f.report.figure("refusals asked for", float64(n))
	f.report.figure("slowest refusal, seconds", slowest.Seconds())
	f.report.must(slowest <= answerWithin, "a refusal took %s, want %s at most", slowest, answerWithin)
}

// goneOut judges what NATS publishers sent while the database is still down.
func (f *field) goneOut() {
	acked := f.load.busAcked()
	since, until := time.Now().Add(-f.outage).Add(time.Second), time.Now().Add(-3*time.Second)
	maps.DeleteFunc(acked, func(_ string, at time.Time) bool { return at.Before(since) || at.After(until) })
	ids := slices.Collect(maps.Keys(acked))
	f.report.figure("events acknowledged on NATS meanwhile", float64(len(ids)))
	f.report.must(len(ids) > 0 || f.outage < 10*time.Second, "no event was acknowledged on NATS while the database was down")
	for _, r := range f.steady {
		if n := r.Accepted(ids); n != len(ids) {
			f.report.fail("%s got %d of the %d events that NATS acknowledged while the database was down", r.URL, n, len(ids))
		}
	}
}

func (f *field) acceptsWithin(ctx context.Context, within time.Duration) bool {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	return stack.Await(ctx, func() (bool, error) {
		_, err := f.api.Publish(ctx, f.load.next().body)
		return err == nil, nil
	}) == nil
}

// natsDown takes nats-server away: REST must go on accepting, and everything must go out
// when it is back, by itself.
func natsDown(ctx context.Context, b *bench) error {
	f, err := b.field(ctx, split, stack.Options{})
	if err != nil {
		return err
	}
	defer f.close()
	f.load.start(ctx, b.rate, b.busRate)
	if err := wait(ctx, 5*time.Second, 6*time.Second); err != nil {
		return err
	}
	err = f.broken(func() error {
		if err := f.stack.NATS[0].Kill(); err != nil {
			return err
		}
		before := len(f.load.restAccepted())
		down, cancel := context.WithTimeout(ctx, b.outage)
		defer cancel()
		slowest, failed := f.acceptances(down)
		accepted := len(f.load.restAccepted()) - before
		f.report.figure("events accepted meanwhile", float64(accepted))
		f.report.figure("slowest acceptance, seconds", slowest.Seconds())
		f.report.must(failed == nil, "REST does not accept while the bus is down: %v", failed)
		f.report.must(float64(accepted) > 0.8*float64(b.rate)*b.outage.Seconds(), "REST accepted %d events while the bus was down, want %d a second", accepted, b.rate)
		return f.stack.NATS[0].Start(ctx)
	})
	if err != nil {
		return err
	}
	if err := wait(ctx, 2*time.Second, 3*time.Second); err != nil {
		return err
	}
	return f.finish(ctx)
}

// acceptances looks at every publication until ctx is done.
func (f *field) acceptances(ctx context.Context) (slowest time.Duration, failed error) {
	client := f.stack.Client()
	defer client.Close()
	for ctx.Err() == nil {
		asked := time.Now()
		asking, cancel := context.WithTimeout(context.WithoutCancel(ctx), 10*time.Second)
		_, err := client.Publish(asking, f.load.next().body)
		cancel()
		if err != nil && failed == nil {
			failed = fmt.Errorf("publish: %w", err)
		}
		slowest = max(slowest, time.Since(asked))
		_ = wait(ctx, 200*time.Millisecond, 300*time.Millisecond)
	}
	return slowest, failed
}
