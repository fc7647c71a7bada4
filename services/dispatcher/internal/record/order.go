package record

import (
	"context"
	"slices"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Records tells how far the records are written.
type Records interface {
	// Written returns the sequence up to which every message of RECORDS is acknowledged.
	Written(ctx context.Context) (uint64, error)
	// Server returns the id of the connected server, which changes with each start of the server.
	Server() string
}

// askTime bounds the question to the bus up to where all records are written.
const askTime = 2 * time.Second

const (
	// ripeTime is how long a settlement is kept until everything before it is written, and
	// maxUnripe is for how many messages settlements are kept. The relay sends the events of all
	// other settlements once more, and finds their outcomes in the log.
	ripeTime  = 15 * time.Second
	maxUnripe = 10_000
)

// Order tells for each message of RECORDS whether everything before it is written. Another process
// that was served before may still have some of these messages in flight, or have died with them:
// then they come again only after the server has waited for that process.
//
// That matters for settlements: a settlement comes after the event's outcomes, and must not be in
// the database before they are. If the bus were lost in between, nothing would show that they are
// missing. Only one goroutine may use an Order.
type Order struct {
	records Records
	next    uint64    // the sequence after this process's last message; 0: not known
	last    time.Time // when that message was stored
	unripe  []unripeBatch
}

// unripeBatch is a settlement that came while a message before it was in flight in another process.
type unripeBatch struct {
	sequence uint64
	keys     []domain.EventKey
	epoch    Epoch
	at       time.Time
}

// NewOrder returns an Order for the messages that a process writes.
func NewOrder(records Records) *Order { return &Order{records: records} }

// Keep keeps the settlements of a message until everything before the message is written.
func (o *Order) Keep(m bus.Position, keys []domain.EventKey) {
	if len(o.unripe) < maxUnripe {
		o.unripe = append(o.unripe, unripeBatch{m.Sequence, keys, EpochOf(o.records.Server()), time.Now()})
	}
}

// Ripe returns the events that may be settled now. A server that was started again may have lost
// outcomes: then the events are left to the relay.
func (o *Order) Ripe(ctx context.Context, now time.Time) (keys []domain.EventKey) {
	if len(o.unripe) == 0 {
		return nil
	}
	written, server := o.writtenSequence(ctx), o.records.Server()
	o.unripe = slices.DeleteFunc(o.unripe, func(u unripeBatch) bool {
		if !u.epoch.Holds(server) || now.Sub(u.at) > ripeTime {
			return true
		}
		if u.sequence > written {
			return false
		}
		keys = append(keys, u.keys...)
		return true
	})
	return keys
}

// After returns, for each of the messages that this process writes together and in this order,
// whether everything before it is written when they are.
func (o *Order) After(ctx context.Context, taken []bus.Position) []bool {
	all := make([]bool, len(taken))
	asked, written := false, uint64(0)
	for i, m := range taken {
		if m.Sequence == o.next {
			all[i] = true
			o.next, o.last = m.Sequence+1, m.Time()
			continue
		}
		if !asked {
			asked = true
			written = o.writtenSequence(ctx)
		}
		all[i] = m.Sequence <= written+1
		switch {
		case m.Sequence < o.next && m.Time().Before(o.last):
			// The event comes again; its outcomes are written or in flight.
		case all[i]:
			o.next, o.last = m.Sequence+1, m.Time()
		default:
			o.next = 0
		}
	}
	return all
}

// writtenSequence returns up to where all records are known to be written; 0 when the bus can't be asked.
func (o *Order) writtenSequence(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	written, err := o.records.Written(ctx)
	if err != nil {
		return 0
	}
	return written
}
