package loss_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/loss"
)

var start = time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)

// mark is how far a stream was a moment ago.
func mark() domain.StreamMark {
	return domain.StreamMark{Created: start.Add(-time.Hour), LastSeq: 100, Server: "one", SeenAt: start}
}

func TestWhatAStreamHasLost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		change func(*loss.State)
		lost   bool
	}{
		"nothing":                     {func(*loss.State) {}, false},
		"it went on":                  {func(s *loss.State) { s.LastSeq = 200 }, false},
		"it is empty, as all is done": {func(s *loss.State) { s.FirstSeq, s.FirstTime = 101, time.Time{} }, false},
		"it was made anew":            {func(s *loss.State) { s.Created = start }, true},
		"it is behind its mark":       {func(s *loss.State) { s.LastSeq = 99 }, true},
		"another server has it":       {func(s *loss.State) { s.Server = "two" }, false},
		"what it holds from before the mark was stored later": {func(s *loss.State) {
			s.Server, s.FirstTime = "two", start.Add(3*time.Second)
		}, true},
		"the same with clocks that differ": {func(s *loss.State) { s.Server, s.FirstTime = "two", start.Add(time.Second) }, false},
	} {
		state := loss.State{StreamMark: mark(), FirstSeq: 50, FirstTime: start.Add(-time.Minute)}
		row.change(&state)
		if got := state.Lost(mark()); got != row.lost {
			t.Errorf("%s: lost %v, want %v", name, got, row.lost)
		}
	}
}

// streams are states that are as far as their marks, but for what change does.
func streams(change map[string]func(*loss.State)) (map[string]loss.State, map[string]domain.StreamMark) {
	states, known := map[string]loss.State{}, map[string]domain.StreamMark{}
	for _, name := range []string{bus.StreamEvents, bus.StreamRetries, bus.StreamHold, bus.StreamOrder, bus.StreamRecords} {
		state := loss.State{StreamMark: mark(), FirstSeq: 50, FirstTime: start.Add(-time.Minute)}
		if c := change[name]; c != nil {
			c(&state)
		}
		states[name], known[name] = state, mark()
	}
	return states, known
}

func anew(s *loss.State)  { s.Created, s.LastSeq, s.FirstSeq = start.Add(time.Minute), 0, 1 }
func again(s *loss.State) { s.Server = "two" }

