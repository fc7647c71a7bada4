package bus

import (
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Formats is the version of what Waybill's processes write for each other on the bus: tasks,
// records, and the mark of accepted events. A build that changes one of them counts it up,
// and reads what the build before it wrote. What a later build wrote is left to a process
// that reads it: while one lives, it owns what the others can't read (dispatchers say in
// their heartbeats what they read), and what meets none of them waits. The second has the
// classes of attempts, and what is said of circuits, in its records. The third keeps the order of
// accounts, and tells of receivers' certificates.
const Formats = 3

// ErrVersion is returned for a message that another build wrote, in a version that this
// one does not know.
var ErrVersion = errors.New("of another version of Waybill")

const (
	// leftAgain is after how long a message of another version comes again that stays in
	// its place; leftTries is how often it does, about a minute in all. Then it is rejected:
	// it holds up what is known to be written.
	leftAgain = 2 * time.Second
	leftTries = 30
	// postponed is after how long a task of another version is due again. It holds up
	// nothing meanwhile, so it is never given up.
	postponed = time.Minute
)

// rejectedOwn stands for the account of what Waybill itself wrote and can't be read: no
// account has such a name, so none can list it.
const rejectedOwn = "_waybill"

// Leave leaves a message of another version to a process that knows it; false: it came so
// often that there is none.
func (m *Message) Leave() bool {
	if m.Deliveries >= leftTries {
		return false
	}
	_ = m.msg.NakWithDelay(leftAgain)
	return true
}

// RejectOwn keeps a message that Waybill wrote and this build can't read, with the reason,
// and calls done exactly once. It is kept whole, for a build that reads it; no account sees
// it.
func (b *Bus) RejectOwn(m *Message, cause error, done func(error)) {
	b.setAside.Add(1)
	b.rejectOwn(m.Subject(), m.Header(), m.Body(), cause, done)
}

func (b *Bus) rejectOwn(subject string, header map[string][]string, body []byte, cause error, done func(error)) {
	b.keepRejected(rejectedOwn, subject, withoutServers(header), body, shorten(cause.Error(), maxReason), done)
}

// withoutServers returns the headers without those that the server acts upon.
func withoutServers(header map[string][]string) nats.Header {
	kept := make(nats.Header, len(header))
	for name, values := range header {
		if !hasPrefixFold(name, headerPrefixServer) {
			kept[name] = values
		}
	}
	return kept
}

// SetAside keeps a message of RETRIES or HOLD that ParseTask did not take, and calls done
// exactly once; then it may be acknowledged. One of another version is due again after a
// minute, by the dispatcher that owns the webhook then; what is no task at all is rejected.
func (b *Bus) SetAside(e *Entry, cause error, done func(error)) {
	b.setAside.Add(1)
	webhook, ok := WebhookOfSubject(e.Subject)
	if !ok || !errors.Is(cause, ErrVersion) {
		b.rejectOwn(e.Subject, e.Header, e.Body, cause, done)
		return
	}
	kept := withoutServers(e.Header)
	setSchedule(kept, webhook, time.Now().Add(postponed))
	// By its place in the stream: not the delivery's subject, whose schedule it would
	// replace, and the same when it is set aside twice.
	name := "v" + strconv.FormatUint(e.Sequence, 36) + "-" + strconv.FormatInt(e.Time.UnixNano(), 36)
	msg := &nats.Msg{Subject: subjectSchedule + shardOf(webhook) + "." + webhook.Token() + "." + name, Header: kept, Data: e.Body}
	b.acks.publish(msg, func(_ bool, err error) { done(err) })
}

// SetAsides returns how many messages were set aside or rejected because this build could
// not read them though Waybill wrote them.
func (b *Bus) SetAsides() int64 { return b.setAside.Load() }
