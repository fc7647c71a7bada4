// Package pending has the events that are worked upon: each is held until all of its deliveries
// have an outcome that is stored, and is settled with the last of them.
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

// Stage is who takes events off the bus.
type Stage struct {
	Emitter interface{ Emit(record.Item) }
	Server  func() string      // that is connected
	Done    func(*bus.Message) // all is stored
	Back    func(*bus.Message) // something was given up: the event is to come again
}

// Event is an event with its deliveries in flight. It implements deliver.Origin for each of
// them.
type Event struct {
	Message *bus.Message
	Event   domain.Event
	Trace   string
	REST    bool  // REST accepted it: the database has it and an outbox row
	Place   int64 // see bus.Accepted
	Known   bool  // it may have been handed out before

	stage     *Stage
	epoch     record.Epoch // in which it was dispatched
	unstored  atomic.Int32 // deliveries whose outcome is not stored yet
	eventSent atomic.Bool
	abandoned atomic.Bool
	settling  bool // in the batch with its last outcomes
}

// OfREST is an event that REST accepted.
func (s *Stage) OfREST(m *bus.Message, accepted bus.Accepted) *Event {
	return &Event{
		stage: s, Message: m, Event: accepted.Event, Trace: accepted.TraceParent, REST: true, Place: accepted.Place, Known: accepted.Round > 0,
	}
}

// OfBus is an event that somebody published straight to the bus.
func (s *Stage) OfBus(m *bus.Message, event domain.Event) *Event {
	return &Event{stage: s, Message: m, Event: event, Trace: bus.TraceParent(m.Header())}
}

// Begin says how many deliveries the event has; without any it is done when that is stored.
func (g *Event) Begin(deliveries int) {
	if deliveries == 0 {
		g.stage.Emitter.Emit(record.Item{Event: g.Emitting(), Settled: g.settled(), Done: g.done})
		return
	}
	g.epoch = record.EpochOf(g.stage.Server())
	g.unstored.Store(int32(deliveries)) // an account has 10,000 webhooks at most
}

// jobBytes is about what a delivery in flight takes beside the event, of which all have one body.
const jobBytes = 1 << 10

// Extra is what the event takes in memory beside the message that brought it.
func (g *Event) Extra(jobs int) int64 {
	extra := int64(jobs) * jobBytes
	if !g.REST { // its payload was made of the message's
		extra += int64(len(g.Event.Payload))
	}
	return extra
}

// Emitting implements deliver.Origin: the first outcome brings an event that the
// database doesn't have.
func (g *Event) Emitting() *domain.Event {
	if g.REST || g.eventSent.Swap(true) {
		return nil
	}
	return &g.Event
}

// settled is what takes the event out of the outbox; nil: it is not in it.
func (g *Event) settled() *domain.EventKey {
	if !g.REST {
		return nil
	}
	key := g.Event.Key()
	return &key
}

// Settler implements deliver.Origin.
func (g *Event) Settler() record.Settler {
	if !g.REST {
		return nil
	}
	return g
}

// Settle implements record.Settler.
func (g *Event) Settle(n int) *record.Item {
	if int(g.unstored.Load()) != n || g.abandoned.Load() {
		return nil
	}
	g.settling = true // nobody reads that before the batch is stored
	return g.settlement()
}

// settlement is what settles the event after its outcomes, on the server that has them: a bus that is lost takes
// outcomes with it that the database does not have, and an event that was settled before them would never be sent again.
func (g *Event) settlement() *record.Item {
	return &record.Item{Settled: g.settled(), In: g.epoch, Done: g.done}
}

// Stored implements deliver.Origin.
func (g *Event) Stored() { g.end() }

// Abandoned implements deliver.Origin.
func (g *Event) Abandoned() {
	g.abandoned.Store(true)
	g.end()
}

func (g *Event) end() {
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

// GiveBack has the event come again.
func (g *Event) GiveBack() { g.stage.Back(g.Message) }

// FromBus reads an event that somebody published straight to the bus. What its
// publisher left out comes from the stream, so that a repeat has the same.
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
