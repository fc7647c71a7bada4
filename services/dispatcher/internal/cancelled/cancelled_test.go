package cancelled_test

import (
	"cmp"
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

// left are the runs of jobs, whose ids begin with their accounts; the first calls fail. To read a page of runs takes 5 ms.
type left struct {
	mu    sync.Mutex
	jobs  map[string][]pipeline.CancelledRun
	fails int
	reads int // pages of runs
	looks int // pages of jobs
	asked int // single runs
}

func accountOf(job string) string { return job[:1] }

func (l *left) CancelledJobs(_ context.Context, before string, limit int) ([]pipeline.CancelledJob, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.looks++
	if l.fails > 0 {
		l.fails--
		return nil, errors.New("away")
	}
	var page []pipeline.CancelledJob
	for _, job := range slices.Backward(slices.Sorted(maps.Keys(l.jobs))) {
		if (before == "" || job < before) && len(page) < limit {
			page = append(page, pipeline.CancelledJob{ID: job, Account: accountOf(job)})
		}
	}
	return page, nil
}

func (l *left) CancelledRuns(ctx context.Context, job string, after domain.DeliveryID, limit int) ([]pipeline.CancelledRun, error) {
	select {
	case <-time.After(5 * time.Millisecond):
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.reads++
	rest := l.jobs[job]
	at, found := search(rest, after)
	if found {
		at++
	}
	return rest[at:min(len(rest), at+limit)], nil
}

func (l *left) RunCancelled(_ context.Context, run pipeline.CancelledRun) (bool, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.asked++
	if l.fails > 0 {
		l.fails--
		return false, errors.New("away")
	}
	for _, list := range l.jobs {
		if at, ok := search(list, run.Delivery); ok && list[at].Rev == run.Rev {
			return true, nil
		}
	}
	return false, nil
}

func search(list []pipeline.CancelledRun, id domain.DeliveryID) (int, bool) {
	return slices.BinarySearchFunc(list, id, func(run pipeline.CancelledRun, id domain.DeliveryID) int { return cmp.Compare(run.Delivery, id) })
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
		r.JobCancelled()
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
			r.Has(task)                                                     // runs come
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
		go func() { _ = r.Run(t.Context()) }()
		synctest.Wait()
		has := func(job string) bool {
			return r.Ask(&domain.Task{Account: accountOf(job), Delivery: domain.DeliveryID("of " + job), Rev: 2000})
		}
		for n := 0; n < 5500; n += 50 {
			if job := fmt.Sprintf("j%05d", n); !has(job) {
				t.Errorf("at the start, the delivery of %s begins", job)
			}
		}
		store.called()
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

// While the runs of a very large job are read, no attempt of it begins, and none of another account's job that is cancelled
// meanwhile. Attempts of accounts without such jobs ask nobody.
func TestLargeJob(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{}}
		r := started(t, store)
		cancel := func(job string, list []pipeline.CancelledRun) {
			store.change(func(jobs map[string][]pipeline.CancelledRun) { jobs[job] = list })
			r.JobCancelled()
		}
		task := func(account string, delivery domain.DeliveryID) *domain.Task {
			return &domain.Task{Account: account, Delivery: delivery, Rev: 2002}
		}
		cancel("a large one", runs(300_000))
		<-time.After(100 * time.Millisecond) // of the bubble
		cancel("b small one", []pipeline.CancelledRun{{Delivery: "e", Rev: 2000}})
		<-time.After(time.Second)
		synctest.Wait()
		if !r.Ask(task("a", "d000000")) || !r.Ask(task("b", "e")) || store.asked != 0 {
			t.Errorf("what was read begins, or is asked for: %d times", store.asked)
		}
		if !r.Ask(task("a", "d299999")) || r.Ask(task("a", "f")) || store.asked != 2 {
			t.Errorf("what was not read begins, or what was not cancelled does not; asked for %d times", store.asked)
		}
		if r.Ask(task("b", "f")) || r.Ask(task("c", "f")) || r.Has(task("a", "d299999")) || store.asked != 2 {
			t.Errorf("asked without need: %d times", store.asked)
		}
		store.change(func(map[string][]pipeline.CancelledRun) { store.fails = 1 })
		if r.Ask(task("a", "d299999")) {
			t.Error("cancelled, the database does not say")
		}
	})
}

// Of all that was cancelled, some 100,000 runs are remembered: what has ended makes room for the next.
func TestManyRuns(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		list := runs(150_000)
		store := &left{jobs: map[string][]pipeline.CancelledRun{"a large one": list, "b small one": {{Delivery: "e", Rev: 2000}}}}
		r := started(t, store)
		r.Has(&domain.Task{Rev: 2000}) // runs come
		known := func() (n int) {
			for _, run := range list {
				if r.Has(&domain.Task{Delivery: run.Delivery, Rev: 2000}) {
					n++
				}
			}
			return n
		}
		most := 0
		for left := list; len(left) > 0; left = left[min(len(left), 1500):] {
			store.change(func(jobs map[string][]pipeline.CancelledRun) { jobs["a large one"] = left })
			<-time.After(time.Second)
			synctest.Wait()
			if last := list[len(list)-1]; !r.Ask(&domain.Task{Account: "a", Delivery: last.Delivery, Rev: 2000}) || !r.Has(&domain.Task{Delivery: "e", Rev: 2000}) {
				t.Fatalf("a cancelled run begins when %d are left", len(left))
			}
			if len(left)%30_000 == 0 {
				most = max(most, known())
			}
		}
		if most < 90_000 || most > 102_000 {
			t.Errorf("%d runs were remembered", most)
		}
		store.change(func(jobs map[string][]pipeline.CancelledRun) { delete(jobs, "a large one") })
		<-time.After(time.Minute)
		synctest.Wait()
		if _, reads := store.called(); reads == 0 || !r.Has(&domain.Task{Delivery: "e", Rev: 2000}) {
			t.Error("the other job is forgotten")
		}
	})
}

// Where no run comes, nobody looks. The first one that comes is known all the same.
func TestRest(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		store := &left{jobs: map[string][]pipeline.CancelledRun{}}
		r := started(t, store)
		<-time.After(20 * time.Second)
		store.called()
		<-time.After(time.Hour)
		if looks, _ := store.called(); looks > 0 {
			t.Errorf("%d looks in an hour without runs", looks)
		}
		store.change(func(jobs map[string][]pipeline.CancelledRun) { jobs["a1"] = runs(2) })
		task := &domain.Task{Delivery: "d000000", Account: "a", Rev: 2000}
		if !r.Ask(task) {
			t.Error("an attempt begins after the rest")
		}
		<-time.After(time.Second)
		synctest.Wait()
		if looks, _ := store.called(); looks == 0 || !r.Has(task) {
			t.Errorf("%d looks after a run has come", looks)
		}
	})
}
