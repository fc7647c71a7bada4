// Package cancelled knows which deliveries of cancelled jobs were handed over before the
// cancellation and have had no attempt yet. No attempt of these deliveries begins any more.
package cancelled

import (
	"cmp"
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

const (
	pageSize = 1000
	// pagesALook is how many pages of runs a look reads.
	pagesALook = 20
	// lookInterval is the time between two looks for cancelled jobs, which find cancellations whose announcement was lost.
	// The interval and a look together take less than one second: by then no further run of a cancelled job may begin.
	lookInterval = 500 * time.Millisecond
	// restAfter is how long after the last run that was seen Run stops looking. The first run after that asks the database.
	restAfter = 10 * time.Second
	// maxRuns is how many runs are remembered; one page more is possible. For other runs the database is asked.
	maxRuns = 100_000
	// rereadInterval is how often jobs with more than maxRuns runs are read again from the start. Runs that have
	// ended by then make room for others.
	rereadInterval = 10 * time.Second
	// callTimeout ends a call to the database that hangs; askTimeout ends a call that an attempt waits for.
	callTimeout = 5 * time.Second
	askTimeout  = time.Second
)

// Store has the deliveries that jobs wait for.
type Store interface {
	// CancelledJobs returns the newest cancelled jobs before the given one, "" for no bound, that wait for the first attempt of a delivery.
	CancelledJobs(ctx context.Context, before string, limit int) ([]pipeline.CancelledJob, error)
	// CancelledRuns returns the deliveries of a cancelled job that had no attempt yet, after the given one.
	CancelledRuns(ctx context.Context, job string, after domain.DeliveryID, limit int) ([]pipeline.CancelledRun, error)
	// RunCancelled reports whether a cancelled job waits for the first attempt of a run.
	RunCancelled(ctx context.Context, run pipeline.CancelledRun) (bool, error)
}

// run is a run of a delivery that a job has asked for.
type run struct {
	job string
	rev domain.Revision // the first revision of the run
}

// unreadJob is a job whose runs are not all known.
type unreadJob struct {
	pipeline.CancelledJob

	last domain.DeliveryID // the last delivery that was read; "": none
}

// Runs are the runs of deliveries that were cancelled before their first attempt.
type Runs struct {
	store Store
	log   *slog.Logger

	mu             sync.RWMutex
	runs           map[domain.DeliveryID]run
	unsureAccounts map[string]struct{} // accounts with jobs whose runs are not all known
	lookedAt       time.Time           // when Runs looked last
	waking         signal.Signal
	runSeenAt      atomic.Int64 // when Has or Ask was last called for a run, in nanoseconds since 1970

	// Only the goroutine that looks uses these fields.
	knownJobs  map[string]struct{} // jobs that were seen
	seenJobs   map[string]struct{} // jobs that were seen since a look last reached the oldest page
	nextBefore string              // the job before which the next look goes on; "": it has all
	unreadJobs []unreadJob         // in the order in which they are read
	rereadAt   time.Time           // when jobs were last read again from the start
}

// New returns Runs that know no cancelled run.
func New(store Store, log *slog.Logger) *Runs {
	return &Runs{
		store: store, log: log, runs: make(map[domain.DeliveryID]run), waking: signal.New(),
		knownJobs: make(map[string]struct{}), seenJobs: make(map[string]struct{}),
	}
}

// Has reports whether a delivery's run is known to have been cancelled before its first attempt. It never waits. First
// deliveries cost nothing, because they can't be cancelled.
func (r *Runs) Has(t *domain.Task) bool {
	has, _ := r.findRun(t)
	return has
}

// Ask reports the same as Has, before an attempt. It asks the database if the account has cancelled jobs whose runs are not all known,
// or if the last look was more than a second ago. If the database does not answer, the attempt begins.
func (r *Runs) Ask(t *domain.Task) bool {
	has, unsure := r.findRun(t)
	if has || !unsure {
		return has
	}
	ctx, cancel := context.WithTimeout(context.Background(), askTimeout)
	defer cancel()
	has, err := r.store.RunCancelled(ctx, pipeline.CancelledRun{Delivery: t.Delivery, Rev: t.Rev.Run()})
	return err == nil && has // Run logs that the database is away
}

func (r *Runs) findRun(t *domain.Task) (has, unsure bool) {
	if t.Rev < domain.RunStep || t.RunAttempts > 0 {
		return false, false
	}
	now := time.Now()
	r.runSeenAt.Store(now.UnixNano())
	r.mu.RLock()
	defer r.mu.RUnlock()
	ended, ok := r.runs[t.Delivery]
	_, unsure = r.unsureAccounts[t.Account]
	if now.Sub(r.lookedAt) > 2*lookInterval {
		unsure = true
		r.waking.Give() // one look answers for all runs that follow
	}
	return ok && t.Rev.Run() == ended.rev, unsure
}

// JobCancelled makes Run look at once, because a job was cancelled.
func (r *Runs) JobCancelled() { r.waking.Give() }

// Load reads all cancelled jobs. It tries until it succeeds. Call it before Run.
func (r *Runs) Load(ctx context.Context) error {
	for {
		if err := r.retryRead(ctx); err != nil || r.nextBefore == "" {
			return err
		}
	}
}

// retryRead calls readCancelled until the call succeeds.
func (r *Runs) retryRead(ctx context.Context) error {
	return again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: lookInterval, Log: r.log, Fails: "cancelled jobs can't be read; trying again",
	}, func(func()) error { return r.readCancelled(ctx) })
}

