package bus

import (
	"fmt"

	"github.com/nats-io/nats.go"
)

// SubjectTunnel begins a subject that ends with the id of a tunnel. On it a gateway asks one that has a connection of
// this tunnel. Answers use subjects below it that are no tunnel's id.
const SubjectTunnel = "waybill.tunnel."

// Part is a message between two processes. It may be lost.
type Part struct {
	Subject string
	Reply   string // where answers go; empty: nobody waits for any
	Head    string // what the body is
	Body    []byte
	// Nobody is set if the part is the server's own answer, which says that nobody listens on the subject.
	Nobody bool
}

// MaxPart is how long the body of a part may be, in bytes. A server takes 1 MiB with the head.
const MaxPart = 512 << 10

const headOfPart = "Waybill-Head"

// NewAnswers returns a new subject. A process receives its answers below it.
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
