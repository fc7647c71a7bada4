package loss

import "time"

const (
	// busClocks is the maximum difference between the clocks of api and bus.
	busClocks = 5 * time.Second
	// margin is how much older than anything on the bus an event must be before it counts
	// as lost: more than a publication may take, and than clocks may differ.
	margin = 10 * time.Second
)

// Horizon follows up to which time of acceptance the bus holds no unsettled event any more.
type Horizon struct{ past []sample }

// sample is the progress of the dispatchers at a moment.
type sample struct {
	at     time.Time
	events time.Time // every event published before was acknowledged
}

// Gone returns a time. The bus has no unsettled event that was published before it: neither in
// EVENTS nor in RECORDS. An event's outcomes may come to RECORDS long after the event, because of a
// backlog. But they are there before the event is acknowledged. So when all records from before its
// acknowledgement are written, nothing of the event is left on the bus.
//
// oldestEvent and oldestRecord are the times of the oldest unacknowledged messages, read at now or
// later; zero: there is none. ok is false while no such time is known.
func (h *Horizon) Gone(now, oldestEvent, oldestRecord time.Time) (before time.Time, ok bool) {
	events := now
	if !oldestEvent.IsZero() && oldestEvent.Before(now) {
		events = oldestEvent
	}
	h.past = append(h.past, sample{at: now, events: events})
	written := now
	if !oldestRecord.IsZero() && oldestRecord.Before(now) {
		written = oldestRecord
	}
	known := 0
	for known < len(h.past) && h.past[known].at.Before(written.Add(-busClocks)) {
		known++
	}
	if known == 0 {
		return time.Time{}, false
	}
	h.past = h.past[known-1:] // keeps the latest sample that counts, and those after it
	return h.past[0].events.Add(-margin), true
}
