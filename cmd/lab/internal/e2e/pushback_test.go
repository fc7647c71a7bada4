package e2e_test

import (
	"context"
	"database/sql"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	_ "modernc.org/sqlite" // registers the driver "sqlite"

	"waybill.dev/cmd/internal/client"
	"waybill.dev/cmd/lab/internal/stack"
	"waybill.dev/shared/domain"
)

const (
	// offeredBatches of offeredEvents are more than two commits have: the queue is longer than what is committed next.
	offeredBatches, offeredEvents = 120, 100
	// atOnce is far below the 1.8 s that a request has, and far above what a refusal takes on a busy machine.
	atOnce = 600 * time.Millisecond
	// inTime is somewhat more than the 1.95 s after which every publisher is answered, whatever the store does.
	inTime = 3 * time.Second
)

// offer is a request with events, and what became of it.
type offer struct {
	events []event
	body   []byte
	answer client.Answer
	took   time.Duration
}

func (o *offer) ids() (ids []string) {
	for _, e := range o.events {
		ids = append(ids, e.ID)
	}
	return ids
}

// busy reports whether the offer was refused because too many events waited. Its events are not accepted then.
func (o *offer) busy() bool {
	return o.answer.Status == http.StatusServiceUnavailable && strings.Contains(string(o.answer.Body), "More events wait")
}

// offers collects what is offered at the same time.
type offers struct {
	*world
	running sync.WaitGroup
	mu      sync.Mutex
	ended   []*offer
}

func (o *offers) add(n int) {
	one := &offer{events: make([]event, n)}
	bodies := make([]string, n)
	for i := range one.events {
		one.events[i] = o.event(domain.ShipmentCreated, "")
		bodies[i] = string(one.events[i].body())
	}
	one.body = []byte("[" + strings.Join(bodies, ",") + "]")
	o.running.Go(func() {
		began := time.Now()
		var err error
		if one.answer, err = o.api.Ask(o.Context(), http.MethodPost, "/v1/events", one.body, nil); err != nil {
			if o.Context().Err() == nil { // else the case has failed already
				o.Errorf("publish: %v", err)
			}
			return
		}
		one.took = time.Since(began)
		o.mu.Lock()
		defer o.mu.Unlock()
		o.ended = append(o.ended, one)
	})
}

// any reports whether one that has ended is as asked.
func (o *offers) any(is func(*offer) bool) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return slices.ContainsFunc(o.ended, is)
}

// pushedBack offers more than the store takes while somebody holds its writer.
func pushedBack(w *world) {
	endpoint, _ := w.register("all", nil)
	w.known(1)
	w.arrived(endpoint, w.publish(1))
	release := w.holdWriter()
	all := &offers{world: w}
	w.Cleanup(all.running.Wait)
	for range offeredBatches {
		all.add(offeredEvents)
	}
	w.await("somebody is refused at once", inTime, func() bool {
		all.add(1)
		return all.any(func(o *offer) bool { return o.busy() && o.took < atOnce })
	})
	onBus := w.event(domain.ShipmentCreated, "")
	w.ways()["nats"](onBus)
	w.arrived(endpoint, []string{onBus.ID})
	w.await("those that are not served in time are counted", patience, func() bool {
		return w.refusals("queued")+w.refusals("committing") > 0
	})
	release()
	all.running.Wait()
	accepted, later := w.answered(all.ended)
	w.arrived(endpoint, accepted)
	w.refusalsAreTold(all.ended)
	for _, o := range later {
		w.submit(o.body)
	}
	for _, o := range later {
		accepted = append(accepted, o.ids()...)
	}
	w.arrived(endpoint, accepted)
	if n := endpoint.Ids(); n != len(accepted)+2 { // the first event and the one on the bus
		w.Errorf("%d events arrived, want %d", n, len(accepted)+2)
	}
}

