// Package envelope reads events as publishers send them, over REST and on the bus. It
// decodes strictly, reports every fault with its place, and keeps the bytes of data exactly
// as they came. Each event is parsed once, and data is never encoded again.
package envelope

import "waybill.dev/shared/domain"

// Limits of publications.
const (
	MaxEventSize = 256 << 10 // bytes of one event
	MaxBatch     = 1000      // events in one batch
)

// Event is an event as it was published.
type Event struct {
	ID        string // empty when absent
	Type      domain.EventType
	Timestamp string // as given; empty when absent
	// Data has the published bytes of the data object. It aliases the decoded body.
	Data []byte
}

// Payload returns the callback's body: {"id","type","timestamp","data"} with the bytes of Data. ID
// and Timestamp must be set; valid ones need no escaping.
func (e Event) Payload() []byte {
	const frame = len(`{"id":"","type":"","timestamp":"","data":}`)
	out := make([]byte, 0, frame+len(e.ID)+len(e.Type)+len(e.Timestamp)+len(e.Data))
	out = append(out, `{"id":"`...)
	out = append(out, e.ID...)
	out = append(out, `","type":"`...)
	out = append(out, e.Type...)
	out = append(out, `","timestamp":"`...)
	out = append(out, e.Timestamp...)
	out = append(out, `","data":`...)
	out = append(out, e.Data...)
	return append(out, '}')
}
