package bus

import (
	"bytes"
	"encoding/json"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// publishTimeout is how long a publication waits for the acknowledgement of the bus. After that
	// its owner publishes the message again, under the same message id.
	publishTimeout = 5 * time.Second
	// lookInterval is the time between two checks for publications that have waited for publishTimeout.
	lookInterval = publishTimeout / 20
	// maxUnacknowledged is how many publications may wait for their acknowledgement. The owners of
	// publications have lower bounds.
	maxUnacknowledged = 1 << 16
	// A stream of a cluster that has lost its leader has none for four to nine seconds. A message
	// that is published in that time reaches no stream, and the server says so at once. The message
	// is sent again until there is a leader, because the relay would find it only many seconds later.
	// In sum that takes less time than the margin after which the relay takes an event for lost.
	electionWait    = 500 * time.Millisecond
	electionRetries = 18
)

// acks publishes to streams and waits for their acknowledgements, without a goroutine or a timer
// for each. The client library's asynchronous publishing has a timer, two maps and a JSON decoder
// for each message, which took more time than sending the message.
type acks struct {
	conn *nats.Conn

	mu            sync.Mutex
	prefix        string // of the subjects of acknowledgements; empty: nothing has been published yet
	last          uint64 // number of the last publication
	waiting       map[uint64]*publication
	lookScheduled bool // giveUpLate will run
}

// publication is a message that is not acknowledged yet.
type publication struct {
	msg     *nats.Msg
	done    func(duplicate bool, err error)
	sent    time.Time // when it was last sent; in the future: when it will be sent again
	retries int
}

// end tells the owner the result of the publication.
func (p *publication) end(duplicate bool, err error) {
	if err != nil {
		err = unavailable("publish", err)
	}
	p.done(duplicate, err)
}

// publish sends m and calls done exactly once with the result. done must not block, because
// other acknowledgements wait on the same goroutine. The caller must not use m again.
func (a *acks) publish(m *nats.Msg, done func(duplicate bool, err error)) {
	p := &publication{msg: m, done: done, sent: time.Now()}
	id, err := a.register(p)
	if err != nil {
		p.end(false, err)
		return
	}
	a.send(id, p)
}

// register registers a publication, and gives it the subject of its acknowledgement.
func (a *acks) register(p *publication) (id uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prefix == "" {
		prefix := a.conn.NewInbox() + "."
		if _, err := a.conn.Subscribe(prefix+"*", a.handleAnswer); err != nil {
			return 0, err //nolint:wrapcheck // end does
		}
		a.prefix, a.waiting = prefix, make(map[uint64]*publication)
	}
	if len(a.waiting) >= maxUnacknowledged {
		return 0, jetstream.ErrTooManyStalledMsgs
	}
	a.last++
	p.msg.Reply = a.prefix + strconv.FormatUint(a.last, 36)
	a.waiting[a.last] = p
	if !a.lookScheduled {
		a.lookScheduled = true
		time.AfterFunc(lookInterval, a.giveUpLate)
	}
	return a.last, nil
}

func (a *acks) send(id uint64, p *publication) {
	if err := a.conn.PublishMsg(p.msg); err != nil && a.take(id) != nil {
		p.end(false, err)
	}
}

// take removes and returns a publication; nil: it has ended already.
func (a *acks) take(id uint64) *publication {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.waiting[id]
	delete(a.waiting, id)
	return p
}

// handleAnswer handles the acknowledgement of a stream, or a server's answer that there is no such stream.
func (a *acks) handleAnswer(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(a.prefix):], 36, 64)
	if err != nil {
		return // this subject belongs to no publication
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		a.resend(id)
		return
	}
	if p := a.take(id); p != nil {
		p.end(parseAck(m.Data))
	}
}

// resend sends a message that reached no stream once more.
func (a *acks) resend(id uint64) {
	a.mu.Lock()
	p := a.waiting[id]
	again := p != nil && p.retries < electionRetries
	if again {
		p.retries++
		p.sent = time.Now().Add(electionWait)
	} else {
		delete(a.waiting, id)
	}
	a.mu.Unlock()
	switch {
	case again:
		time.AfterFunc(electionWait, func() {
			a.mu.Lock()
			still := a.waiting[id] == p
			a.mu.Unlock()
			if still {
				a.send(id, p)
			}
		})
	case p != nil:
		p.end(false, jetstream.ErrNoStreamResponse)
	}
}

// giveUpLate gives up the publications that have waited for publishTimeout. giveUpLate schedules itself again as long
// as other publications wait.
func (a *acks) giveUpLate() {
	before := time.Now().Add(-publishTimeout)
	a.mu.Lock()
	var late []*publication
	for id, p := range a.waiting {
		if p.sent.Before(before) {
			late = append(late, p)
			delete(a.waiting, id)
		}
	}
	a.lookScheduled = len(a.waiting) > 0
	if a.lookScheduled {
		time.AfterFunc(lookInterval, a.giveUpLate)
	}
	a.mu.Unlock()
	for _, p := range late {
		p.end(false, jetstream.ErrAsyncPublishTimeout)
	}
}

// giveUpAll gives up all publications that wait, because their acknowledgements would come over a
// connection that is gone.
func (a *acks) giveUpAll(err error) {
	a.mu.Lock()
	gone := a.waiting
	a.waiting = make(map[uint64]*publication)
	a.mu.Unlock()
	for _, p := range gone {
		p.end(false, err)
	}
}

// parseAck reads a stream's answer to a publication.
func parseAck(body []byte) (duplicate bool, err error) {
	if isPlainAck(body) {
		return false, nil
	}
	var ack struct {
		Error     *jetstream.APIError `json:"error"`
		Stream    string              `json:"stream"`
		Duplicate bool                `json:"duplicate"`
	}
	switch err := json.Unmarshal(body, &ack); {
	case err != nil:
		return false, jetstream.ErrInvalidJSAck
	case ack.Error != nil:
		return false, ack.Error
	case ack.Stream == "":
		return false, jetstream.ErrInvalidJSAck
	}
	return ack.Duplicate, nil
}

// isPlainAck reports whether an acknowledgement says only where a stream has stored the message:
// {"stream":"EVENTS","seq":1}. Nearly all acknowledgements are like that, and are not decoded.
func isPlainAck(body []byte) bool {
	rest, ok := bytes.CutPrefix(body, []byte(`{"stream":"`))
	if !ok {
		return false
	}
	end := bytes.IndexByte(rest, '"')
	if end < 1 {
		return false
	}
	rest, ok = bytes.CutPrefix(rest[end:], []byte(`","seq":`))
	if !ok {
		return false
	}
	number, ok := bytes.CutSuffix(rest, []byte{'}'})
	return ok && len(number) > 0 && len(bytes.Trim(number, "0123456789")) == 0
}