// answered checks the answers, and returns the ids that were accepted and the offers that were not. What was refused at once
// is not there.
func (w *world) answered(list []*offer) (accepted []string, later []*offer) {
	w.Helper()
	for _, o := range list {
		if o.took > inTime {
			w.Errorf("an answer took %s", o.took)
		}
		switch o.answer.Status {
		case http.StatusAccepted:
			accepted = append(accepted, o.ids()...)
			continue
		case http.StatusServiceUnavailable:
		default:
			w.Errorf("answered %d %s", o.answer.Status, o.answer.Body)
		}
		later = append(later, o)
		if after, err := strconv.Atoi(o.answer.Header.Get("Retry-After")); err != nil || after < 1 {
			w.Errorf("a 503 has the Retry-After %q", o.answer.Header.Get("Retry-After"))
		}
		if !o.busy() {
			continue
		}
		if there, err := w.api.HasEvent(w.Context(), o.events[0].ID); err != nil || there {
			w.Errorf("%s was refused, and is it there: %v, %v", o.events[0].ID, there, err)
		}
	}
	return accepted, later
}

// refusalsAreTold looks for the refusals in the metrics and in the log.
func (w *world) refusalsAreTold(list []*offer) {
	w.Helper()
	busy := len(slices.DeleteFunc(slices.Clone(list), func(o *offer) bool { return !o.busy() }))
	if n := w.refusals("busy"); n != float64(busy) {
		w.Errorf("%g refusals are counted, want %d", n, busy)
	}
	p := w.accepts()
	if longest, err := w.stack.Metric(w.Context(), p.Name, "waybill_accept_commit_longest_seconds"); err != nil || longest < 1 {
		w.Errorf("the longest commit took %g s, %v", longest, err)
	}
	if log, err := os.ReadFile(p.LogFile()); err != nil || !strings.Contains(string(log), "publishers were answered 503") {
		w.Errorf("the log does not tell of it: %v", err)
	}
}

// accepts returns the process that accepts events.
func (w *world) accepts() *stack.Process {
	if w.stack.Waybill != nil {
		return w.stack.Waybill
	}
	return w.stack.APIs[0]
}

// refusals is how many publishers were answered 503 for a reason.
func (w *world) refusals(reason string) float64 {
	w.Helper()
	text, err := w.stack.Metrics(w.Context(), w.accepts().Name)
	if err != nil {
		w.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), fmt.Sprintf("waybill_accept_refused_total{reason=%q} ", reason))
	value, _, _ := strings.Cut(rest, "\n")
	n, err := strconv.ParseFloat(value, 64)
	if !found || err != nil {
		w.Fatalf("no metric of %s: %v", reason, err)
	}
	return n
}

// holdWriter has nobody else write events until release is called.
func (w *world) holdWriter() (release func()) {
	w.Helper()
	ctx := context.WithoutCancel(w.Context())
	if w.stack.DatabaseURL == "" {
		db, err := sql.Open("sqlite", "file:"+filepath.Join(w.stack.Data(), "waybill", "waybill.db")+"?_txlock=immediate&_pragma=busy_timeout(5000)")
		if err != nil {
			w.Fatal(err)
		}
		tx, err := db.BeginTx(ctx, nil)
		if err != nil {
			w.Fatalf("hold the writer: %v", err)
		}
		return func() {
			if err := tx.Rollback(); err != nil {
				w.Error(err)
			}
			if err := db.Close(); err != nil {
				w.Error(err)
			}
		}
	}
	conn, err := pgx.Connect(ctx, w.stack.DatabaseURL)
	if err != nil {
		w.Fatal(err)
	}
	for _, statement := range []string{"BEGIN", "LOCK TABLE events IN EXCLUSIVE MODE"} {
		if _, err := conn.Exec(ctx, statement); err != nil {
			w.Fatalf("hold the writer: %v", err)
		}
	}
	return func() {
		if err := conn.Close(ctx); err != nil {
			w.Error(err)
		}
	}
}
