package bus

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

const (
	// subjectPublish begins the subjects of the messages that publishers with a NATS account of
	// their own publish on events.<account>.<type>. nats-server maps them to these subjects; its
	// configuration fills in the account.
	subjectPublish = "publish."
	// subjectAnswered begins the reply subjects that nats-server makes for a request from another
	// NATS account: a message published there reaches only the requester.
	subjectAnswered = "_R_."
	// queuePublish is the queue group of the APIs: one of them gets each message.
	queuePublish = "publishers"
)

// headerID has the id of an event whose publisher gave none. Without this header the id would be
// made of the stream's sequence, which shows how much others publish.
const headerID = "Waybill-Id"

const (
	// maxMsgID bounds a message id: the server keeps each in memory for the dedupe window.
	maxMsgID = 256
	// lastAnswers is how long ServePublishers waits at its end for answers of EVENTS.
	lastAnswers = 2 * time.Second
)

// Results of a message of a publisher.
const (
	PublishStored    = "stored"
	PublishDuplicate = "duplicate"
	PublishRefused   = "refused"  // by its headers, or by the stream
	PublishUnasked   = "unasked"  // passed on; its publisher waits for no answer
	PublishNobody    = "noStream" // EVENTS has no leader, or is not there
)

// ServePublishers takes the messages of publishers with NATS accounts of their own, puts them into
// EVENTS and answers as the stream does, until ctx is done. Such publishers have no direct access
// to the stream for three reasons: all publishers of a stream share its message ids, the stream
// shows the others' ids and sequences, and it acts on headers that a publisher must not set.
//
// A message id counts only within its account. The sequence in the answer is always 1.
// ServePublishers has a connection of its own, because the server cuts a connection that can't keep
// up with the messages. count is called with the result of each message.
func (b *Bus) ServePublishers(ctx context.Context, count func(result string)) error {
	conn, err := b.dial()
	if err != nil {
		return err
	}
	defer conn.Close()
	p := &publishers{bus: b, conn: conn, count: count, answers: conn.NewInbox() + "."}
	if _, err := conn.Subscribe(p.answers+">", p.forwardAnswer); err != nil {
		return fmt.Errorf("listen for answers of %s: %w", StreamEvents, err)
	}
	taking, err := conn.QueueSubscribe(subjectPublish+">", queuePublish, p.forward)
	if err != nil {
		return fmt.Errorf("listen for publishers: %w", err)
	}
	drained := make(chan struct{})
	taking.SetClosedHandler(func(string) { close(drained) })
	<-ctx.Done()
	p.end(taking, drained)
	return nil
}

// publishers serves publishers on NATS that have an account of their own.
type publishers struct {
	bus         *Bus
	conn        *nats.Conn
	count       func(result string)
	answers     string       // prefix of replies to EVENTS; the publisher's reply follows
	owedAnswers atomic.Int64 // answers that EVENTS owes
}

// end stops taking messages, and passes on the answers that are still to come.
func (p *publishers) end(taking *nats.Subscription, drained <-chan struct{}) {
	deadline := time.After(lastAnswers)
	if taking.Drain() != nil { // no connection: no answer will come
		return
	}
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for done := false; !done || p.owedAnswers.Load() > 0; {
		select {
		case <-drained:
			done, drained = true, nil
		case <-tick.C:
		case <-deadline:
			return
		}
	}
	_ = p.conn.Flush()
}

// forward passes one message on. Its answer goes to the method answer, with the publisher's reply in
// the subject, so that nothing has to be kept until then.
func (p *publishers) forward(m *nats.Msg) {
	account, kind, _ := strings.Cut(m.Subject[len(subjectPublish):], ".")
	subject := subjectEvents + account + "." + kind
	reply := ""
	if strings.HasPrefix(m.Reply, subjectAnswered) {
		reply = m.Reply
	}
	header, refusal := publisherHeader(account, m.Header)
	if refusal != "" {
		p.refuse(account, subject, reply, m, refusal)
		return
	}
	out := &nats.Msg{Subject: subject, Header: header, Data: m.Data}
	if reply != "" {
		out.Reply = p.answers + reply
		p.owedAnswers.Add(1)
	} else {
		p.count(PublishUnasked)
	}
	if err := p.conn.PublishMsg(out); err != nil && reply != "" {
		p.owedAnswers.Add(-1)
		p.count(PublishRefused)
		p.send(reply, failureAnswer(503, 0, "the event can't be stored now: "+err.Error()))
	}
}

