package order

import (
	"context"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// behindEnded returns the first place, from one place on and below low, of an event that has not ended. A settlement
// may be lost with a dispatcher that took the event off the bus. The bus does not hand such an event out again, but
// the log knows that the event has ended; behindEnded settles it.
func (s *session) behindEnded(ctx context.Context, from, low int64) (int64, error) {
	for from < low {
		page, err := s.m.options.Log.PlacedEvents(ctx, s.account, from, low)
		if err != nil {
			return from, err
		}
		if len(page) == 0 { // no place up to low is unsettled
			return low, nil
		}
		list := make([]*takenEvent, len(page))
		for i, p := range page {
			list[i] = &takenEvent{event: &pending.Event{Event: p.Event, REST: true, Place: p.Place, Known: true}, version: p.Version}
		}
		found, err := s.examine(ctx, list)
		if err != nil {
			return from, err
		}
		for i, t := range list {
			if !hasEnded(t, found.hooks[i], found.known) {
				return t.event.Place, nil
			}
			key := t.event.Event.Key()
			s.m.options.Emitter.Emit(record.Item{Settled: &key})
			from = t.event.Place + 1
		}
	}
	return from, nil
}

// hasEnded reports whether each delivery of an event has an outcome in the log.
func hasEnded(t *takenEvent, hooks []*index.Hook, known map[domain.DeliveryID]domain.Revision) bool {
	for _, hook := range hooks {
		if !known[domain.NewDeliveryID(t.event.Event.Key(), hook.ID)].HasOutcome() {
			return false
		}
	}
	return true
}
