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
	// publishTimeout is how long an acknowledgement of the bus is waited for. What was not
	// acknowledged by then is published again by its owner, under the same message id.
	publishTimeout = 5 * time.Second
	// lookEvery is how often it is looked which publications have had that time.
	lookEvery = publishTimeout / 20
	// maxUnacknowledged is how many publications may wait for their acknowledgement. Their
	// owners have lower bounds.
	maxUnacknowledged = 1 << 16
	// A stream of a cluster whose leader was lost has none for four to nine seconds. What is
	// published meanwhile reaches nobody, which the server says at once: it is sent again
	// until there is a leader, for the relay would come to it many seconds later. In sum it
	// stays below the margin after which the relay takes an event for lost.
	electionWait    = 500 * time.Millisecond
	electionRetries = 18
)

// acks publishes to streams, and waits for their acknowledgements without a goroutine or a
// timer for each. The client library's asynchronous publishing has a timer, two maps and a
// decoder of JSON for each message, which took more than to send it.
type acks struct {
	conn *nats.Conn

	mu      sync.Mutex
	prefix  string // of the subjects of acknowledgements; empty: nothing was published yet
	last    uint64 // number of a publication
	waiting map[uint64]*publication
	looking bool // look will run
}

// publication is a message that is not acknowledged yet.
type publication struct {
	msg     *nats.Msg
	done    func(duplicate bool, err error)
	sent    time.Time // the last time; later than now: it will be
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
	id, err := a.await(p)
	if err != nil {
		p.end(false, err)
		return
	}
	a.send(id, p)
}

// await notes a publication, and gives it the subject of its acknowledgement.
func (a *acks) await(p *publication) (id uint64, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.prefix == "" {
		prefix := a.conn.NewInbox() + "."
		if _, err := a.conn.Subscribe(prefix+"*", a.answered); err != nil {
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
	if !a.looking {
		a.looking = true
		time.AfterFunc(lookEvery, a.look)
	}
	return a.last, nil
}

func (a *acks) send(id uint64, p *publication) {
	if err := a.conn.PublishMsg(p.msg); err != nil && a.take(id) != nil {
		p.end(false, err)
	}
}

// take removes a publication; nil: it is over already.
func (a *acks) take(id uint64) *publication {
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.waiting[id]
	delete(a.waiting, id)
	return p
}

// answered handles the acknowledgement of a stream, or the answer of a server that knows no
// such stream.
func (a *acks) answered(m *nats.Msg) {
	id, err := strconv.ParseUint(m.Subject[len(a.prefix):], 36, 64)
	if err != nil {
		return // nobody was given this subject
	}
	if len(m.Data) == 0 && m.Header.Get("Status") == "503" {
		a.unheard(id)
		return
	}
	if p := a.take(id); p != nil {
		p.end(acknowledgement(m.Data))
	}
}

// unheard sends a message again that reached no stream.
func (a *acks) unheard(id uint64) {
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

// look gives up the publications that have waited for publishTimeout. It runs again as long as
// others wait.
func (a *acks) look() {
	before := time.Now().Add(-publishTimeout)
	a.mu.Lock()
	var late []*publication
	for id, p := range a.waiting {
		if p.sent.Before(before) {
			late = append(late, p)
			delete(a.waiting, id)
		}
	}
	a.looking = len(a.waiting) > 0
	if a.looking {
		time.AfterFunc(lookEvery, a.look)
	}
	a.mu.Unlock()
	for _, p := range late {
		p.end(false, jetstream.ErrAsyncPublishTimeout)
	}
}

// fail gives up all that waits: its acknowledgements would come over a connection that is gone.
func (a *acks) fail(err error) {
	a.mu.Lock()
	gone := a.waiting
	a.waiting = make(map[uint64]*publication)
	a.mu.Unlock()
	for _, p := range gone {
		p.end(false, err)
	}
}

// acknowledgement reads what a stream says of a publication.
func acknowledgement(body []byte) (duplicate bool, err error) {
	if plain(body) {
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

// plain reports whether a stream has stored a message and has nothing else to say than where:
// {"stream":"EVENTS","seq":1}. Nearly all acknowledgements are so, and are not decoded.
func plain(body []byte) bool {
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
