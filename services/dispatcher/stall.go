package dispatcher

import (
	"context"
	"sync/atomic"
	"time"

	"waybill.dev/shared/bus"
)

const (
	// stallAfter is how long a dispatcher may neither take nor acknowledge an event while events
	// wait. After that it is not ready.
	stallAfter = 30 * time.Second
	stallLook  = 5 * time.Second
)

// eventsInFlight has the facts about events in flight that a stall watch needs.
type eventsInFlight interface {
	// Moves returns how many events were taken and acknowledged so far.
	Moves() uint64
	// Held reports whether any event is in flight.
	Held() bool
}

// stallWatch detects that events wait and this dispatcher takes none. It is no stall if there is
// another reason: the bus or the database is away, or other dispatchers have all events in flight.
type stallWatch struct {
	events eventsInFlight
	// waits reports whether events wait that a dispatcher could take, and whether others must be
	// acknowledged first. An error means that the bus can't tell.
	waits func(ctx context.Context) (some, full bool, err error)
	// reachable returns nil while nothing else keeps events from being taken.
	reachable func(ctx context.Context) error

	stalled atomic.Bool
}

// Run looks until ctx is done. While events are taken or finished it does not ask the bus.
func (s *stallWatch) Run(ctx context.Context) error {
	ticker := time.NewTicker(stallLook)
	defer ticker.Stop()
	moves, since := s.events.Moves(), time.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if now := s.events.Moves(); now != moves || !s.waiting(ctx) {
			moves, since = now, time.Now()
		}
		s.stalled.Store(time.Since(since) >= stallAfter)
	}
}

// eventsWait reports whether events wait that were not handed out to any dispatcher, and whether
// the bus holds them back because too many events are unacknowledged.
func (d *Dispatcher) eventsWait(ctx context.Context) (some, full bool, err error) {
	events, err := d.options.Bus.Stream(bus.StreamEvents).ConsumerState(ctx, bus.ConsumerFanout)
	if err != nil {
		return false, false, err
	}
	return events.Pending > 0, events.Unacknowledged >= bus.MaxEventsInFlight, nil
}

// waiting reports whether events wait for this dispatcher and nothing else keeps them from it.
func (s *stallWatch) waiting(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, stallLook)
	defer cancel()
	some, full, err := s.waits(ctx)
	if err != nil || !some || full && !s.events.Held() {
		return false
	}
	return s.reachable(ctx) == nil
}
