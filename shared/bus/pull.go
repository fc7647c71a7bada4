package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// A puller asks one consumer for messages, for a bounded number and size of them at a time.
//
// The client library can do that too, but takes the server's word that a request is over for
// the end of what comes. In a cluster that word overtakes the messages it tells of: the server
// sends it at once, and them when its replicas know of them. What came later was lost until
// AckWait. A puller goes by the number of messages that the word tells instead, and its inbox
// stays open from one request to the next.
type puller struct {
	conn    *nats.Conn
	subject string // of requests for messages
	inbox   string
	sub     *nats.Subscription
	came    chan *nats.Msg
	asked   uint64 // requests

	group string // of a pinned consumer; empty: it has none
	pin   string // what the server knows this process by while it serves it
}

const (
	// late is how long after its time a request's messages are waited for.
	late = time.Second
	// filled is how long the server's word is waited for when a request has all its bytes.
	filled = 50 * time.Millisecond
	// stragglers is how many messages of earlier requests there is a place for besides.
	stragglers = 2 * MaxFetch
)

// awayPause is the moment after which ErrAway comes.
const awayPause = 50 * time.Millisecond

// errSilent tells that a server that should have sent heartbeats did not.
var errSilent = errors.New("no heartbeat came")

func (b *Bus) newPuller(stream, consumer, group string) (*puller, error) {
	p := &puller{
		conn: b.conn, subject: "$JS.API.CONSUMER.MSG.NEXT." + stream + "." + consumer, group: group,
		inbox: b.conn.NewInbox(), came: make(chan *nats.Msg, MaxFetch+stragglers),
	}
	sub, err := b.conn.ChanSubscribe(p.inbox+".*", p.came)
	if err != nil {
		return nil, unavailable("subscribe to "+consumer, err)
	}
	p.sub = sub
	return p, nil
}

// close gives back what came and was not taken.
func (p *puller) close() {
	_ = p.sub.Unsubscribe()
	for {
		select {
		case msg := <-p.came:
			if msg.Header.Get("Status") == "" {
				_ = msg.Nak()
			}
		default:
			return
		}
	}
}

// pullRequest is what is asked for; durations in nanoseconds.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	Group     string        `json:"group,omitempty"`
	Pin       string        `json:"id,omitempty"`
}

// pull asks for up to batch messages of no more than maxBytes together (0: no bound), waits
// for the first of them as long as given, and hands each to take when it comes. Without an
// error there may have been none: nothing came in time, or the server serves another process.
// Its error is ctx's when that ends first. heartbeat: how often the server must be heard of;
// 0: it need not.
func (p *puller) pull(ctx context.Context, batch, maxBytes int, wait, heartbeat time.Duration, take func(*nats.Msg)) error {
	reply, err := p.ask(ctx, pullRequest{batch, maxBytes, wait, heartbeat, p.group, p.pin})
	if err != nil {
		return err
	}
	r := pulling{reply: reply, left: batch, maxBytes: maxBytes, heartbeat: heartbeat, over: time.NewTimer(wait + late)}
	defer r.over.Stop()
	r.alive()
	for r.left > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // told to stop
		case <-r.over.C:
			if r.heartbeat > 0 {
				return errSilent
			}
			return nil
		case msg := <-p.came:
			r.alive()
			status := msg.Header.Get("Status")
			if status == "" || len(msg.Data) > 0 {
				p.note(msg)
				take(msg)
				r.count(msg)
			} else if err := p.told(&r, status, msg); err != nil {
				return err
			}
		}
	}
	return nil
}

// ask sends a request and returns where its answers come. While no server is connected it sends
// none: the connection would keep them, and the next server would answer all of them at once.
func (p *puller) ask(ctx context.Context, request pullRequest) (reply string, err error) {
	if !p.conn.IsConnected() {
		select {
		case <-ctx.Done():
		case <-time.After(awayPause):
		}
		return "", ErrAway
	}
	body, err := json.Marshal(request)
	if err != nil {
		return "", fmt.Errorf("write the request: %w", err)
	}
	p.asked++
	reply = p.inbox + "." + strconv.FormatUint(p.asked, 10)
	return reply, p.conn.PublishRequest(p.subject, reply, body) //nolint:wrapcheck // the caller says what for
}

