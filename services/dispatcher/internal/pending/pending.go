// Package pending has the events that are being worked on. Each event is held until all of its
// deliveries have an outcome that is stored, and is settled with the last of these outcomes.
package pending

import (
	"cmp"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// Stage is a part of the dispatcher that takes events off the bus.
type Stage struct {
	Emitter interface{ Emit(record.Item) }
	Server  func() string      // returns the id of the connected server
	Done    func(*bus.Message) // called when all outcomes are stored
	Back    func(*bus.Message) // called when a delivery was given up: the event must come again
}

// Event is an event with its deliveries in flight. It implements
// deliver.Origin for each of these deliveries.
type Event struct {
	Message *bus.Message
	Event   domain.Event
	Trace   string
	REST    bool  // REST accepted the event: the database has it, with an outbox row
	Place   int64 // see bus.AcceptedEvent
	Known   bool  // the event may have been handed out before

	stage     *Stage
	epoch     record.Epoch // the epoch in which the event was dispatched
	unstored  atomic.Int32 // deliveries whose outcome is not stored yet
	eventSent atomic.Bool
	abandoned atomic.Bool
	settling  bool // the settlement is in the batch with the last outcomes
}

// OfREST returns an event that REST accepted.
func (s *Stage) OfREST(m *bus.Message, accepted bus.AcceptedEvent) *Event {
	return &Event{
		stage: s, Message: m, Event: accepted.Event, Trace: accepted.TraceParent, REST: true, Place: accepted.Place, Known: accepted.Round > 0,
	}
}

// OfBus returns an event that was published on NATS.
func (s *Stage) OfBus(m *bus.Message, event domain.Event) *Event {
	return &Event{stage: s, Message: m, Event: event, Trace: bus.TraceParent(m.Header())}
}

// Begin sets how many deliveries the event has. An event without deliveries is done when that is stored.
func (g *Event) Begin(deliveries int) {
	if deliveries == 0 {
		g.stage.Emitter.Emit(record.Item{Event: g.Emitting(), Settled: g.settledKey(), Done: g.done})
		return
	}
	g.epoch = record.EpochOf(g.stage.Server())
	g.unstored.Store(int32(deliveries)) // an account has 10,000 webhooks at most
}

// jobBytes is about how much memory a delivery in flight takes in addition to the event. All deliveries of an event have
// the same body.
const jobBytes = 1 << 10

// ExtraBytes returns how much memory the event takes in addition to the message that brought it.
func (g *Event) ExtraBytes(jobs int) int64 {
	extra := int64(jobs) * jobBytes
	if !g.REST { // its payload is not the message's body but was made from it
		extra += int64(len(g.Event.Payload))
	}
	return extra
}

// Emitting implements deliver.Origin. With the first outcome it returns the event if the database
// doesn't have it.
func (g *Event) Emitting() *domain.Event {
	if g.REST || g.eventSent.Swap(true) {
		return nil
	}
	return &g.Event
}

// settledKey returns the key that removes the event from the outbox; nil: the event is not in the outbox.
func (g *Event) settledKey() *domain.EventKey {
	if !g.REST {
		return nil
	}
	key := g.Event.Key()
	return &key
}

// SettlingEvent implements deliver.Origin.
func (g *Event) SettlingEvent() record.SettlingEvent {
	if !g.REST {
		return nil
	}
	return g
}

// Settle implements record.SettlingEvent.
func (g *Event) Settle(n int) *record.Item {
	if int(g.unstored.Load()) != n || g.abandoned.Load() {
		return nil
	}
	g.settling = true // not read before the batch is stored
	return g.settlement()
}

// settlement returns the item that settles the event after its outcomes, but only on the server that has these outcomes.
// A bus that is lost may take outcomes with it that the database does not have, and an event that was settled before
// them would never be sent again.
func (g *Event) settlement() *record.Item {
	return &record.Item{Settled: g.settledKey(), In: g.epoch, Done: g.done}
}

// Stored implements deliver.Origin.
func (g *Event) Stored() { g.endDelivery() }

// Abandoned implements deliver.Origin.
func (g *Event) Abandoned() {
	g.abandoned.Store(true)
	g.endDelivery()
}

func (g *Event) endDelivery() {
	if g.unstored.Add(-1) > 0 {
		return
	}
	if g.abandoned.Load() {
		g.GiveBack()
		return
	}
	switch {
	case g.settling:
	case g.REST: // the outcomes were in several batches
		g.stage.Emitter.Emit(*g.settlement())
	default:
		g.done()
	}
}

func (g *Event) done() { g.stage.Done(g.Message) }

// GiveBack gives the event back, so that it comes again.
func (g *Event) GiveBack() { g.stage.Back(g.Message) }

// FromBus reads an event that was published on NATS. Fields that its publisher left out are derived
// from the stream, so that a repeat has the same ones.
func FromBus(m *bus.Message, account string) (domain.Event, error) {
	_, kind, _ := bus.ParseEventSubject(m.Subject())
	parsed, err := envelope.FromBus(account, m.Header(), m.Body())
	if err != nil {
		return domain.Event{}, err
	}
	if parsed.Type != kind {
		return domain.Event{}, errors.New("the type in the body differs from the one in the subject")
	}
	if parsed.ID == "" {
		parsed.ID = cmp.Or(bus.GivenID(m.Header()), "evt_"+strconv.FormatInt(m.Time.UnixNano(), 36)+"_"+strconv.FormatUint(m.Sequence, 36))
	}
	if parsed.Timestamp == "" {
		parsed.Timestamp = m.Time.Format("2006-01-02T15:04:05.000Z")
	}
	return domain.Event{
		Account: account, ID: parsed.ID, Type: parsed.Type, Timestamp: parsed.Timestamp,
		Payload: parsed.Payload(), ReceivedAt: m.Time.Truncate(time.Millisecond),
	}, nil
}
