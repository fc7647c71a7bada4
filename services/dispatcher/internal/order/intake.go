package order

import (
	"context"
	"errors"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store/recorder"
)

const (
	// roomWait is how long an event waits for memory before the session looks for missing events.
	roomWait = 250 * time.Millisecond
	// idleWait is how long one request to the bus waits while the account has no event. The request takes none of
	// the memory for events. A new connection ends the request.
	idleWait = time.Minute
	// askAfter is how long an event may be missing until the relay is asked for it. Then the
	// relay is asked again every askInterval.
	askAfter    = 100 * time.Millisecond
	askInterval = 500 * time.Millisecond
	// missingWait is how long the order waits for an event that was committed and does not come.
	missingWait = time.Minute
)

// takenEvent is an event from the bus that this session handles.
type takenEvent struct {
	event   *pending.Event
	version int64 // of the configuration that it needs
	out     bool  // its deliveries may be made, or are made
}

// takeIn reads the account's events and makes their deliveries in order, until ctx is done.
func (s *session) takeIn(ctx context.Context, from bus.EventsClaim) error {
	consumer := from.Consumer
	defer consumer.Close()
	for ctx.Err() == nil {
		ready, err := s.fetch(ctx, consumer)
		if err != nil {
			return err
		}
		if s.fetchedEvents == 0 {
			if err := s.awaitEvent(ctx, consumer); err != nil {
				return err
			}
		}
		late, err := s.passMissing(ctx)
		if err != nil {
			return err
		}
		ready = append(ready, late...)
		if err := s.makeDeliveries(ctx, ready); err != nil {
			return err
		}
		s.trimNumbers(ctx, time.Now())
		if s.doubtful.Swap(false) {
			if state, err := s.m.options.Bus.Stream(bus.StreamEvents).State(ctx); err == nil && !state.Created.Equal(s.created) {
				return errRestart
			}
		}
	}
	return nil
}

// awaitEvent waits until the account has an event, or it is time to look for a missing one.
func (s *session) awaitEvent(ctx context.Context, consumer *bus.Consumer) error {
	wait := idleWait
	if !s.places.since.IsZero() {
		wait = askAfter
	}
	if err := consumer.Await(ctx, wait, s.checkNow); err != nil && !errors.Is(err, bus.ErrAway) && ctx.Err() == nil {
		return err
	}
	return nil
}

// fetch reads the messages that are there, as far as there is room for them. It does not wait for room for long,
// because the events in flight may wait for an event that the session has to ask for.
func (s *session) fetch(ctx context.Context, consumer *bus.Consumer) (ready []*takenEvent, err error) {
	waiting, cancel := context.WithTimeout(ctx, roomWait)
	defer cancel()
	s.fetchedEvents = 1 // there may be events for which there is no room
	room, err := s.inFlight.Reserve(waiting)
	if err != nil {
		return nil, nil
	}
	s.fetchedEvents = 0
	err = consumer.Fetch(ctx, bus.MaxFetch, bus.FetchOptions{Bytes: room}, func(message *bus.Message) {
		s.fetchedEvents++
		ready = append(ready, s.takeMessage(message)...)
	})
	s.inFlight.Give(room)
	if errors.Is(err, bus.ErrAway) {
		err = nil
	}
	return ready, err
}

// takeMessage reads a message and returns the events whose deliveries may be made now.
func (s *session) takeMessage(message *bus.Message) []*takenEvent {
	if s.ended.Has(message.Position()) { // its acknowledgement was lost
		message.Ack()
		return nil
	}
	if !s.inFlight.Add(message) {
		return nil
	}
	t := s.readEvent(message)
	if t == nil { // fan-out handles it
		s.stage.Done(message)
		return nil
	}
	place := t.event.Place
	if place > 0 && s.places.isCopy(place) {
		s.stage.Done(message)
		return nil
	}
	late := place > 0 && place < s.places.next
	t.event.Known = t.event.Known || message.Repeated || late || message.Sequence <= s.suspect
	ready := s.places.add(time.Now(), t)
	s.m.metrics.places.Set(float64(len(s.places.early)))
	return ready
}

