package record_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

func TestWhatIsSettledInAnotherEpochIsLeft(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		in   record.Epoch
		now  string
		want bool
	}{
		{"", "one", true}, {"", "", true}, // the database has it
		{record.EpochOf("one"), "one", true}, {record.EpochOf("one"), "two", false}, {record.EpochOf("one"), "", false},
		{record.EpochOf(""), "", false}, {record.EpochOf(""), "one", false},
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
		got := record.NewOrder(&row.log).After(t.Context(), positions(row.taken...))
		if !slices.Equal(got, row.want) {
			t.Errorf("%s: %v, want %v", name, got, row.want)
		}
	}
}

func TestWhatSettlesWaitsForWhatCameBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		records := &log{server: "one"}
		o := record.NewOrder(records)
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
