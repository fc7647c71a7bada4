package accept_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"waybill.dev/services/api/internal/kernel/accept"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/pipeline"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// database stands in where a test must decide when a commit ends and how.
type database struct {
	mu      sync.Mutex
	commits [][]string // ids of each successful commit
	begin   func(ctx context.Context, subs []pipeline.Submission) error
}

func (d *database) Accept(ctx context.Context, subs []pipeline.Submission) ([]pipeline.Receipt, error) {
	if d.begin != nil {
		if err := d.begin(ctx, subs); err != nil {
			return nil, err
		}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	var ids []string
	receipts := make([]pipeline.Receipt, len(subs))
	for i, sub := range subs {
		receipts[i].Version = 7
		for _, e := range sub.Events {
			ids = append(ids, e.ID)
			receipts[i].Events = append(receipts[i].Events, pipeline.AcceptedEvent{
				ID: e.ID, ReceivedAt: time.UnixMilli(1), Duplicate: e.ID == "repeat",
			})
		}
	}
	d.commits = append(d.commits, ids)
	return receipts, nil
}

// transport notes what is published; answer says how the bus answers, nil: well.
type transport struct {
	mu        sync.Mutex
	published []string // id/round
	answer    func(id string, round int) (duplicate bool, err error)
	silent    bool // never answers
}

func (b *transport) PublishEvent(a bus.AcceptedEvent, round int, done func(bool, error)) {
	b.mu.Lock()
	b.published = append(b.published, fmt.Sprintf("%s/%d", a.Event.ID, round))
	b.mu.Unlock()
	if b.silent {
		return
	}
	duplicate, err := false, error(nil)
	if b.answer != nil {
		duplicate, err = b.answer(a.Event.ID, round)
	}
	go done(duplicate, err)
}

func (b *transport) all() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]string(nil), b.published...)
}

// nobody watches an account.
type nobody struct{}

func (nobody) Note(string, news.Kind, string) {}