// Run looks for cancelled jobs until ctx is done: when JobCancelled is called and, as long as runs come, every lookInterval.
func (r *Runs) Run(ctx context.Context) error {
	ticker := time.NewTicker(lookInterval)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-r.waking:
		case <-ticker.C:
			if len(r.unreadJobs) == 0 && time.Since(time.Unix(0, r.runSeenAt.Load())) > restAfter {
				continue
			}
		}
		if r.retryRead(ctx) != nil {
			return nil
		}
	}
}

// readCancelled reads at most two pages of cancelled jobs: the newest page, so that a cancellation is noticed at once, and the next page of older
// ones. Then it reads pagesALook pages of runs. So a look takes no longer for an account that cancels very many jobs, or for a job of
// very many deliveries. Nothing is added to a job once it is cancelled.
func (r *Runs) readCancelled(ctx context.Context) error {
	newest, err := r.readJobs(ctx, "")
	if err != nil {
		return err
	}
	all := len(newest) < pageSize
	if !all {
		older, err := r.readJobs(ctx, cmp.Or(r.nextBefore, newest[pageSize-1].ID))
		if err != nil {
			return err
		}
		if all = len(older) < pageSize; !all {
			r.nextBefore = older[pageSize-1].ID
		}
	}
	if all {
		r.nextBefore = ""
		r.forgetRuns()
	}
	err = r.readRuns(ctx)
	r.noteUnsure()
	return err
}

// readJobs reads a page of jobs. The runs of new ones are read before those of older ones.
func (r *Runs) readJobs(ctx context.Context, before string) ([]pipeline.CancelledJob, error) {
	jobs, err := callStore(ctx, func(ctx context.Context) ([]pipeline.CancelledJob, error) {
		return r.store.CancelledJobs(ctx, before, pageSize)
	})
	if err != nil {
		return nil, err
	}
	var seen []unreadJob
	for _, job := range jobs {
		r.seenJobs[job.ID] = struct{}{}
		if _, ok := r.knownJobs[job.ID]; !ok {
			r.knownJobs[job.ID] = struct{}{}
			seen = append(seen, unreadJob{CancelledJob: job})
		}
	}
	if before == "" {
		r.unreadJobs = append(seen, r.unreadJobs...)
	} else {
		r.unreadJobs = append(r.unreadJobs, seen...)
	}
	r.noteUnsure()
	return jobs, nil
}

// noteUnsure notes which accounts have jobs whose runs are not all known.
func (r *Runs) noteUnsure() {
	unsure := make(map[string]struct{})
	for _, job := range r.unreadJobs {
		unsure[job.Account] = struct{}{}
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unsureAccounts, r.lookedAt = unsure, time.Now()
}

// readRuns reads pages of runs, one page of each job in turn, until pagesALook or maxRuns is reached.
func (r *Runs) readRuns(ctx context.Context) error {
	for pages := 0; pages < pagesALook && len(r.unreadJobs) > 0 && len(r.runs) < maxRuns; pages++ {
		job := r.unreadJobs[0]
		page, err := callStore(ctx, func(ctx context.Context) ([]pipeline.CancelledRun, error) {
			return r.store.CancelledRuns(ctx, job.ID, job.last, pageSize)
		})
		if err != nil {
			return err
		}
		r.mu.Lock()
		for _, one := range page {
			job.last = one.Delivery
			if one.Rev >= r.runs[one.Delivery].rev { // jobs may be read in another order than they were made
				r.runs[one.Delivery] = run{job.ID, one.Rev}
			}
		}
		r.mu.Unlock()
		r.unreadJobs = r.unreadJobs[1:]
		if len(page) == pageSize {
			r.unreadJobs = append(r.unreadJobs, job)
		}
	}
	return nil
}

// forgetRuns drops the runs of jobs that wait for no first attempt, once maxRuns are remembered. Until then the runs stay, because the bus
// may hand out a delivery a second time. Jobs that were not read to their end are read again from the start, without the runs that
// have ended since.
func (r *Runs) forgetRuns() {
	left := r.seenJobs
	r.seenJobs = make(map[string]struct{}, len(left))
	anew := len(r.unreadJobs) > 0 && time.Since(r.rereadAt) >= rereadInterval
	if len(r.runs) < maxRuns || len(r.knownJobs) <= len(left) && !anew {
		return
	}
	r.knownJobs, r.rereadAt = left, time.Now()
	r.unreadJobs = slices.DeleteFunc(r.unreadJobs, func(job unreadJob) bool { _, ok := left[job.ID]; return !ok })
	keeps := maps.Clone(left)
	for i := range r.unreadJobs {
		r.unreadJobs[i].last = ""
		delete(keeps, r.unreadJobs[i].ID)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	maps.DeleteFunc(r.runs, func(_ domain.DeliveryID, ended run) bool { _, ok := keeps[ended.job]; return !ok })
}

// callStore calls the store and waits at most callTimeout.
func callStore[T any](ctx context.Context, query func(ctx context.Context) (T, error)) (T, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return query(ctx)
}
