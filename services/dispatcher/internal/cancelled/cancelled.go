// Package cancelled knows which deliveries of cancelled jobs were handed over before the
// cancellation and have had no attempt yet. None begins any more.
package cancelled

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

const (
	pageSize = 1000
	// lookEvery is how long it takes to notice a cancellation whose announcement was lost. With the reading it is less than the second in
	// which nothing more of a cancelled job begins.
	lookEvery = 500 * time.Millisecond
	// maxRuns is how many runs are remembered before those of finished jobs are dropped.
	maxRuns = 100_000
	// callTimeout ends a call to the database that hangs.
	callTimeout = 5 * time.Second
)

// Store has the deliveries that jobs wait for.
type Store interface {
	// CancelledJobs returns the newest cancelled jobs before the given one, "" for no bound, that wait for the first attempt of a delivery.
	CancelledJobs(ctx context.Context, before string, limit int) ([]string, error)
	// CancelledRuns returns the deliveries of a cancelled job that had no attempt yet, after the given one.
	CancelledRuns(ctx context.Context, job string, after domain.DeliveryID, limit int) ([]pipeline.CancelledRun, error)
}

// run is a run of a delivery that a job has asked for.
type run struct {
	job string
	rev domain.Revision // the first
}

// Runs are the runs of deliveries that were cancelled before their first attempt.
type Runs struct {
	store Store
	log   *slog.Logger

	mu     sync.RWMutex
	runs   map[domain.DeliveryID]run
	waking signal.Signal

	// The goroutine that looks has these to itself.
	known map[string]struct{} // jobs whose runs were read
	left  map[string]struct{} // jobs seen since the last look at the oldest
	older string              // the job before which the next look goes on; "": it has all
}

// New returns Runs that know of nothing.
func New(store Store, log *slog.Logger) *Runs {
	return &Runs{
		store: store, log: log, runs: make(map[domain.DeliveryID]run), waking: signal.New(),
		known: make(map[string]struct{}), left: make(map[string]struct{}),
	}
}

// Has reports whether a delivery's run was cancelled before its first attempt. First deliveries
// cost nothing: nobody can cancel those.
func (r *Runs) Has(t *domain.Task) bool {
	if t.Rev < domain.RunStep || t.RunAttempts > 0 {
		return false
	}
	r.mu.RLock()
	defer r.mu.RUnlock()
	ended, ok := r.runs[t.Delivery]
	return ok && t.Rev >= ended.rev && t.Rev < ended.rev.NextRun()
}

// Heard has Run look at once: a job was cancelled.
func (r *Runs) Heard() { r.waking.Give() }

// Load reads the runs of all cancelled jobs. It tries until it succeeds. It comes before Run.
func (r *Runs) Load(ctx context.Context) error {
	for {
		if err := r.insist(ctx); err != nil || r.older == "" {
			return err
		}
	}
}

// insist looks, and tries until that succeeds.
func (r *Runs) insist(ctx context.Context) error {
	return again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: lookEvery, Log: r.log, Fails: "cancelled jobs can't be read; trying again",
	}, func(func()) error { return r.look(ctx) })
}

// Run looks for jobs that were cancelled, when it hears of one and each lookEvery, until ctx is done.
func (r *Runs) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.waking:
		case <-ticker.C:
		}
		if r.insist(ctx) != nil {
			return nil
		}
	}
}

// look reads the runs of cancelled jobs that are not known, of two pages of jobs at most: the newest, so that a cancellation is
// noticed at once, and the next page of older ones. So an account that cancels very many jobs does not make each look longer.
// Nothing is added to a job once it is cancelled.
func (r *Runs) look(ctx context.Context) error {
	newest, err := r.page(ctx, "")
	if err != nil {
		return err
	}
	if len(newest) == pageSize {
		older, err := r.page(ctx, cmp.Or(r.older, newest[pageSize-1]))
		if err != nil {
			return err
		}
		if len(older) == pageSize {
			r.older = older[pageSize-1]
			return nil
		}
	}
	r.older = ""
	r.forget()
	return nil
}

// page reads a page of jobs, and the runs of those that are not known.
func (r *Runs) page(ctx context.Context, before string) ([]string, error) {
	jobs, err := call(ctx, func(ctx context.Context) ([]string, error) { return r.store.CancelledJobs(ctx, before, pageSize) })
	if err != nil {
		return nil, err
	}
	for _, job := range jobs {
		r.left[job] = struct{}{}
		if _, ok := r.known[job]; ok {
			continue
		}
		if err := r.read(ctx, job); err != nil {
			return nil, err
		}
		r.known[job] = struct{}{}
	}
	return jobs, nil
}

// read reads the runs of a job.
func (r *Runs) read(ctx context.Context, job string) error {
	for last := domain.DeliveryID(""); ; {
		page, err := call(ctx, func(ctx context.Context) ([]pipeline.CancelledRun, error) {
			return r.store.CancelledRuns(ctx, job, last, pageSize)
		})
		if err != nil {
			return err
		}
		r.mu.Lock()
		for _, one := range page {
			last = one.Delivery
			if one.Rev >= r.runs[one.Delivery].rev { // jobs may be read in another order than they were made
				r.runs[one.Delivery] = run{job, one.Rev}
			}
		}
		r.mu.Unlock()
		if len(page) < pageSize {
			return nil
		}
	}
}

// forget drops the runs of jobs for which no attempt is missing, once more than maxRuns are remembered. Until then they stay: the bus may
// hand a delivery out a second time.
func (r *Runs) forget() {
	left := r.left
	r.left = make(map[string]struct{}, len(left))
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.known) <= len(left) || len(r.runs) <= maxRuns {
		return
	}
	maps.DeleteFunc(r.runs, func(_ domain.DeliveryID, of run) bool { _, ok := left[of.job]; return !ok })
	r.known = left
}

// call calls the store, for callTimeout at most.
func call[T any](ctx context.Context, of func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return of(ctx)
}