// run runs an Accepter inside a synctest bubble and returns what stops it.
func run(t *testing.T, d *database, b *transport, committers int) (*accept.Accepter, func()) {
	t.Helper()
	a := accept.New(accept.Options{
		Store: d, Bus: b, News: nobody{}, Logger: slog.New(slog.DiscardHandler), Registerer: prometheus.NewRegistry(), Committers: committers,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- a.Run(ctx) }()
	return a, func() {
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

func events(ids ...string) pipeline.Submission {
	s := pipeline.Submission{Account: "default"}
	for _, id := range ids {
		s.Events = append(s.Events, domain.Event{ID: id, Payload: []byte("{}")})
	}
	return s
}

// What arrives during a commit shares the next one.
func TestSubmissionsShareACommit(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		d, b := &database{begin: func(context.Context, []pipeline.Submission) error { <-release; return nil }}, &transport{}
		a, stop := run(t, d, b, 1)
		defer stop()
		var waiting sync.WaitGroup
		submit := func(id string) {
			waiting.Go(func() {
				receipt, err := a.Submit(t.Context(), events(id), "")
				if err != nil || receipt.Events[0].ID != id || receipt.Version != 7 {
					t.Errorf("Submit(%s) = %+v, %v", id, receipt, err)
				}
			})
			synctest.Wait() // in their order, and the first one is in its commit
		}
		for _, id := range []string{"a", "b", "c", "d"} {
			submit(id)
		}
		close(release)
		waiting.Wait()
		synctest.Wait()
		if diff := cmp.Diff([][]string{{"a"}, {"b", "c", "d"}}, d.commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff([]string{"a/0", "b/0", "c/0", "d/0"}, b.all()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

// A caller whose time is over is told so, and what no committer has taken by then is
// not committed behind its back.
func TestCallerGivesUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		hang := true
		d, b := &database{}, &transport{}
		d.begin = func(ctx context.Context, _ []pipeline.Submission) error {
			if hang {
				<-ctx.Done()
				return fmt.Errorf("commit: %w", domain.ErrUnavailable)
			}
			return nil
		}
		a, stop := run(t, d, b, 1)
		defer stop()
		ctx, cancel := context.WithTimeout(t.Context(), 1800*time.Millisecond)
		defer cancel()
		started := time.Now()
		var waiting sync.WaitGroup
		for _, caller := range []struct {
			id    string
			waits time.Duration
		}{{"taken", 1950 * time.Millisecond}, {"queued", 1800 * time.Millisecond}} {
			waiting.Go(func() {
				if _, err := a.Submit(ctx, events(caller.id), ""); !errors.Is(err, domain.ErrUnavailable) {
					t.Errorf("Submit(%s): %v, want unavailable", caller.id, err)
				}
				if took := time.Since(started); took != caller.waits {
					t.Errorf("%s waited %s, want %s", caller.id, took, caller.waits)
				}
			})
			synctest.Wait()
		}
		waiting.Wait()
		hang = false
		if _, err := a.Submit(t.Context(), events("later"), ""); err != nil {
			t.Error(err)
		}
		if diff := cmp.Diff([][]string{{"later"}}, d.commits); diff != "" {
			t.Errorf("commits (-want +got):\n%s", diff)
		}
	})
}

// Events that are committed after their caller has gone are published all the same.
func TestCommittedAfterCallerWentIsPublished(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d, b := &database{begin: func(context.Context, []pipeline.Submission) error { <-time.After(3 * time.Second); return nil }}, &transport{}
		a, stop := run(t, d, b, 1)
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := a.Submit(ctx, events("slow"), ""); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Submit: %v", err)
		}
		stop()
		if diff := cmp.Diff([]string{"slow/0"}, b.all()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

// One submission that the store can't take does not spoil the others of its commit.
func TestOneBadSubmissionFailsAlone(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		bad := errors.New("can't be stored")
		d := &database{begin: func(_ context.Context, subs []pipeline.Submission) error {
			<-release
			for _, sub := range subs {
				if sub.Events[0].ID == "bad" {
					return bad
				}
			}
			return nil
		}}
		a, stop := run(t, d, &transport{}, 1)
		defer stop()
		var waiting sync.WaitGroup
		for _, id := range []string{"first", "b", "bad", "c"} {
			waiting.Go(func() {
				_, err := a.Submit(t.Context(), events(id), "")
				if want := id == "bad"; errors.Is(err, bad) != want || (err != nil) != want {
					t.Errorf("Submit(%s): %v", id, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		waiting.Wait()
	})
}

// While the store is away nobody is tried alone: that would only take longer.
func TestStoreAwayFailsAllAtOnce(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		calls := 0
		release := make(chan struct{})
		d := &database{begin: func(context.Context, []pipeline.Submission) error {
			<-release
			calls++
			return domain.ErrUnavailable
		}}
		a, stop := run(t, d, &transport{}, 1)
		defer stop()
		var waiting sync.WaitGroup
		for _, id := range []string{"a", "b", "c"} {
			waiting.Go(func() {
				if _, err := a.Submit(t.Context(), events(id), ""); !errors.Is(err, domain.ErrUnavailable) {
					t.Errorf("Submit(%s): %v", id, err)
				}
			})
			synctest.Wait()
		}
		close(release)
		waiting.Wait()
		if calls != 2 {
			t.Errorf("the store was asked %d times, want 2", calls)
		}
	})
}

// A repeat on the first publication was somebody else's message: the event goes again
// under another message id. A repeated event id is not published at all.
func TestPublication(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &transport{answer: func(id string, round int) (bool, error) {
			switch id {
			case "used":
				return round == 0, nil
			case "lost":
				return false, domain.ErrUnavailable
			}
			return false, nil
		}}
		a, stop := run(t, &database{}, b, 1)
		if _, err := a.Submit(t.Context(), events("used", "repeat", "lost", "good"), ""); err != nil {
			t.Error(err)
		}
		stop()
		if diff := cmp.Diff([]string{"used/0", "lost/0", "good/0", "used/1"}, b.all()); diff != "" {
			t.Errorf("published (-want +got):\n%s", diff)
		}
	})
}

// A bus that answers nothing takes up to a bound, and delays neither callers nor the end.
func TestBusHangs(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		b := &transport{silent: true}
		a, stop := run(t, &database{}, b, 1)
		started := time.Now()
		const submissions, each = 20, 1000
		ids := make([]string, each)
		for range submissions {
			if _, err := a.Submit(t.Context(), events(ids...), ""); err != nil {
				t.Error(err)
			}
		}
		if took := time.Since(started); took > 0 {
			t.Errorf("callers waited %s for the bus", took)
		}
		stop()
		if n := len(b.all()); n != 1<<14 {
			t.Errorf("%d events are on their way to a bus that hangs, want %d", n, 1<<14)
		}
		if took := time.Since(started); took > 5*time.Second {
			t.Errorf("stopping took %s", took)
		}
	})
}

// Commits are one after the other as long as each is quick and few submissions wait, so that
// each has what came during the last; one that hangs is not waited for.
func TestCommitsShareWhatWaits(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		takes time.Duration // the first commit
		waits int           // submissions that come during it
		want  []int         // events of each commit, in the order in which they end; nil: 256 first
		after time.Duration // until the second has ended
	}{
		"quick":   {takes: 150 * time.Millisecond, waits: 9, want: []int{1, 9}, after: 150 * time.Millisecond},
		"hanging": {takes: 4 * time.Second, waits: 9, want: []int{9, 1}, after: 200 * time.Millisecond},
		"crowded": {takes: 150 * time.Millisecond, waits: 300},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &database{begin: func(_ context.Context, subs []pipeline.Submission) error {
					if subs[0].Events[0].ID == "first" {
						<-time.After(row.takes)
					}
					return nil
				}}
				a, stop := run(t, d, &transport{}, 2)
				started := time.Now()
				var waiting sync.WaitGroup
				submit := func(id string, within time.Duration) {
					waiting.Go(func() {
						if _, err := a.Submit(t.Context(), events(id), ""); err != nil {
							t.Errorf("Submit: %v", err)
						}
						if took := time.Since(started); took > within {
							t.Errorf("%s was committed after %s, want %s", id, took, within)
						}
					})
					synctest.Wait()
				}
				submit("first", row.takes)
				for i := range row.waits {
					submit(strconv.Itoa(i), max(row.after, 150*time.Millisecond))
				}
				waiting.Wait()
				stop()
				var got []int
				for _, ids := range d.commits {
					got = append(got, len(ids))
				}
				if row.want == nil && got[0] != 256 {
					t.Errorf("commits of %d events, want one of 256 beside the first", got)
				} else if row.want != nil && !slices.Equal(got, row.want) {
					t.Errorf("commits of %d events, want %d", got, row.want)
				}
			})
		})
	}
}

// What was submitted before the end is committed; what comes after it is refused.
func TestStop(t *testing.T) {
	t.Parallel()
	for _, committers := range []int{1, 3} {
		t.Run(strconv.Itoa(committers), func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				d := &database{begin: func(context.Context, []pipeline.Submission) error { <-time.After(time.Second); return nil }}
				a, stop := run(t, d, &transport{}, committers)
				var waiting sync.WaitGroup
				for i := range 10 {
					waiting.Go(func() {
						if _, err := a.Submit(t.Context(), events(strconv.Itoa(i)), ""); err != nil {
							t.Errorf("Submit: %v", err)
						}
					})
					synctest.Wait()
				}
				stop()
				waiting.Wait()
				if _, err := a.Submit(t.Context(), events("late"), ""); !errors.Is(err, domain.ErrUnavailable) {
					t.Errorf("Submit after the end: %v, want unavailable", err)
				}
			})
		})
	}
}
