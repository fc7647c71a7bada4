package order

import (
	"context"
	"time"

	"waybill.dev/shared/store/recorder"
)

const (
	// maxNumbers is how many numbers of shipments stay in memory, without those of deliveries that have not ended.
	maxNumbers = 100_000
	// trimEvery is the time between two checks for more numbers than maxNumbers.
	trimEvery = 5 * time.Second
)

// trimNumbers removes numbers from memory when there are too many, after all records that are on the bus now are in the
// database. The session handles events while it waits for that.
func (s *session) trimNumbers(ctx context.Context, now time.Time) {
	if now.Sub(s.trimmedAt) < trimEvery || s.trimming.Load() {
		return
	}
	s.trimmedAt = now
	s.mu.Lock()
	var idle map[recorder.SequenceKey]int64
	if len(s.numbers) > maxNumbers {
		idle = make(map[recorder.SequenceKey]int64)
		for key, number := range s.numbers {
			if !s.hasQueue(key) {
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
		if s.awaitRecords(ctx) == nil {
			s.forgetNumbers(idle)
		}
	})
}

// forgetNumbers removes the numbers of shipments that got no new delivery since idle was made.
func (s *session) forgetNumbers(idle map[recorder.SequenceKey]int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for key, number := range idle {
		if s.numbers[key] == number && !s.hasQueue(key) {
			delete(s.numbers, key)
			delete(s.gaps, key)
		}
	}
}

// hasQueue reports whether deliveries of a shipment to a webhook wait in the session. The caller holds s.mu.
func (s *session) hasQueue(key recorder.SequenceKey) bool {
	g := s.groups[key.Webhook]
	return g != nil && g.queues[key.Shipment] != nil
}
