// Package relay publishes on the bus what the database holds and the bus lacks: events that were
// committed and never settled, requests for a test, a retry or a replay, and everything that waited in
// a lost stream. It also ends and deletes what is older than the retention, and merges the counts of
// statistics. One process does this at a time; the others stand by.
package relay

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/shared/again"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
)

// Intervals of the kinds of work.
const (
	interval         = time.Second     // between two rounds of the leader
	quietInterval    = 5 * time.Second // between two rounds while nothing waits, on the bus or in the database
	standbyInterval  = 3 * time.Second // between two attempts to become the leader
	maintainInterval = time.Hour
	firstBackoff     = 500 * time.Millisecond
	maxBackoff       = 3 * time.Second
	// pageSize is how many rows are read and published at a time.
	pageSize = 256
	// callTimeout ends a call to the database or the bus that hangs.
	callTimeout = 15 * time.Second
	// maintainTimeout is the time limit for the deletes of the retention.
	maintainTimeout = 10 * time.Minute
)

// Store has the part of the database that the relay reads and notes.
type Store interface {
	Lead(ctx context.Context) (store.Lease, bool, error)
	Unsettled(ctx context.Context, before time.Time, after pipeline.OutboxCursor, limit int) ([]pipeline.OutboxEvent, pipeline.OutboxCursor, error)
	UnsettledPlaces(ctx context.Context, account string, first, last int64, before time.Time, limit int) ([]pipeline.OutboxEvent, error)
	Unpublished(ctx context.Context, limit int) ([]pipeline.OutboxEvent, error)
	MarkRelayed(ctx context.Context, keys []domain.EventKey, at time.Time) error
	OpenRequests(ctx context.Context, before time.Time, after string, limit int) ([]domain.Task, error)
	SendingJobs(ctx context.Context) ([]string, error)
	AdvanceJob(ctx context.Context, id string) (sent int, more bool, err error)
	MarkRequestsRelayed(ctx context.Context, ids []string, at time.Time) error
	Restorable(ctx context.Context, since time.Time, after domain.DeliveryID, limit int) (page []pipeline.RestoreItem, next domain.DeliveryID, err error)
	BusStreams(ctx context.Context) (map[string]domain.StreamMark, error)
	MarkBusStreams(ctx context.Context, marks map[string]domain.StreamMark) error
	OldestUnsettled(ctx context.Context) (time.Time, bool, error)
	Upkeep
	Rollups
	Expiries
}

// Bus accepts what the relay publishes.
type Bus interface {
	Ready() error
	Reconnects() (c <-chan struct{}, stop func())
	Ensure(ctx context.Context) error
	Streams(ctx context.Context) (map[string]loss.State, error)
	Backlog(ctx context.Context) (Backlog, error)
	PublishEvent(a bus.AcceptedEvent, round int, done func(duplicate bool, err error))
	Schedule(task *domain.Task, at time.Time, done func(error))
	Hold(task *domain.Task, done func(error))
	RestoreOrdered(task *domain.Task, position bus.OrderPosition, done func(error))
	AnnounceRestored(account string)
	Announce(subject string, body []byte)
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
}

// Options of a Relay; all are required.
type Options struct {
	Store      Store
	Bus        Bus
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	Retention  time.Duration // of events and delivery log
}

// Relay is the relay of one process.
type Relay struct {
	store     Store
	bus       Bus
	log       *slog.Logger
	metrics   *metrics
	retention time.Duration
	poke      signal.Signal
	asked     *missingPlaces
	ensured   signal.Signal // holds a token after each reconnection, once the streams exist
}

// New returns a Relay.
func New(options Options) *Relay {
	return &Relay{
		store: options.Store, bus: options.Bus, log: options.Logger,
		metrics: newMetrics(options.Registerer), retention: options.Retention,
		poke: signal.New(), asked: newMissingPlaces(), ensured: signal.New(),
	}
}

// Poke makes the next round start now, if this process leads.
func (r *Relay) Poke() { r.poke.Give() }

// Run relays whenever this process is the leader, until ctx ends. It continues after failures of
// database and bus.
func (r *Relay) Run(ctx context.Context) error {
	stop, err := r.bus.Listen(bus.SubjectRelay, r.announced)
	if err != nil {
		return err
	}
	defer stop()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var ensuring sync.WaitGroup
	defer ensuring.Wait()
	defer cancel()
	ensuring.Go(func() { r.keepStreams(ctx) })
	r.stand(ctx)
	return nil
}

// keepStreams makes the streams at the start and after each reconnection: the server may
// have come back without its files.
func (r *Relay) keepStreams(ctx context.Context) {
	reconnected, stop := r.bus.Reconnects()
	defer stop()
	trouble := trouble{log: r.log, what: "the streams can't be made on the bus; trying again"}
	wait := newBackoff()
	for {
		err := r.bus.Ready()
		if err == nil {
			err = r.ensure(ctx)
			trouble.report(ctx, err)
		}
		var retry <-chan time.Time
		if err == nil {
			wait.Reset()
			r.ensured.Give()
		} else {
			retry = time.After(wait.NextBackOff())
		}
		select {
		case <-ctx.Done():
			return
		case <-reconnected:
		case <-retry:
		}
	}
}

