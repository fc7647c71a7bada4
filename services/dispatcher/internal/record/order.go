package record

import (
	"context"
	"time"

	"waybill.dev/shared/bus"
)

// askTime bounds the question how far all records are written.
const askTime = 2 * time.Second

// order tells of each message whether everything before it is written. Another process that
// was served before may still have some of that in hand, or have died with it: then it
// comes again only when the server has waited for it.
//
// It matters for what settles an event: that comes after the event's outcomes, and must not
// be in the database before they are. If the bus were lost in between, nobody would know
// that they are missing.
type order struct {
	source Source
	next   uint64    // after this process's last message; 0: not known
	last   time.Time // when that one was stored
}

// after returns, for messages that this process writes together and in this order, whether
// everything before each is written by then.
func (o *order) after(ctx context.Context, taken []*bus.Message) []bool {
	all := make([]bool, len(taken))
	asked, written := false, uint64(0)
	for i, m := range taken {
		if m.Sequence == o.next {
			all[i] = true
			o.next, o.last = m.Sequence+1, m.Time
			continue
		}
		if !asked {
			asked = true
			written = o.written(ctx)
		}
		all[i] = m.Sequence <= written+1
		switch {
		case m.Sequence < o.next && m.Time.Before(o.last):
			// It comes again; what followed it is written or in hand.
		case all[i]:
			o.next, o.last = m.Sequence+1, m.Time
		default:
			o.next = 0
		}
	}
	return all
}

// written is as far as is known; 0 when the bus can't be asked.
func (o *order) written(ctx context.Context) uint64 {
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	written, err := o.source.RecordsWritten(ctx)
	if err != nil {
		return 0
	}
	return written
}
