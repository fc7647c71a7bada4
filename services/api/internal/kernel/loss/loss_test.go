package loss_test

import (
	"slices"
	"testing"
	"time"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
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
