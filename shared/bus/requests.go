package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// SubjectTunnel begins a subject that ends with the id of a tunnel. On that subject a gateway asks another gateway
// that has a connection of the tunnel. Answers use subjects that begin in the same way but have no tunnel's id.
const SubjectTunnel = "waybill.tunnel."

// Part is a message from one process to another. It may be lost.
type Part struct {
	Subject string
	Reply   string // subject for answers; empty: the sender waits for none
	Head    string // describes the body
	Body    []byte
	// Nobody is set if the part is the server's answer that no process listens on the subject.
	Nobody bool
}

// MaxPart is how long the body of a part may be, in bytes. A server takes 1 MiB together with the head.
const MaxPart = 512 << 10

const headOfPart = "Waybill-Head"

// NewAnswers returns a new subject. A process receives its answers on the subjects below it.
func NewAnswers() string { return SubjectTunnel + "answer." + nats.NewInbox() }

// SendPart sends a part.
func (b *Bus) SendPart(p Part) error {
	message := &nats.Msg{Subject: p.Subject, Reply: p.Reply, Data: p.Body}
	if p.Head != "" {
		message.Header = nats.Header{headOfPart: []string{p.Head}}
	}
	if err := b.conn.PublishMsg(message); err != nil {
		return unavailable("send on "+p.Subject, err)
	}
	return nil
}

// TakeParts calls handle with each part on the subject. If group is not empty, only one member of the group gets
// each part.
func (b *Bus) TakeParts(subject, group string, handle func(Part)) (stop func(), err error) {
	take := func(m *nats.Msg) {
		handle(Part{m.Subject, m.Reply, m.Header.Get(headOfPart), m.Data, m.Header.Get("Status") != ""})
	}
	var sub *nats.Subscription
	if group == "" {
		sub, err = b.conn.Subscribe(subject, take)
	} else {
		sub, err = b.conn.QueueSubscribe(subject, group, take)
	}
	if err != nil {
		return nil, fmt.Errorf("listen on %s: %w", subject, err)
	}
	return func() { _ = sub.Unsubscribe() }, nil
}