// readEvent reads an event; nil: fan-out handles it.
func (s *session) readEvent(message *bus.Message) *takenEvent {
	accepted, ok := s.m.options.Bus.ParseAccepted(message.Subject(), message.Header(), message.Body())
	if ok {
		if accepted.Unknown || accepted.Place == 0 {
			return nil
		}
		return &takenEvent{event: s.stage.OfREST(message, accepted), version: accepted.Version}
	}
	if message.Sequence < s.from {
		return nil
	}
	event, err := pending.FromBus(message, s.account)
	if err != nil || !event.Type.Valid() {
		return nil // fan-out rejects it
	}
	return &takenEvent{event: s.stage.OfBus(message, event)}
}

// passMissing goes on past places whose events have ended, and asks the relay for other missing events.
// After missingWait it goes on without them.
func (s *session) passMissing(ctx context.Context) ([]*takenEvent, error) {
	p, now := &s.places, time.Now()
	if p.since.IsZero() || now.Sub(p.since) < askAfter || now.Sub(p.asked) < askInterval {
		return nil, nil
	}
	p.asked = now
	low := p.lowest()
	asking, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	next, err := s.m.options.Log.NextPlace(asking, s.account, p.next)
	if err == nil && low > p.next {
		next, err = s.behindEnded(asking, next, low)
	}
	switch {
	case errors.Is(err, errRestart):
		return nil, err
	case err == nil && next > p.next: // the places up to next are settled, or their events have ended
		return p.skip(now, min(next, max(low, p.next))), nil
	case now.Sub(p.since) < missingWait:
		s.m.options.Bus.AskPlaces(bus.MissingPlaces{Account: s.account, First: p.next, Last: low - 1})
		return nil, nil
	}
	s.m.metrics.missing.Add(float64(low - p.next))
	s.m.options.Logger.Warn("events that were committed don't come; later ones go on without them", "account", s.account, "from", p.next, "below", low)
	return p.passOver(now, low), nil
}

// makeDeliveries makes the deliveries of events, in their order.
func (s *session) makeDeliveries(ctx context.Context, list []*takenEvent) error {
	if len(list) == 0 {
		return nil
	}
	found, err := s.examine(ctx, list)
	if err != nil {
		return err
	}
	for i, t := range list {
		if err := s.awaitMemory(ctx); err != nil {
			return err
		}
		if err := s.m.options.Deliverer.Room(ctx); err != nil {
			return err
		}
		s.dispatch(t.event, found.hooks[i], found.shipments[i], found.known)
	}
	if list[len(list)-1].event.Message.Sequence > s.suspect && len(s.places.arrived) == 0 {
		s.mu.Lock()
		s.loaded = nil
		s.mu.Unlock()
	}
	s.wake()
	return nil
}

// eventFacts has the facts about each event of a list.
type eventFacts struct {
	hooks     [][]*index.Hook
	shipments []*int64 // nil: no ordered webhook gets the event
	known     map[domain.DeliveryID]domain.Revision
}

// examine finds the subscribers of events, their shipments, and which of their deliveries have an
// outcome. After it, the last numbers of all these webhooks and shipments are in memory.
func (s *session) examine(ctx context.Context, list []*takenEvent) (*eventFacts, error) {
	hooks, shipments := make([][]*index.Hook, len(list)), make([]*int64, len(list))
	for i, t := range list {
		if err := s.m.options.Index.Await(ctx, t.version); err != nil {
			return nil, err
		}
		hooks[i] = s.m.options.Index.Subscribers(&t.event.Event)
		for _, hook := range hooks[i] {
			if hook.Config().Ordering == domain.OrderingShipment {
				shipments[i] = envelope.Shipment(s.account, t.event.Event.Payload)
				break
			}
		}
	}
	known, err := s.recordedRevs(ctx, list, hooks)
	if err != nil {
		return nil, err
	}
	if err := s.readNumbers(ctx, list, shipments, hooks, known); err != nil {
		return nil, err
	}
	if err := s.checkOverlooked(ctx, list, shipments, hooks, known); err != nil {
		return nil, err
	}
	return &eventFacts{hooks, shipments, known}, nil
}

// recordedRevs asks the log which deliveries have an outcome, for the events that
// may have been handed out before.
func (s *session) recordedRevs(ctx context.Context, list []*takenEvent, hooks [][]*index.Hook) (map[domain.DeliveryID]domain.Revision, error) {
	var ids []domain.DeliveryID
	for i, t := range list {
		if !t.event.Known {
			continue
		}
		for _, hook := range hooks[i] {
			ids = append(ids, domain.NewDeliveryID(t.event.Event.Key(), hook.ID))
		}
	}
	if len(ids) == 0 {
		return nil, nil
	}
	return s.m.options.Log.Revs(ctx, s.account, ids)
}

