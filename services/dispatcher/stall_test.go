package dispatcher

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
)

// queue is a bus with events, as a stall watch sees it.
type queue struct {
	moves      atomic.Uint64
	held       bool
	some, full bool
	away, shut error // the bus; the database
	asked      atomic.Int64
}

func (q *queue) Moves() uint64 { return q.moves.Load() }
func (q *queue) Held() bool    { return q.held }

func (q *queue) waits(context.Context) (some, full bool, err error) {
	q.asked.Add(1)
	return q.some, q.full, q.away
}

func (q *queue) reachable(context.Context) error { return q.shut }

// TestWhoTakesNothingIsNotReady: 30 s without an event taken or finished though some wait,
// and only that.
func TestWhoTakesNothingIsNotReady(t *testing.T) {
	t.Parallel()
	away := errors.New("away")
	for name, row := range map[string]struct {
		queue *queue
		live  func(*queue) // every second
		want  bool
	}{
		"events wait":                             {&queue{some: true, held: true}, nil, true},
		"events wait and none was ever taken":     {&queue{some: true}, nil, true},
		"no event waits":                          {&queue{held: true}, nil, false},
		"they are taken":                          {&queue{some: true}, func(q *queue) { q.moves.Add(1) }, false},
		"the bus is away":                         {&queue{some: true, away: away}, nil, false},
		"the database is away":                    {&queue{some: true, held: true, shut: away}, nil, false},
		"others have as many in flight as may be": {&queue{some: true, full: true}, nil, false},
		"all have, and this one finishes nothing": {&queue{some: true, full: true, held: true}, nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				q := row.queue
				watch := &stallWatch{events: q, waits: q.waits, reachable: q.reachable}
				ctx, stop := context.WithCancel(t.Context())
				defer stop()
				go func() { _ = watch.Run(ctx) }()
				since := time.Now()
				for time.Since(since) < stallAfter+2*stallLook {
					if row.live != nil {
						row.live(q)
					}
					<-time.After(time.Second)
					synctest.Wait()
					if watch.stalled.Load() && time.Since(since) < stallAfter {
						t.Fatalf("stalled after %s", time.Since(since))
					}
				}
				if got := watch.stalled.Load(); got != row.want {
					t.Errorf("stalled: %v, want %v", got, row.want)
				}
				if row.live != nil && q.asked.Load() > 0 {
					t.Errorf("the bus was asked %d times though events were taken all the while", q.asked.Load())
				}
				q.moves.Add(1) // it goes on
				<-time.After(stallLook)
				synctest.Wait()
				if watch.stalled.Load() {
					t.Error("stalled though an event was taken")
				}
			})
		})
	}
}
