package pending_test

import (
	"context"
	"testing"
	"time"

	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/shared/bus"
)

type consumers bus.ConsumerState

func (c consumers) ConsumerState(context.Context, string) (bus.ConsumerState, error) {
	return bus.ConsumerState(c), nil
}

func at(sequence uint64) bus.Position {
	return bus.Position{Sequence: sequence, At: int64(sequence) * int64(time.Millisecond)}
}

func TestWhatMayHaveBeenHandedOut(t *testing.T) {
	t.Parallel()
	for delivered, want := range map[uint64]uint64{0: 0, 7: 20_007} {
		if got, err := pending.HandedOut(t.Context(), consumers{Delivered: delivered}); err != nil || got != want {
			t.Errorf("after %d up to %d, %v; want %d", delivered, got, err, want)
		}
	}
	a := pending.NewAcknowledgedSet()
	const many = 1<<16 + 10
	for n := range uint64(many) {
		a.Add(at(n))
	}
	if a.Has(at(9)) || !a.Has(at(10)) || !a.Has(at(many-1)) {
		t.Error("not the last 65,536 events are remembered")
	}
	if a.Has(bus.Position{Sequence: 20, At: 1}) {
		t.Error("an event of another stream is taken for one that was acknowledged")
	}
}