// refuse answers a message that asks for something a publisher may not do. It also keeps the
// message among the rejected ones, because its publisher may not wait for an answer.
func (p *publishers) refuse(account, subject, reply string, m *nats.Msg, reason string) {
	p.count(PublishRefused)
	p.bus.Reject(account, subject, m.Header, m.Data, reason, func(err error) {
		if err != nil {
			p.bus.log.Warn("a publisher's message was refused and could not be kept", "subject", subject, "error", err)
		}
	})
	if reply != "" {
		p.send(reply, failureAnswer(400, badRequest, reason))
	}
}

// badRequest is the error code of JetStream for a bad request.
const badRequest = 10003

// publisherHeader returns the headers that a publisher's message gets in EVENTS, or why the message
// is refused. Headers of the server are not passed on: they could replace messages, trace, batch,
// expire, or show what others publish. header is changed.
func publisherHeader(account string, header nats.Header) (to nats.Header, refusal string) {
	if header == nil {
		header = nats.Header{}
	}
	id := ""
	for name, values := range header {
		switch {
		case name == jetstream.MsgIDHeader:
			if len(values) != 1 || len(values[0]) > maxMsgID {
				return nil, name + " must be given once, in at most " + strconv.Itoa(maxMsgID) + " bytes"
			}
			id = strings.TrimPrefix(values[0], account+".")
		case name == jetstream.ExpectedStreamHeader:
			if len(values) != 1 || values[0] != StreamEvents {
				return nil, "the stream is called " + StreamEvents
			}
			delete(header, name)
		case name == headerRequestInfo || hasPrefixFold(name, headerPrefixOwn):
			delete(header, name)
		case hasPrefixFold(name, headerPrefixServer):
			return nil, "header " + cutText(name, maxHeaderName) + " can't be used here"
		}
	}
	if id != "" {
		header[jetstream.MsgIDHeader] = []string{account + "." + id}
	} else {
		header[headerID] = []string{"evt_" + rand.Text()}
	}
	return header, ""
}

// The server adds headerRequestInfo to messages from another NATS account.
const (
	headerRequestInfo  = "Nats-Request-Info"
	headerPrefixServer = "Nats-"
	headerPrefixOwn    = "Waybill-"
	maxHeaderName      = 64
)

func hasPrefixFold(s, prefix string) bool {
	return len(s) >= len(prefix) && strings.EqualFold(s[:len(prefix)], prefix)
}

const (
	answerStored    = `{"stream":"` + StreamEvents + `","seq":1}`
	answerDuplicate = `{"stream":"` + StreamEvents + `","seq":1,"duplicate":true}`
)

// forwardAnswer passes on the answer of EVENTS, without what it shows about others.
func (p *publishers) forwardAnswer(m *nats.Msg) {
	p.owedAnswers.Add(-1)
	reply := m.Subject[len(p.answers):]
	switch {
	case len(m.Data) == 0: // from the server: no stream takes the message
		p.count(PublishNobody)
		if err := p.conn.PublishMsg(&nats.Msg{Subject: reply, Header: nats.Header{"Status": {"503"}}}); err != nil {
			p.bus.log.Debug("answer to a publisher lost", "error", err)
		}
	case bytes.Contains(m.Data, []byte(`"error"`)) || bytes.Contains(m.Data, []byte(`"duplicate"`)):
		var ack struct {
			Error     *jetstream.APIError `json:"error"`
			Duplicate bool                `json:"duplicate"`
		}
		if err := json.Unmarshal(m.Data, &ack); err != nil {
			ack.Error = &jetstream.APIError{Code: 503}
		}
		switch {
		case ack.Error != nil:
			p.count(PublishRefused)
			p.send(reply, failureAnswer(ack.Error.Code, ack.Error.ErrorCode, ack.Error.Description))
		case ack.Duplicate:
			p.count(PublishDuplicate)
			p.send(reply, []byte(answerDuplicate))
		default:
			p.count(PublishStored)
			p.send(reply, []byte(answerStored))
		}
	default:
		p.count(PublishStored)
		p.send(reply, []byte(answerStored))
	}
}

func (p *publishers) send(reply string, body []byte) {
	if err := p.conn.Publish(reply, body); err != nil {
		p.bus.log.Debug("answer to a publisher lost", "error", err)
	}
}

// failureAnswer returns the answer of a stream that did not store a message.
func failureAnswer(code int, number jetstream.ErrorCode, description string) []byte {
	body, err := json.Marshal(struct {
		Error  *jetstream.APIError `json:"error"`
		Stream string              `json:"stream"`
		Seq    uint64              `json:"seq"`
	}{&jetstream.APIError{Code: code, ErrorCode: number, Description: description}, StreamEvents, 0})
	if err != nil { // can't happen: two numbers and two texts
		return nil
	}
	return body
}
