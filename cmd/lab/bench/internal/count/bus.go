package count

import (
	"fmt"
	"strings"
	"sync/atomic"

	"github.com/nats-io/nats.go"
)

// Bus counts the messages that are published on the bus, by listening to all of them. Bus does
// not count what streams hand out, answers, and requests to JetStream: their number depends on the time that passes.
type Bus struct {
	conn           *nats.Conn
	messages, acks atomic.Int64
}

// OpenBus begins to count.
func OpenBus(url string) (*Bus, error) {
	conn, err := nats.Connect(url)
	if err != nil {
		return nil, fmt.Errorf("connect to the bus: %w", err)
	}
	b := &Bus{conn: conn}
	sub, err := conn.Subscribe(">", func(m *nats.Msg) { b.note(m.Subject) })
	if err == nil {
		// The client drops no message, however slowly they are counted.
		err = sub.SetPendingLimits(-1, -1)
	}
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("listen to the bus: %w", err)
	}
	return b, nil
}

func (b *Bus) note(subject string) {
	switch {
	case strings.HasPrefix(subject, "$JS.ACK."):
		b.acks.Add(1)
	case strings.HasPrefix(subject, "$"), strings.HasPrefix(subject, "_INBOX"):
	default:
		b.messages.Add(1)
	}
}

// Read adds the counts to a reading.
func (b *Bus) Read(r *Reading) error {
	if err := b.conn.Flush(); err != nil { // what was published before has been handed out then
		return fmt.Errorf("listen to the bus: %w", err)
	}
	r.Counts[Messages], r.Counts[Acks] = float64(b.messages.Load()), float64(b.acks.Load())
	return nil
}

// Close ends the subscription and the connection.
func (b *Bus) Close() { b.conn.Close() }
