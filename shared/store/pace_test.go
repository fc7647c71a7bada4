package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

func TestPace(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		p := turnBatches()
		for _, turn := range []struct {
			took time.Duration
			rows int
		}{
			{time.Millisecond, 100},
			{time.Millisecond, 200},
			{5 * time.Millisecond, 200},
			{30 * time.Millisecond, 100},
			{time.Millisecond, 200},
			{time.Millisecond, 400},
			{time.Millisecond, 800},
			{time.Millisecond, BatchRows},
			{time.Millisecond, BatchRows},
		} {
			began := time.Now()
			if err := p.next(t.Context(), turn.took); err != nil {
				t.Fatal(err)
			}
			if waited := time.Since(began); p.rows != turn.rows || waited != turn.took {
				t.Errorf("after a turn of %s: %d rows after %s, want %d after as long", turn.took, p.rows, waited, turn.rows)
			}
		}
		for range 20 {
			if err := p.next(t.Context(), time.Second); err != nil {
				t.Fatal(err)
			}
		}
		if p.rows != fewestRows {
			t.Errorf("%d rows after slow turns, want %d", p.rows, fewestRows)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		if err := p.next(ended, time.Hour); !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
	})
}
