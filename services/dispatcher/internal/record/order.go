package record

import (
	"context"
	"slices"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Records knows how far the records are written.
type Records interface {
	// Written returns the sequence up to which every message of RECORDS is acknowledged.
	Written(ctx context.Context) (uint64, error)
	// Server names the server that is connected, by an id that is another one after each start.
	Server() string
}

// askTime bounds the question to the bus how far all records are written.
const askTime = 2 * time.Second

const (
	// ripeTime is for how long what settles events is kept until everything before it is
	// written, and maxUnripe for how many messages: the relay sends the other events once
	// more, and finds their outcomes in the log.
	ripeTime  = 15 * time.Second
	maxUnripe = 10_000
)

// Order tells of each message of RECORDS whether everything before it is written. Another
// process that was served before may still have some of that in flight, or have died with
// it: then it comes again only when the server has waited for it.
//
// It matters for what settles an event: that comes after the event's outcomes, and must not
// be in the database before they are. If the bus were lost in between, nobody would know
// that they are missing. It is for one goroutine.
type Order struct {
	records Records
	next    uint64    // after this process's last message; 0: not known
	last    time.Time // when that one was stored
	unripe  []unripe
}

// unripe is a settlement that came before a message that another process has in flight.
type unripe struct {
	sequence uint64
	keys     []domain.EventKey
	epoch    Epoch
	at       time.Time
}

// NewOrder returns the order of what a process writes.
func NewOrder(records Records) *Order { return &Order{records: records} }

// Keep keeps what a message settles until everything before it is written.
func (o *Order) Keep(m bus.Position, keys []domain.EventKey) {
	if len(o.unripe) < maxUnripe {
		o.unripe = append(o.unripe, unripe{m.Sequence, keys, EpochOf(o.records.Server()), time.Now()})
	}
}

// Ripe returns what may be written by now. A server that was started again may have lost what
// came before: then it is left to the relay.
func (o *Order) Ripe(ctx context.Context, now time.Time) (keys []domain.EventKey) {
	if len(o.unripe) == 0 {
		return nil
	}
	written, server := o.written(ctx), o.records.Server()
	o.unripe = slices.DeleteFunc(o.unripe, func(u unripe) bool {
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

// After returns, for messages that this process writes together and in this order, whether
// everything before each is written by then.
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
			written = o.written(ctx)
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

// written is as far as is known; 0 when the bus can't be asked.
func (o *Order) written(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	written, err := o.records.Written(ctx)
	if err != nil {
		return 0
	}
	return written
}
