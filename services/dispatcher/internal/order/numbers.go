package order

import (
	"context"
	"time"

	"waybill.dev/shared/store/recorder"
)

const (
	// numbersMost is how many numbers of shipments stay in memory, without those of deliveries that have not ended.
	numbersMost = 100_000
	// trimEvery is the time between two checks for more numbers than numbersMost.
	trimEvery = 5 * time.Second
)

// trim removes numbers from memory when there are too many, after all records that are on the bus now are in the
// database. The session handles events while it waits for that.
func (s *session) trim(ctx context.Context, now time.Time) {
	if now.Sub(s.trimmed) < trimEvery || s.trimming.Load() {
		return
	}
	s.trimmed = now
	s.mu.Lock()
	var idle map[recorder.SequenceKey]int64
	if len(s.numbers) > numbersMost {
		idle = make(map[recorder.SequenceKey]int64)
		for key, number := range s.numbers {
			if !s.queued(key) {
				idle[key] = number
			}
		}
	}
	s.mu.Unlock()
	if len(idle) == 0 {
		return
	}
	s.trimming.Store(true)
	s.m.working.Go(func() {
		defer s.trimming.Store(false)
		if s.written(ctx) == nil {
			s.forget(idle)
		}
	})
}

// forget removes the numbers of shipments that got no new delivery since idle was made.
func (s *session) forget(idle map[recorder.SequenceKey]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, number := range idle {
		if s.numbers[key] == number && !s.queued(key) {
			delete(s.numbers, key)
			delete(s.gaps, key)
		}
	}
}

// queued reports whether deliveries of a shipment to a webhook wait in the session. The caller holds s.mu.
func (s *session) queued(key recorder.SequenceKey) bool {
	g := s.groups[key.Webhook]
	return g != nil && g.queues[key.Shipment] != nil
}