// readNumbers reads the last numbers of webhooks and shipments that are not in memory. It reads a number again
// if a delivery has an outcome already: the owner before may have ended the delivery just now, and its
// number must not be given twice. The greater number is right, because everything before a number in the
// log has its outcome in the log, too.
func (s *session) readNumbers(ctx context.Context, list []*takenEvent, shipments []*int64, hooks [][]*index.Hook, known map[domain.DeliveryID]domain.Revision) error {
	var keys []recorder.SequenceKey
	s.mu.Lock()
	asked := make(map[recorder.SequenceKey]bool)
	for i, shipment := range shipments {
		if shipment == nil {
			continue
		}
		for _, hook := range hooks[i] {
			key := recorder.SequenceKey{Webhook: hook.ID, Shipment: *shipment}
			if asked[key] || hook.Config().Ordering != domain.OrderingShipment {
				continue
			}
			ended := len(known) > 0 && known[domain.NewDeliveryID(list[i].event.Event.Key(), hook.ID)].HasOutcome()
			if _, ok := s.numbers[key]; ok && !ended {
				continue
			}
			asked[key] = true
			keys = append(keys, key)
		}
	}
	s.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	last, err := s.m.numbers.ask(ctx, keys...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		s.numbers[key] = max(last[key].Last, s.numbers[key])
		s.noteMissed(key, last[key].Missed)
	}
	return nil
}

// checkOverlooked returns errRestart if ORDER has a delivery that this session has not read. The owner before
// has stored it after that, when its attempt in flight had failed. Without a restart no dispatcher would
// send it until the owner changes again.
func (s *session) checkOverlooked(ctx context.Context, list []*takenEvent, shipments []*int64, hooks [][]*index.Hook, known map[domain.DeliveryID]domain.Revision) error {
	if len(known) == 0 {
		return nil
	}
	for i, shipment := range shipments {
		if shipment == nil {
			continue
		}
		for _, hook := range hooks[i] {
			id := domain.NewDeliveryID(list[i].event.Event.Key(), hook.ID)
			if !known[id].HasOutcome() || hook.Config().Ordering != domain.OrderingShipment || s.wasKept(id) || s.isQueued(hook.ID, *shipment, id) {
				continue
			}
			asking, cancel := context.WithTimeout(ctx, askTime)
			message, err := s.m.options.Bus.Stream(bus.StreamOrder).Newest(asking, bus.OrderSubject(&domain.Task{Account: s.account, Webhook: hook.ID, Delivery: id}))
			cancel()
			if err != nil {
				return err
			}
			if message != nil {
				return errRestart
			}
		}
	}
	return nil
}

// dispatch makes the deliveries of an event.
func (s *session) dispatch(event *pending.Event, hooks []*index.Hook, shipment *int64, known map[domain.DeliveryID]domain.Revision) {
	key := event.Event.Key()
	var targets []*index.Hook
	var tasks []*domain.Task
	for _, hook := range hooks {
		id := domain.NewDeliveryID(key, hook.ID)
		if known[id].HasOutcome() || s.wasKept(id) {
			continue
		}
		targets = append(targets, hook)
		tasks = append(tasks, &domain.Task{
			Delivery: id, Account: s.account, Webhook: hook.ID, EventID: event.Event.ID, EventType: event.Event.Type,
			EventSeq: event.Message.Sequence, ReceivedAt: event.Event.ReceivedAt, TraceParent: event.Trace, Body: event.Event.Payload,
		})
	}
	if len(tasks) > 0 {
		s.inFlight.AddBytes(event.Message, event.ExtraBytes(len(tasks)))
	}
	event.Begin(len(tasks))
	for i, task := range tasks {
		if shipment != nil && targets[i].Config().Ordering == domain.OrderingShipment {
			s.enqueue(event, targets[i], *shipment, task)
			continue
		}
		s.m.options.Deliverer.Offer(targets[i], &deliver.Job{Origin: event, Task: task, Lane: deliver.LaneOf(len(tasks))})
	}
}
