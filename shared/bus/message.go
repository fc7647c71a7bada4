package bus

import (
	"context"
	"time"
)

// Message is a message of a stream that a consumer has handed out. Until it is acknowledged it
// comes again, to any process that consumes then.
type Message struct {
	Sequence uint64    // in its stream
	Time     time.Time // when the stream stored it
	Repeated bool      // it was handed out before
	// Deliveries is how often the message was handed out, this time included.
	Deliveries uint64
	msg        consumerMessage
}

// Position identifies a message of a stream for ever: a stream that was lost begins its sequences
// again, at a later time.
type Position struct {
	Sequence uint64
	At       int64 // when the stream stored it, in nanoseconds since 1970
}

// Time returns when the stream stored the message.
func (p Position) Time() time.Time { return time.Unix(0, p.At).UTC() }

// Position returns the position that identifies the message.
func (m *Message) Position() Position { return Position{m.Sequence, m.Time.UnixNano()} }

// Entry returns the message as its stream keeps it.
func (m *Message) Entry() *Entry {
	return &Entry{Sequence: m.Sequence, Time: m.Time, Subject: m.Subject(), Header: m.Header(), Body: m.Body()}
}

// Subject returns the subject that the message was published on.
func (m *Message) Subject() string { return m.msg.Subject() }

// Header returns the message's headers; they must not be changed.
func (m *Message) Header() map[string][]string { return m.msg.Headers() }

// Body returns the message's body; it must not be changed.
func (m *Message) Body() []byte { return m.msg.Data() }

// Ack tells the server that the message is done. If the acknowledgement is lost, the message comes again.
func (m *Message) Ack() { _ = m.msg.Ack() }

// AckWait is Ack that waits until the server has received it.
func (m *Message) AckWait(ctx context.Context) error {
	if err := m.msg.DoubleAck(ctx); err != nil {
		return unavailable("acknowledge", err)
	}
	return nil
}

// Release gives the message back, for another consumer to take at once.
func (m *Message) Release() { _ = m.msg.Nak() }

// ReleaseAfter gives the message back, to be handed out again after a wait.
func (m *Message) ReleaseAfter(wait time.Duration) { _ = m.msg.NakWithDelay(wait) }

// InProgress tells the server that work on the message goes on, for AckWait more.
func (m *Message) InProgress() { _ = m.msg.InProgress() }
