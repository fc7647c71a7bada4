package accept_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/kernel/accept"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// watched is an Accepter on a store whose commits take as long as takes says, with what it counts
// and logs.
type watched struct {
	*accept.Accepter

	t        *testing.T
	registry *prometheus.Registry
	log      bytes.Buffer
	takes    time.Duration
	database database
	callers  sync.WaitGroup
}

func watch(t *testing.T, takes time.Duration) (w *watched, stop func()) {
	t.Helper()
	w = &watched{t: t, registry: prometheus.NewRegistry(), takes: takes}
	w.database.begin = func(context.Context, []pipeline.Submission) error { <-time.After(w.takes); return nil }
	w.Accepter = accept.New(accept.Options{
		Store: &w.database, Bus: &transport{}, News: nobody{}, Logger: slog.New(slog.NewTextHandler(&w.log, nil)), Registerer: w.registry,
	})
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- w.Run(ctx) }()
	return w, func() {
		w.callers.Wait()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	}
}

// submit publishes with the time that a request has, and hands out what came of it.
func (w *watched) submit(id string, then func(took time.Duration, err error)) {
	w.callers.Go(func() {
		ctx, cancel := context.WithTimeout(w.t.Context(), 1800*time.Millisecond)
		defer cancel()
		began := time.Now()
		_, err := w.Submit(ctx, events(id), "")
		then(time.Since(began), err)
	})
	synctest.Wait() // it is in a commit, or in the queue
}

// value returns a metric, by the value of its label.
func (w *watched) value(name, label string) float64 {
	w.t.Helper()
	families, err := w.registry.Gather()
	if err != nil {
		w.t.Fatal(err)
	}
	for _, family := range families {
		for _, m := range family.GetMetric() {
			if family.GetName() == name && (label == "" || m.GetLabel()[0].GetValue() == label) {
				return m.GetCounter().GetValue() + m.GetGauge().GetValue()
			}
		}
	}
	w.t.Fatalf("there is no %s %s", name, label)
	return 0
}

// Who can't be served in time is told so at once, and when to come again. As soon as the store is
// quick again, all are served.
func TestBusy(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, stop := watch(t, 2*time.Second)
		defer stop()
		if _, err := w.Submit(t.Context(), events("first"), ""); err != nil {
			t.Fatal(err)
		}
		// One second is what a commit is taken to need now.
		fine := func(id string) func(time.Duration, error) {
			return func(_ time.Duration, err error) {
				if err != nil {
					t.Errorf("%s: %v", id, err)
				}
			}
		}
		w.takes = 800 * time.Millisecond
		w.submit("commits", fine("commits"))
		w.submit("waits", fine("waits"))
		for range 3 {
			w.submit("refused", func(took time.Duration, err error) {
				var busy *accept.BusyError
				if !errors.As(err, &busy) || !errors.Is(err, domain.ErrUnavailable) || busy.Wait != 2*time.Second || took != 0 {
					t.Errorf("refused after %s: %v, want at once, for 2 s", took, err)
				}
			})
		}
		if n := w.value("waybill_accept_refused_total", "busy"); n != 3 {
			t.Errorf("%v are counted as refused, want 3", n)
		}
		if line := w.log.String(); strings.Count(line, "publishers were answered 503") != 1 || !strings.Contains(line, "busy=1 ") {
			t.Errorf("log %q, want one line, with the first", line)
		}
		w.callers.Wait()
		w.takes = time.Millisecond
		for range 20 {
			w.submit("quick", fine("quick"))
		}
		w.callers.Wait()
		if got, want := w.value("waybill_accept_commit_longest_seconds", ""), 2.0; got != want {
			t.Errorf("the longest commit took %v s, want %v", got, want)
		}
		<-time.After(2 * time.Minute)
		if got := w.value("waybill_accept_commit_longest_seconds", ""); got != 0 {
			t.Errorf("after two minutes the longest commit took %v s, want 0", got)
		}
	})
}

// A caller whose time ends during the commit of its events hears what became of them, if that is soon.
// If not, it is counted with those that no commit had, and the log tells of it.
func TestLate(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		takes              time.Duration
		queued, committing float64
		accepted           bool
	}{
		"soon":  {takes: 1900 * time.Millisecond, queued: 1, accepted: true},
		"later": {takes: 3 * time.Second, queued: 1, committing: 1},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				w, stop := watch(t, row.takes)
				defer stop()
				w.submit("committing", func(took time.Duration, err error) {
					if (err == nil) != row.accepted || took > 1950*time.Millisecond {
						t.Errorf("after %s: %v", took, err)
					}
				})
				w.submit("queued", func(took time.Duration, err error) {
					if !errors.Is(err, domain.ErrUnavailable) || took != 1800*time.Millisecond {
						t.Errorf("queued: after %s: %v", took, err)
					}
				})
				w.callers.Wait()
				got := []float64{w.value("waybill_accept_refused_total", "queued"), w.value("waybill_accept_refused_total", "committing"), w.value("waybill_accept_refused_total", "busy")}
				if diff := cmp.Diff([]float64{row.queued, row.committing, 0}, got); diff != "" {
					t.Errorf("counted (-want +got):\n%s", diff)
				}
				if w.log.Len() == 0 {
					t.Error("the log says nothing")
				}
			})
		})
	}
}

// Who goes by itself is not counted.
func TestCallerGoes(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		w, stop := watch(t, 3*time.Second)
		defer stop()
		ctx, cancel := context.WithCancel(t.Context())
		w.callers.Go(func() {
			if _, err := w.Submit(ctx, events("gone"), ""); !errors.Is(err, context.Canceled) {
				t.Errorf("Submit: %v", err)
			}
		})
		synctest.Wait()
		cancel()
		w.callers.Wait()
		if n := w.value("waybill_accept_refused_total", "committing"); n != 0 || w.log.Len() > 0 {
			t.Errorf("%v are counted, log %q", n, w.log.String())
		}
	})
}