// What waits is given back once, on the streams that lost it and on no other.
func TestWhatIsGivenBack(t *testing.T) {
	t.Parallel()
	found := start.Add(2 * time.Minute)
	ordered := loss.Waiting{Delivery: "dlv_5", Revision: 2, Held: true, Ordered: true, UpdatedAt: start.Add(-time.Minute)}
	scheduled := loss.Waiting{Delivery: "dlv_1", Revision: 2, UpdatedAt: start.Add(-time.Minute)}
	held := loss.Waiting{Delivery: "dlv_2", Revision: 2, Held: true, UpdatedAt: start.Add(-time.Minute)}
	late := loss.Waiting{Delivery: "dlv_3", Revision: 2, Held: true, UpdatedAt: start.Add(-time.Second)}
	later := loss.Waiting{Delivery: "dlv_4", Revision: 2, UpdatedAt: found.Add(2 * time.Second)}
	for name, row := range map[string]struct {
		change map[string]func(*loss.State)
		want   []loss.Waiting
	}{
		"nothing was lost":         {nil, nil},
		"RETRIES was lost":         {map[string]func(*loss.State){bus.StreamRetries: anew}, []loss.Waiting{scheduled, later}},
		"HOLD was lost":            {map[string]func(*loss.State){bus.StreamHold: anew}, []loss.Waiting{held, late}},
		"RECORDS was lost":         {map[string]func(*loss.State){bus.StreamRecords: anew}, []loss.Waiting{scheduled, held, late, later, ordered}},
		"ORDER was lost":           {map[string]func(*loss.State){bus.StreamOrder: anew}, []loss.Waiting{ordered}},
		"EVENTS was lost":          {map[string]func(*loss.State){bus.StreamEvents: anew}, nil},
		"the server started again": {map[string]func(*loss.State){bus.StreamHold: again}, []loss.Waiting{late}},
	} {
		states, known := streams(row.change)
		r := loss.Begin(loss.Compare(states, known, nil), states, nil, found)
		var got []loss.Waiting
		for _, w := range []loss.Waiting{scheduled, held, late, later, ordered} {
			if r.Missing(w) {
				got = append(got, w)
				r.GaveBack(w.Delivery, w.Revision)
			}
			if r.Missing(w) {
				t.Errorf("%s: %s is given back twice", name, w.Delivery)
			}
			w.Revision++
			if slices.Contains(got, loss.Waiting{Delivery: w.Delivery, Revision: 2, Held: w.Held, Ordered: w.Ordered, UpdatedAt: w.UpdatedAt}) && !r.Missing(w) {
				t.Errorf("%s: a later state of %s, reached before the loss, is not given back", name, w.Delivery)
			}
		}
		if !slices.Equal(got, row.want) || r.Deliveries() != (len(row.want) > 0) {
			t.Errorf("%s: %v are given back, want %v", name, got, row.want)
		}
		if again := loss.Compare(states, known, r); len(again.Streams) > 0 {
			t.Errorf("%s: %v count as lost again", name, again.Streams)
		}
		if r.Ready(found.Add(9*time.Second), time.Time{}) || !r.Ready(found.Add(10*time.Second), time.Time{}) || r.Ready(found.Add(time.Minute), start) {
			t.Errorf("%s: the second pass does not begin when what was recorded before the loss is written", name)
		}
	}
}

func TestALossWhileAnotherIsRestoredMakesOneOfBoth(t *testing.T) {
	t.Parallel()
	states, known := streams(map[string]func(*loss.State){bus.StreamRetries: anew})
	first := loss.Begin(loss.Compare(states, known, nil), states, nil, start)
	state := states[bus.StreamHold]
	anew(&state)
	states[bus.StreamHold] = state
	both := loss.Begin(loss.Compare(states, known, first), states, first, start.Add(time.Second))
	if len(both.Streams) != 2 || both.Begun() {
		t.Errorf("lost are %v, want RETRIES and HOLD", both.Streams)
	}
}

// An event counts as gone when it left EVENTS and all records from then are written.
func TestHowFarEventsAreGone(t *testing.T) {
	t.Parallel()
	var h loss.Horizon
	const second = time.Second
	at := func(n int) time.Time { return start.Add(time.Duration(n) * second) }
	if before, ok := h.Gone(at(0), at(-60), time.Time{}); ok {
		t.Errorf("at the first look events from before %s are gone", before)
	}
	for n := 1; n <= 5; n++ {
		if before, ok := h.Gone(at(n), at(n-60), time.Time{}); ok {
			t.Errorf("after %d s events from before %s are gone", n, before)
		}
	}
	before, ok := h.Gone(at(6), at(-54), time.Time{})
	if want := at(-60 - 10); !ok || !before.Equal(want) {
		t.Errorf("events from before %s are gone, %v; want %s, 10 s before the oldest that waited then", before, ok, want)
	}
	before, _ = h.Gone(at(60), time.Time{}, at(8)) // records from 8 s on are not written
	if want := at(-60 - 10); before.Before(want) || before.After(at(-40)) {
		t.Errorf("events from before %s are gone though their outcomes may be among the records", before)
	}
}

func TestWhatIsSettledInAnotherEpochIsLeft(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		in   loss.Epoch
		now  string
		want bool
	}{
		{"", "one", true}, {"", "", true}, // the database has it
		{loss.EpochOf("one"), "one", true}, {loss.EpochOf("one"), "two", false}, {loss.EpochOf("one"), "", false},
		{loss.EpochOf(""), "", false}, {loss.EpochOf(""), "one", false},
	} {
		if got := row.in.Holds(row.now); got != row.want {
			t.Errorf("what was stored in %q holds on %q: %v, want %v", row.in, row.now, got, row.want)
		}
	}
}

