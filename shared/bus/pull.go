package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// puller asks one consumer for messages, for a bounded number and size of them at a time.
//
// The client library's own fetch is not enough in a cluster. The server sends a status message when
// a request is over, and the library stops reading there. But a cluster sends that status at once,
// and the last messages only after its replicas know of them. The library missed these messages
// until AckWait. A puller reads on until all messages that the status counts have come. Its inbox
// stays open from one request to the next.
type puller struct {
	conn       *nats.Conn
	subject    string // of requests for messages
	inbox      string
	sub        *nats.Subscription
	came       chan *nats.Msg
	asked      uint64          // number of requests so far
	foundEarly []*nats.Msg     // messages that await has found; the next request hands them out first
	back       <-chan struct{} // has a value after each reconnection
	leave      func()          // ends back

	group string // of a pinned consumer; empty: the consumer is not pinned
	pin   string // the server's id for this process while it serves it
}

const (
	// late is how long a puller waits for messages after a request is over.
	late = time.Second
	// filled is how long a puller waits for the server's status when all bytes have come.
	filled = 50 * time.Millisecond
	// stragglers is how many late messages of earlier requests the inbox has space for.
	stragglers = 2 * MaxFetch
)

// awayPause is how long a request waits before it fails while no server is connected.
const awayPause = 50 * time.Millisecond

// errSilent means that the server did not send its heartbeats.
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
	p.back, p.leave = b.Reconnects()
	return p, nil
}

// close gives back the messages that have come and were not taken.
func (p *puller) close() {
	p.leave()
	_ = p.sub.Unsubscribe()
	for _, msg := range p.foundEarly {
		_ = msg.Nak()
	}
	for {
		select {
		case msg := <-p.came:
			if !p.fromServer(msg) {
				_ = msg.Nak()
			}
		default:
			return
		}
	}
}

// pullRequest is the body of a request; durations are in nanoseconds.
type pullRequest struct {
	Batch     int           `json:"batch"`
	MaxBytes  int           `json:"max_bytes,omitempty"`
	Expires   time.Duration `json:"expires,omitempty"`
	NoWait    bool          `json:"no_wait,omitempty"`
	Heartbeat time.Duration `json:"idle_heartbeat,omitempty"`
	Group     string        `json:"group,omitempty"`
	Pin       string        `json:"id,omitempty"`
}

// pull asks for at most batch messages, of at most maxBytes together (0: no limit), and calls take with each. It waits
// for the first message at most as long as wait; 0: it takes only messages that are there already. It is no error if no
// message comes: there was none, or the server serves another process. When ctx ends first, the error is ctx's. If
// heartbeat is not 0, the server must send one that often. If this process connects to a server again during the request,
// that server does not know the request: the error is ErrAway, and the caller may begin the next request at once.
func (p *puller) pull(ctx context.Context, batch, maxBytes int, wait, heartbeat time.Duration, take func(*nats.Msg)) error {
	select {
	case <-p.back: // the reconnection was before the request
	default:
	}
	for _, msg := range p.foundEarly {
		p.keepPinID(msg)
		take(msg)
	}
	p.foundEarly = nil
	reply, err := p.ask(ctx, pullRequest{batch, maxBytes, wait, wait == 0, heartbeat, p.group, p.pin})
	if err != nil {
		return err
	}
	back := p.back
	if heartbeat == 0 { // the request ends soon, and its messages may be on their way
		back = nil
	}
	r := pullState{reply: reply, remaining: batch, maxBytes: maxBytes, heartbeat: heartbeat, timeout: time.NewTimer(wait + late)}
	defer r.timeout.Stop()
	r.noteSign()
	for r.remaining > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // asked to stop
		case <-back:
			return ErrAway
		case <-r.timeout.C:
			if r.heartbeat > 0 {
				return errSilent
			}
			return nil
		case msg := <-p.came:
			r.noteSign()
			if !p.fromServer(msg) {
				p.keepPinID(msg)
				take(msg)
				r.countMessage(msg)
			} else if err := p.handleStatus(&r, msg); err != nil {
				return err
			}
		}
	}
	return nil
}