// pulling is what is still to come of one request.
type pulling struct {
	reply     string // its messages' inbox
	left      int    // messages
	bytes     int    // that came
	maxBytes  int
	heartbeat time.Duration
	over      *time.Timer // when no more is waited for
}

// alive notes that the server was heard of.
func (r *pulling) alive() {
	if r.heartbeat > 0 {
		r.over.Reset(2 * r.heartbeat)
	}
}

// count notes that a message came. Of a request that was filled to the byte the server does
// not say that it is over.
func (r *pulling) count(msg *nats.Msg) {
	r.left--
	if r.bytes += msg.Size(); r.bytes >= r.maxBytes && r.maxBytes > 0 {
		r.end(filled)
	}
}

// end notes that the server has ended the request: it sends no more heartbeats, but what it
// has sent may still be on its way.
func (r *pulling) end(wait time.Duration) {
	r.heartbeat = 0
	r.over.Reset(wait)
}

// told takes the server's word about a request.
func (p *puller) told(r *pulling, status string, msg *nats.Msg) error {
	if msg.Subject != r.reply || status == "100" {
		return nil // of an earlier request, or a heartbeat
	}
	unsent, err := p.ended(status, msg)
	if err != nil {
		return err
	}
	r.left -= min(r.left, unsent)
	r.end(late)
	return nil
}

// note takes down what the server knows this process by.
func (p *puller) note(msg *nats.Msg) {
	if pin := msg.Header.Get("Nats-Pin-Id"); pin != "" {
		p.pin = pin
	}
}

// ended returns how many messages of a request that is over the server has not sent.
func (p *puller) ended(status string, msg *nats.Msg) (unsent int, err error) {
	const all = int(^uint(0) >> 1)
	switch status {
	case "404", "408", "409":
		if pending := msg.Header.Get("Nats-Pending-Messages"); pending != "" {
			unsent, err = strconv.Atoi(pending)
			if err != nil {
				return 0, fmt.Errorf("read what is pending: %w", err)
			}
			return unsent, nil
		}
		if status == "404" {
			return all, nil
		}
	case "423": // another process is served
		p.pin = ""
		return all, nil
	case "503":
		return 0, nats.ErrNoResponders
	}
	return 0, fmt.Errorf("the server answers %s %s", status, msg.Header.Get("Description"))
}

// handed is a message as a consumer hands it out.
type handed interface {
	Subject() string
	Headers() nats.Header
	Data() []byte
	Ack() error
	DoubleAck(ctx context.Context) error
	Nak() error
	NakWithDelay(wait time.Duration) error
	InProgress() error
	Metadata() (*jetstream.MsgMetadata, error)
}

// pulled is a message that a puller has brought.
type pulled struct{ msg *nats.Msg }

func (p pulled) Subject() string                       { return p.msg.Subject }
func (p pulled) Headers() nats.Header                  { return p.msg.Header }
func (p pulled) Data() []byte                          { return p.msg.Data }
func (p pulled) Ack() error                            { return p.msg.Ack() }
func (p pulled) DoubleAck(ctx context.Context) error   { return p.msg.AckSync(nats.Context(ctx)) }
func (p pulled) Nak() error                            { return p.msg.Nak() }
func (p pulled) NakWithDelay(wait time.Duration) error { return p.msg.NakWithDelay(wait) }
func (p pulled) InProgress() error                     { return p.msg.InProgress() }

func (p pulled) Metadata() (*jetstream.MsgMetadata, error) {
	of, err := p.msg.Metadata()
	if err != nil {
		return nil, err //nolint:wrapcheck // wrap says what for
	}
	return &jetstream.MsgMetadata{
		Sequence:     jetstream.SequencePair{Consumer: of.Sequence.Consumer, Stream: of.Sequence.Stream},
		NumDelivered: of.NumDelivered, NumPending: of.NumPending, Timestamp: of.Timestamp,
		Stream: of.Stream, Consumer: of.Consumer, Domain: of.Domain,
	}, nil
}
