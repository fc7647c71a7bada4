package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// SubjectTunnel and the id of a tunnel is where gateways ask the one that has a connection of
// it. Answers go to subjects below it that no tunnel has.
const SubjectTunnel = "waybill.tunnel."

// Part is a message between two processes. It may be lost.
type Part struct {
	Subject string
	Reply   string // where answers go; empty: nobody waits for any
	Head    string // what the body is
	Body    []byte
	// Nobody says that it is the server's answer: nobody listens where it was asked.
	Nobody bool
}

// MaxPart is how long the body of a part may be, in bytes. A server takes 1 MiB with the head.
const MaxPart = 512 << 10

const headOfPart = "Waybill-Head"

// NewAnswers returns a subject below which a process can have its answers.
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

// TakeParts calls handle with each part on subject. Of a group that has a name, one member gets
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
