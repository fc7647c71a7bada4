package order

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/store/recorder"
)

const (
	// numbersMost is how many numbers of shipments stay in memory, beyond those of what has not ended.
	numbersMost = 100_000
	// trimEvery is how often it is looked whether there are more.
	trimEvery = 5 * time.Second
)

// trimming has numbers that can leave memory once all records up to a sequence are in the database.
type trimming struct {
	at      time.Time // of the last look
	records uint64
	idle    map[recorder.SequenceKey]int64
}

// trim removes numbers from memory when there are many, and the database has them. It notes how far
// RECORDS is first. Once RECORDS is acknowledged up to there, all that was recorded before is in the database.
func (s *session) trim(ctx context.Context, now time.Time) {
	t := &s.trimming
	if now.Sub(t.at) < trimEvery {
		return
	}
	t.at = now
	records := s.m.options.Bus.Stream(bus.StreamRecords)
	if t.idle != nil {
		state, err := records.ConsumerState(ctx, bus.ConsumerRecord)
		if err != nil || state.Acknowledged < t.records {
			return
		}
		s.mu.Lock()
		for key, number := range t.idle {
			if s.numbers[key] == number && !s.queued(key) {
				delete(s.numbers, key)
				delete(s.gaps, key)
			}
		}
		s.mu.Unlock()
		t.idle = nil
		return
	}
	s.mu.Lock()
	if len(s.numbers) > numbersMost {
		t.idle = make(map[recorder.SequenceKey]int64)
		for key, number := range s.numbers {
			if !s.queued(key) {
				t.idle[key] = number
			}
		}
	}
	s.mu.Unlock()
	if t.idle == nil {
		return
	}
	state, err := records.State(ctx)
	if err != nil {
		t.idle = nil
		return
	}
	t.records = state.LastSeq
}

// queued tells whether a webhook and shipment has deliveries that have not ended; s.mu is held.
func (s *session) queued(key recorder.SequenceKey) bool {
	l := s.lanes[key.Webhook]
	return l != nil && l.queues[key.Shipment] != nil
}
