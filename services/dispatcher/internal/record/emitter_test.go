package record

import (
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// of is an event with n outcomes.
type of struct {
	key     domain.EventKey
	n       int
	settled func()
}

// Settle implements SettlingEvent.
func (o *of) Settle(n int) *Item {
	if n < o.n {
		return nil
	}
	return &Item{Settled: &o.key, In: EpochOf("one"), Done: o.settled}
}

// A batch settles the events of which it has all outcomes, behind them, and on the server that they are on.
func TestABatchSettlesWhatItCompletes(t *testing.T) {
	t.Parallel()
	stored := 0
	whole := &of{key: domain.EventKey{Account: "a", ID: "whole"}, n: 2, settled: func() {
		if stored != 4 {
			t.Errorf("the event is settled when %d outcomes are stored, want 4", stored)
		}
		stored = -1
	}}
	part := &of{key: domain.EventKey{Account: "a", ID: "part"}, n: 2}
	p := stalled{make(chan func(error), 1)}
	e := NewEmitter(p, RowsPostgres, 1<<20, slog.New(slog.DiscardHandler))
	for _, event := range []SettlingEvent{whole, part, whole, nil} {
		e.Emit(Item{Outcome: &domain.Outcome{Account: "a"}, OutcomeEvent: event, Done: func() { stored++ }})
	}
	batch := e.takeBatch()
	for server, want := range map[string][]domain.EventKey{"one": {whole.key}, "two": nil} {
		got, err := Parse(encode(batch, server))
		if err != nil || len(got.Outcomes) != 4 {
			t.Errorf("%d outcomes, error %v, want 4", len(got.Outcomes), err)
		}
		if diff := cmp.Diff(want, got.Settled); diff != "" {
			t.Errorf("settled on server %s (-want +got):\n%s", server, diff)
		}
	}
	e.slots <- struct{}{}
	go func() { (<-p.waiting)(nil) }()
	e.store(t.Context(), batch)
	if stored != -1 || e.Bytes() != 0 {
		t.Errorf("%d bytes wait, and the event was not settled", e.Bytes())
	}
}

// stalled stores nothing until it is told to.
type stalled struct{ waiting chan func(error) }

// PublishRecords implements Publisher.
func (s stalled) PublishRecords(_ []byte, done func(error)) { s.waiting <- done }

// Server implements Publisher.
func (stalled) Server() string { return "one" }

func TestAnEmitterThatMayNotGoOnIsFull(t *testing.T) {
	t.Parallel()
	publisher := stalled{make(chan func(error), 100)}
	e := NewEmitter(publisher, RowsPostgres, 10_000, slog.New(slog.DiscardHandler))
	go func() { _ = e.Run(t.Context()) }()
	item := Item{Settled: &domain.EventKey{Account: "a", ID: strings.Repeat("i", 1000)}}
	n := 0
	for ; !e.Full(); n++ {
		e.Emit(item)
	}
	if n < 9 || n > 10 {
		t.Errorf("it is full with %d items of some 1000 bytes, bound 10,000", n)
	}
	go func() {
		for done := range publisher.waiting {
			done(nil)
		}
	}()
	if err := e.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	if e.Full() || e.Bytes() != 0 {
		t.Errorf("%d bytes count as waiting when everything is stored", e.Bytes())
	}
}

// timed tells how many outcomes each batch has, and when it came.
type timed struct {
	began time.Time
	came  chan came
}

type came struct {
	after time.Duration
	items int
}

func (p timed) PublishRecords(body []byte, done func(error)) {
	batch, err := Parse(body)
	p.came <- came{time.Since(p.began), len(batch.Outcomes)}
	done(err)
}

func (timed) Server() string { return "one" }

func TestABatchWaitsForMore(t *testing.T) {
	t.Parallel()
	plain, inTurn := Item{Outcome: &domain.Outcome{EventID: "e"}}, Item{Outcome: &domain.Outcome{EventID: "e", Sequence: 7}}
	for name, row := range map[string]struct {
		emit  func(e *Emitter)
		want  []came
		ahead bool // all is emitted before any of it is taken
	}{
		"alone": {func(e *Emitter) { e.Emit(plain) }, []came{{linger, 1}}, false},
		"of one moment": {func(e *Emitter) {
			e.Emit(plain)
			<-time.After(linger / 2)
			e.Emit(plain)
		}, []came{{linger, 2}}, false},
		"in turn": {func(e *Emitter) {
			e.Emit(plain)
			<-time.After(linger / 2)
			e.Emit(inTurn)
			<-time.After(lingerInTurn / 2)
			e.Emit(inTurn)
		}, []came{{linger/2 + lingerInTurn, 3}}, false},
		"enough": {func(e *Emitter) {
			for range 2*RowsSQLite + 1 {
				e.Emit(plain)
			}
		}, []came{{0, min(RowsSQLite, maxBatchItems)}, {0, min(RowsSQLite, maxBatchItems)}, {0, 1}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				p := timed{time.Now(), make(chan came, 8)}
				e := NewEmitter(p, RowsSQLite, 1<<20, slog.New(slog.DiscardHandler))
				if row.ahead {
					row.emit(e)
				}
				go func() { _ = e.Run(t.Context()) }()
				if !row.ahead {
					row.emit(e)
				}
				var got []came
				for range row.want {
					got = append(got, <-p.came)
				}
				// Batches are published side by side.
				slices.SortFunc(got, func(a, b came) int { return b.items - a.items })
				if !slices.Equal(got, row.want) {
					t.Errorf("batches came as %v, want %v", got, row.want)
				}
			})
		})
	}
}
