package bus

import (
	"errors"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
)

// Formats is the version of the formats that Waybill's processes write for each other on the bus:
// tasks, records, and the mark of accepted events. A build that changes one of them raises the
// version, and reads what the build before it wrote. A message of a later build is left to a
// process that can read it. While such a process lives, it owns the messages that others can't read
// (dispatchers say in their heartbeats which version they read); if there is none, the message
// waits. The second version has the classes of attempts and the state of circuits in its records.
// The third keeps the order of accounts, and reports receivers' certificates.
const Formats = 3

// ErrVersion is returned for a message that another build wrote, in a version that this
// one does not know.
var ErrVersion = errors.New("of another version of Waybill")

const (
	// redeliveryWait is the time after which a message of another version that stays in its place comes
	// again. leftTries is how often it comes, about a minute in all. Then it is rejected, because
	// records behind it can't be known to be written.
	redeliveryWait = 2 * time.Second
	leftTries      = 30
	// postponed is the time after which a task of another version is due again. Until then it holds
	// nothing up, so it is never given up.
	postponed = time.Minute
)

// rejectedOwn stands for the account of messages that Waybill itself wrote and that can't be read.
// No account has such a name, so no caller can list them.
const rejectedOwn = "_waybill"

// Leave leaves a message of another version to a process that knows the version. False: it came so
// often that there is no such process.
func (m *Message) Leave() bool {
	if m.Deliveries >= leftTries {
		return false
	}
	_ = m.msg.NakWithDelay(redeliveryWait)
	return true
}

// RejectOwn keeps a message that Waybill wrote and this build can't read, with the reason, and calls
// done exactly once. The message is kept whole, for a build that can read it; no account sees it.
func (b *Bus) RejectOwn(m *Message, cause error, done func(error)) {
	b.setAside.Add(1)
	b.rejectOwn(m.Subject(), m.Header(), m.Body(), cause, done)
}

func (b *Bus) rejectOwn(subject string, header map[string][]string, body []byte, cause error, done func(error)) {
	b.keepRejected(rejectedOwn, subject, withoutServers(header), body, cutText(cause.Error(), maxReason), done)
}

// withoutServers returns the headers except those that the server acts on.
func withoutServers(header map[string][]string) nats.Header {
	kept := make(nats.Header, len(header))
	for name, values := range header {
		if !hasPrefixFold(name, headerPrefixServer) {
			kept[name] = values
		}
	}
	return kept
}

// SetAside keeps a message of RETRIES or HOLD that ParseTask could not read, and calls done exactly
// once; then the caller may acknowledge the message. A message of another version is due again after a
// minute, in the dispatcher that owns the webhook then. A message that is no task at all is rejected.
func (b *Bus) SetAside(e *Entry, cause error, done func(error)) {
	b.setAside.Add(1)
	webhook, ok := WebhookOfSubject(e.Subject)
	if !ok || !errors.Is(cause, ErrVersion) {
		b.rejectOwn(e.Subject, e.Header, e.Body, cause, done)
		return
	}
	kept := withoutServers(e.Header)
	setSchedule(kept, webhook, time.Now().Add(postponed))
	// The name comes from the message's place in the stream, so that it is the same if the message
	// is set aside twice, and does not replace the schedule of the delivery.
	name := "v" + strconv.FormatUint(e.Sequence, 36) + "-" + strconv.FormatInt(e.Time.UnixNano(), 36)
	msg := &nats.Msg{Subject: subjectSchedule + shardOf(webhook) + "." + webhook.Token() + "." + name, Header: kept, Data: e.Body}
	b.acks.publish(msg, func(_ bool, err error) { done(err) })
}

// SetAsides returns how many messages of Waybill were set aside or rejected because this build
// could not read them.
func (b *Bus) SetAsides() int64 { return b.setAside.Load() }