// await asks for a message of one byte at most. There is none, and the server refuses the request as soon as it
// has a larger message. await returns when that happens, after wait, when other has a value, or with ctx's
// error. While it waits, it takes no room for messages.
func (p *puller) await(ctx context.Context, wait time.Duration, other <-chan struct{}) error {
	reply, err := p.ask(ctx, pullRequest{Batch: 1, MaxBytes: 1, Expires: wait, Group: p.group, Pin: p.pin})
	if err != nil {
		return err
	}
	over := time.NewTimer(wait + late)
	defer over.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err() //nolint:wrapcheck // asked to stop
		case <-over.C:
			return nil
		case <-other:
			return nil
		case msg := <-p.came:
			switch {
			case !p.fromServer(msg):
				p.foundEarly = append(p.foundEarly, msg) // from an earlier request; if it were given back, it would come behind later ones
				return nil
			case msg.Subject == reply && msg.Header.Get("Status") == "503":
				return nats.ErrNoResponders
			case msg.Subject == reply && msg.Header.Get("Status") != "100":
				return nil
			}
		}
	}
}

// fromServer reports whether msg is a status of the server, not a message of the stream. Only a
// status has the inbox as its subject; a header could come from any publisher.
func (p *puller) fromServer(msg *nats.Msg) bool { return strings.HasPrefix(msg.Subject, p.inbox+".") }

// ask sends a request and returns the subject of its answers. While no server is connected it sends
// nothing, because the connection would keep the requests, and the next server would answer all of
// them at once.
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

// pullState is the state of one request.
type pullState struct {
	reply     string // the inbox of its messages
	remaining int    // messages that are still to come
	bytes     int    // bytes of messages that have come
	maxBytes  int
	heartbeat time.Duration
	timeout   *time.Timer // when the puller stops waiting
}

// noteSign notes that the server has shown that it is alive.
func (r *pullState) noteSign() {
	if r.heartbeat > 0 {
		r.timeout.Reset(2 * r.heartbeat)
	}
}

// countMessage notes that a message has come. The server sends no status when a
// request is filled to the last byte.
func (r *pullState) countMessage(msg *nats.Msg) {
	r.remaining--
	if r.bytes += msg.Size(); r.bytes >= r.maxBytes && r.maxBytes > 0 {
		r.noteEnd(filled)
	}
}

// noteEnd notes that the server has ended the request: it sends no more heartbeats, but messages may
// still be on their way.
func (r *pullState) noteEnd(wait time.Duration) {
	r.heartbeat = 0
	r.timeout.Reset(wait)
}

// handleStatus handles a status of the server.
func (p *puller) handleStatus(r *pullState, msg *nats.Msg) error {
	status := msg.Header.Get("Status")
	if msg.Subject != r.reply || status == "100" {
		return nil // from an earlier request, or a heartbeat
	}
	unsent, err := p.countUnsent(status, msg)
	if err != nil {
		return err
	}
	r.remaining -= min(r.remaining, unsent)
	r.noteEnd(late)
	return nil
}

// keepPinID keeps the id under which the server serves this process. Only a message of a pinned consumer
// has such an id; in others the header would be a publisher's.
func (p *puller) keepPinID(msg *nats.Msg) {
	if p.group == "" {
		return
	}
	if pin := msg.Header.Get("Nats-Pin-Id"); pin != "" {
		p.pin = pin
	}
}

// countUnsent returns how many of the requested messages the server will not send.
func (p *puller) countUnsent(status string, msg *nats.Msg) (unsent int, err error) {
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
	case "423": // the server serves another process
		p.pin = ""
		return all, nil
	case "503":
		return 0, nats.ErrNoResponders
	}
	return 0, fmt.Errorf("the server answers %s %s", status, msg.Header.Get("Description"))
}

// consumerMessage is a message as a consumer hands it out.
type consumerMessage interface {
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

// pulledMessage is a message from a puller.
type pulledMessage struct{ msg *nats.Msg }

func (p pulledMessage) Subject() string                       { return p.msg.Subject }
func (p pulledMessage) Headers() nats.Header                  { return p.msg.Header }
func (p pulledMessage) Data() []byte                          { return p.msg.Data }
func (p pulledMessage) Ack() error                            { return p.msg.Ack() }
func (p pulledMessage) DoubleAck(ctx context.Context) error   { return p.msg.AckSync(nats.Context(ctx)) }
func (p pulledMessage) Nak() error                            { return p.msg.Nak() }
func (p pulledMessage) NakWithDelay(wait time.Duration) error { return p.msg.NakWithDelay(wait) }
func (p pulledMessage) InProgress() error                     { return p.msg.InProgress() }

func (p pulledMessage) Metadata() (*jetstream.MsgMetadata, error) {
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
