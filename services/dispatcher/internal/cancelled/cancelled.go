// Package cancelled knows which deliveries of cancelled jobs were handed over before the
// cancellation and have had no attempt yet. None begins any more.
package cancelled

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

const (
	pageSize = 1000
	// maxRuns bounds what is remembered: beyond, what was ended meanwhile is forgotten.
	maxRuns = 100_000
	// callTimeout ends a call to the database that hangs.
	callTimeout = 5 * time.Second
)

// Store has the deliveries that jobs wait for.
type Store interface {
	// CancelledRuns returns those of a cancelled job after the given one; job "": of all.
	CancelledRuns(ctx context.Context, job string, after pipeline.CancelledRun, limit int) ([]pipeline.CancelledRun, error)
}

// Runs are the runs of deliveries that were cancelled before their first attempt.
type Runs struct {
	store Store
	log   *slog.Logger

	mu     sync.RWMutex
	runs   map[domain.DeliveryID]domain.Revision
	asked  []string // jobs that are still to be read; "": all
	waking signal.Signal
}

// New returns Runs that know of nothing.
func New(store Store, log *slog.Logger) *Runs {
	return &Runs{store: store, log: log, runs: make(map[domain.DeliveryID]domain.Revision), waking: signal.New()}
}

// Has tells whether a delivery's run was cancelled before its first attempt. First deliveries
// cost nothing: nobody can cancel those.
func (r *Runs) Has(t *domain.Task) bool {
	if t.Rev < domain.RunStep || t.RunAttempts > 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	rev, ok := r.runs[t.Delivery]
	return ok && t.Rev >= rev && t.Rev < rev.NextRun()
}

// Heard has Run read what a job that was cancelled has left; "": what all have left.
func (r *Runs) Heard(job string) {
	r.mu.Lock()
	r.asked = append(r.asked, job)
	r.mu.Unlock()
	r.waking.Give()
}

// Load reads what all cancelled jobs have left. It tries until it succeeds.
func (r *Runs) Load(ctx context.Context) error { return r.insist(ctx, "") }

// Run reads what is heard of, until ctx is done.
func (r *Runs) Run(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.waking:
		}
		r.mu.Lock()
		jobs := r.asked
		r.asked = nil
		if len(r.runs) > maxRuns {
			clear(r.runs)
			jobs = []string{""}
		}
		r.mu.Unlock()
		for _, job := range jobs {
			if r.insist(ctx, job) != nil {
				return nil //nolint:nilerr // told to stop
			}
		}
	}
}

func (r *Runs) insist(ctx context.Context, job string) error {
	return again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: 3 * time.Second, Log: r.log, Fails: "cancelled jobs can't be read; trying again",
	}, func(func()) error { return r.read(ctx, job) })
}

func (r *Runs) read(ctx context.Context, job string) error {
	var last pipeline.CancelledRun
	for {
		page, err := r.page(ctx, job, last)
		if err != nil {
			return err
		}
		r.mu.Lock()
		for _, run := range page {
			r.runs[run.Delivery] = run.Rev
		}
		r.mu.Unlock()
		if len(page) < pageSize {
			return nil
		}
		last = page[len(page)-1]
	}
}

func (r *Runs) page(ctx context.Context, job string, after pipeline.CancelledRun) ([]pipeline.CancelledRun, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return r.store.CancelledRuns(ctx, job, after, pageSize) //nolint:wrapcheck // says what was being done
}