// log is how far the records are.
type log struct {
	written uint64
	server  string
	err     error
}

func (l *log) Written(context.Context) (uint64, error) { return l.written, l.err }
func (l *log) Server() string                          { return l.server }

func positions(sequences ...uint64) (list []bus.Position) {
	for _, s := range sequences {
		list = append(list, bus.Position{Sequence: s, At: int64(s) * int64(time.Millisecond)})
	}
	return list
}

func TestWhetherAllBeforeIsWritten(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		log   log
		taken []uint64
		want  []bool
	}{
		"from the start":                   {log{}, []uint64{1, 2, 3}, []bool{true, true, true}},
		"another one has the first":        {log{}, []uint64{2, 3}, []bool{false, false}},
		"another one wrote the first":      {log{written: 1}, []uint64{2, 3}, []bool{true, true}},
		"another one has what is between":  {log{}, []uint64{1, 3, 4}, []bool{true, false, false}},
		"one comes again":                  {log{}, []uint64{1, 2, 1, 3}, []bool{true, true, true, true}},
		"nobody can tell how far they are": {log{err: errors.New("away")}, []uint64{5, 6}, []bool{false, false}},
		"the same, and they are in a row":  {log{err: errors.New("away")}, []uint64{1, 2}, []bool{true, true}},
	} {
		got := loss.NewOrder(&row.log).After(t.Context(), positions(row.taken...))
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func TestWhatSettlesWaitsForWhatCameBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		records := &log{server: "one"}
		o := loss.NewOrder(records)
		keep := func(sequence uint64) {
			o.Keep(positions(sequence)[0], []domain.EventKey{{ID: "evt"}})
		}
		keep(10)
		if keys := o.Ripe(t.Context(), time.Now()); len(keys) > 0 {
			t.Error("settled before what came before is written")
		}
		records.written = 10
		if keys := o.Ripe(t.Context(), time.Now()); len(keys) != 1 {
			t.Error("not settled when all before is written")
		}
		keep(20)
		records.written, records.server = 20, "two"
		if keys := o.Ripe(t.Context(), time.Now()); len(keys) > 0 {
			t.Error("settled on another server")
		}
		keep(30)
		<-time.After(16 * time.Second)
		if keys := o.Ripe(t.Context(), time.Now()); len(keys) > 0 {
			t.Error("settled though it waited for longer than the relay does")
		}
		records.written = 30
		if keys := o.Ripe(t.Context(), time.Now()); len(keys) > 0 {
			t.Error("what was given up is settled")
		}
	})
}

type consumers bus.ConsumerState

func (c consumers) ConsumerState(context.Context, string) (bus.ConsumerState, error) {
	return bus.ConsumerState(c), nil
}

func TestWhatMayHaveBeenHandedOut(t *testing.T) {
	t.Parallel()
	for delivered, want := range map[uint64]uint64{0: 0, 7: 20_007} {
		if got, err := loss.HandedOut(t.Context(), consumers{Delivered: delivered}); err != nil || got != want {
			t.Errorf("after %d up to %d, %v; want %d", delivered, got, err, want)
		}
	}
	a := loss.NewAcknowledged()
	const many = 1<<16 + 10
	for n := range uint64(many) {
		a.Add(positions(n)[0])
	}
	if a.Has(positions(9)[0]) || !a.Has(positions(10)[0]) || !a.Has(positions(many - 1)[0]) {
		t.Error("not the last 65,536 events are remembered")
	}
	if a.Has(bus.Position{Sequence: 20, At: 1}) {
		t.Error("an event of another stream is taken for one that was acknowledged")
	}
}