func (r *Relay) ensure(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.bus.Ensure(ctx)
}

// stand becomes the leader whenever there is none.
func (r *Relay) stand(ctx context.Context) {
	trouble := trouble{log: r.log, what: "the relay can't ask for its lock"}
	for {
		lease, ok, err := r.lead(ctx)
		trouble.report(ctx, err)
		if ok {
			r.metrics.leader.Set(1)
			r.log.Info("this process is now the relay")
			r.serve(ctx, lease)
			lease.Release()
			r.metrics.reset()
			r.log.Info("this process is no longer the relay")
		}
		select {
		case <-ctx.Done():
			return
		case <-time.After(standbyInterval):
		}
	}
}

func (r *Relay) lead(ctx context.Context) (store.Lease, bool, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.Lead(ctx)
}

// serve does the leader's rounds until ctx ends or the lease is lost.
func (r *Relay) serve(ctx context.Context, lease store.Lease) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var beside sync.WaitGroup
	defer beside.Wait()
	defer cancel()
	beside.Go(func() { r.maintain(ctx) })
	beside.Go(func() { r.rollUp(ctx) })
	beside.Go(func() { r.watchExpiries(ctx) })
	beside.Go(func() { r.advanceJobs(ctx) })
	beside.Go(func() { r.resumeQuotas(ctx) })
	beside.Go(func() {
		select {
		case <-lease.Lost():
			cancel()
		case <-ctx.Done():
		}
	})

	leader := &leader{Relay: r, trouble: trouble{log: r.log, what: "the relay makes no progress"}}
	beside.Go(func() { leader.publishPlaces(ctx) })
	wait := newBackoff()
	for {
		err := leader.round(ctx)
		leader.trouble.report(ctx, err)
		pause, poke := interval, r.poke
		switch {
		case err != nil:
			// Pokes would only repeat the failure faster.
			pause, poke = wait.NextBackOff(), nil
		case leader.quiet:
			pause = quietInterval
			fallthrough
		default:
			wait.Reset()
		}
		timer := time.NewTimer(pause)
		select {
		case <-ctx.Done():
			timer.Stop()
			return
		case <-timer.C:
		case <-poke:
		case <-r.ensured:
		}
		timer.Stop()
	}
}

// every calls a function at intervals until ctx ends, and sooner after an error.
func (r *Relay) every(ctx context.Context, pause time.Duration, what string, do func() error) {
	for again.Do(ctx, again.Loop{
		First: firstBackoff, Longest: maxBackoff, Log: r.log, Fails: "the relay has trouble", Works: "the relay works again", About: []any{"what", what},
	}, func(func()) error { return do() }) == nil {
		select {
		case <-ctx.Done():
			return
		case <-time.After(pause):
		}
	}
}

// maintain keeps the retention: at the start, and every hour.
func (r *Relay) maintain(ctx context.Context) {
	r.every(ctx, maintainInterval, "old events and deliveries can't be deleted", func() error {
		result, err := r.maintainOnce(ctx)
		if err != nil {
			return err
		}
		r.metrics.expired.Add(float64(result.Expired))
		r.metrics.expiredEvents.Add(float64(result.Unsettled))
		if result.Expired > 0 || result.Unsettled > 0 {
			r.log.Warn("the retention ended before some deliveries were delivered", "deliveries", result.Expired, "events", result.Unsettled)
		}
		return nil
	})
}

func (r *Relay) maintainOnce(ctx context.Context) (pipeline.MaintainResult, error) {
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	return r.store.Maintain(ctx, time.Now(), r.retention)
}

// trouble logs when a kind of work begins to fail and when that is over, and nothing in between.
type trouble struct {
	log     *slog.Logger
	what    string
	failing bool
}

func (t *trouble) report(ctx context.Context, err error) {
	switch {
	case ctx.Err() != nil:
	case err != nil && !t.failing:
		t.failing = true
		level := slog.LevelWarn
		if !errors.Is(err, domain.ErrUnavailable) && !errors.Is(err, context.DeadlineExceeded) {
			level = slog.LevelError
		}
		t.log.Log(ctx, level, "the relay has trouble", "what", t.what, "error", err)
	case err == nil && t.failing:
		t.failing = false
		t.log.Info("the relay works again", "what", t.what)
	}
}

// newBackoff returns a backoff that begins with firstBackoff, grows to maxBackoff, and never ends.
func newBackoff() *backoff.ExponentialBackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(firstBackoff),
		backoff.WithMaxInterval(maxBackoff),
		backoff.WithMaxElapsedTime(0),
	)
}

// errNotAll is the error when the bus has accepted only a part of a page.
func errNotAll(missing int, err error) error {
	return fmt.Errorf("publish: the bus did not take %d messages: %w", missing, err)
}
