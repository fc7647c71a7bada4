package cancelled_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/cancelled"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// left are the runs of jobs; the first calls fail.
type left struct {
	mu    sync.Mutex
	jobs  map[string][]pipeline.CancelledRun
	fails int
	reads int // pages of runs
	looks int // pages of jobs
}

func (l *left) CancelledJobs(_ context.Context, before string, limit int) ([]string, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.fails > 0 {
		l.fails--
		return nil, errors.New("away")
	}
	var page []string
	for _, job := range slices.Backward(slices.Sorted(maps.Keys(l.jobs))) {
		if (before == "" || job < before) && len(page) < limit {
			page = append(page, job)
		}
	}
	return page, nil
}

func (l *left) CancelledRuns(_ context.Context, job string, after domain.DeliveryID, limit int) ([]pipeline.CancelledRun, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	var page []pipeline.CancelledRun
	for _, run := range l.jobs[job] {
		if run.Delivery > after && len(page) < limit {
			page = append(page, run)
		}
	}
	return page, nil
}

// change changes the jobs between two calls.
func (l *left) change(by func(jobs map[string][]pipeline.CancelledRun)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	by(l.jobs)
}

// called returns the pages of jobs and of runs that were read since it was called last.
func (l *left) called() (looks, reads int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	looks, reads = l.looks, l.reads
	l.looks, l.reads = 0, 0
	return looks, reads
}

// runs are n runs of one job.
func runs(n int) (list []pipeline.CancelledRun) {
	for i := range n {
		list = append(list, pipeline.CancelledRun{Delivery: domain.DeliveryID(fmt.Sprintf("d%06d", i)), Rev: 2000})
	}
	return list
}

func started(t *testing.T, store *left) *cancelled.Runs {
	t.Helper()
	r := cancelled.New(store, slog.New(slog.DiscardHandler))
	go func() { _ = r.Run(t.Context()) }()
	synctest.Wait()
	return r
}

func TestWhatIsLeftDoesNotBegin(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{fails: 2, jobs: map[string][]pipeline.CancelledRun{}}
		r := started(t, store)
		task := func(rev domain.Revision, attempts int) *domain.Task {
			return &domain.Task{Delivery: "d002499", Rev: rev, RunAttempts: attempts}
		}
		if r.Has(task(2000, 0)) {
			t.Error("ended before anything was cancelled")
		}
		store.change(func(jobs map[string][]pipeline.CancelledRun) { jobs["j"] = runs(2500) })
		r.Heard()
		<-time.After(time.Second) // of the bubble
		synctest.Wait()
		for name, c := range map[string]struct {
			task *domain.Task
			want bool
		}{
			"not begun":          {task(2000, 0), true},
			"put off":            {task(2004, 0), true},
			"after an attempt":   {task(2002, 1), false},
			"the run before":     {task(1004, 0), false},
			"asked for again":    {task(3000, 0), false},
			"a first delivery":   {task(0, 0), false},
			"another's delivery": {&domain.Task{Delivery: "e", Rev: 2000}, false},
		} {
			if got := r.Has(c.task); got != c.want {
				t.Errorf("%s: %t", name, got)
			}
		}
	})
}

// A cancellation is known within a second also if the bus has lost its announcement, and read once.
func TestLostAnnouncement(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{}}
		r := started(t, store)
		task := &domain.Task{Delivery: "d000000", Rev: 2000}
		for n := range 3 {
			<-time.After(time.Hour + time.Duration(n)*170*time.Millisecond) // of the bubble, anywhere between two looks
			store.change(func(jobs map[string][]pipeline.CancelledRun) {
				clear(jobs)
				jobs[fmt.Sprint("j", n)] = []pipeline.CancelledRun{{Delivery: task.Delivery, Rev: task.Rev}}
			})
			<-time.After(time.Second)
			synctest.Wait()
			if _, reads := store.called(); !r.Has(task) || reads != 1 {
				t.Errorf("a second after cancellation %d: %t, %d pages were read", n, r.Has(task), reads)
			}
			task.Rev = task.Rev.NextRun() // asked for again
			if r.Has(task) {
				t.Errorf("asked for again after cancellation %d, it is ended", n)
			}
		}
	})
}

// However many cancelled jobs wait for attempts, a look reads two pages of them, a new cancellation is known within a second, and
// the older ones come in their turns.
func TestManyCancelledJobs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{}}
		cancel := func(job string) {
			store.change(func(jobs map[string][]pipeline.CancelledRun) {
				jobs[job] = []pipeline.CancelledRun{{Delivery: domain.DeliveryID("of " + job), Rev: 2000}}
			})
		}
		for n := range 5500 {
			cancel(fmt.Sprintf("j%05d", n))
		}
		r := cancelled.New(store, slog.New(slog.DiscardHandler))
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if _, reads := store.called(); reads != 5500 {
			t.Errorf("at the start the runs of %d jobs were read", reads)
		}
		go func() { _ = r.Run(t.Context()) }()
		synctest.Wait()
		has := func(job string) bool {
			return r.Has(&domain.Task{Delivery: domain.DeliveryID("of " + job), Rev: 2000})
		}
		cancel("j99999")
		cancel("j00000.5") // older than a page
		<-time.After(time.Second)
		synctest.Wait()
		if looks, _ := store.called(); !has("j99999") || looks > 4 {
			t.Errorf("a second after a cancellation: known %t, %d pages of jobs", has("j99999"), looks)
		}
		<-time.After(5 * time.Second)
		synctest.Wait()
		if !has("j00000.5") {
			t.Error("the cancellation of an old job is not known after six seconds")
		}
	})
}

// A job that was made before another one is read after it: the later run counts.
func TestLaterRunCounts(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{"j1": {{Delivery: "d", Rev: 3000}}, "j2": {{Delivery: "d", Rev: 2000}}}}
		r := cancelled.New(store, slog.New(slog.DiscardHandler))
		if err := r.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
		if !r.Has(&domain.Task{Delivery: "d", Rev: 3000}) {
			t.Error("the later run begins")
		}
	})
}

// Jobs that have nothing left are forgotten once many runs are known, and no others.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{"many": runs(100_000), "one": {{Delivery: "e", Rev: 2000}}}}
		r := started(t, store)
		has := func() [2]bool {
			<-time.After(time.Second)
			synctest.Wait()
			return [2]bool{r.Has(&domain.Task{Delivery: "d000001", Rev: 2000}), r.Has(&domain.Task{Delivery: "e", Rev: 2000})}
		}
		if got := has(); got != [2]bool{true, true} {
			t.Errorf("at first: %v", got)
		}
		store.change(func(jobs map[string][]pipeline.CancelledRun) { delete(jobs, "many") })
		if got := has(); got != [2]bool{false, true} {
			t.Errorf("when it has nothing left: %v", got)
		}
	})
}
