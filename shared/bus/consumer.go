package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Consumer is a consumer of a stream, as seen by one of the processes that it serves. Only one
// goroutine may use it.
type Consumer struct {
	bus      *Bus
	stream   string
	name     string
	consumer jetstream.Consumer
	puller   *puller // nil: nothing was fetched yet
}

// MaxFetch is how many messages one fetch may ask for.
const MaxFetch = 500

// ErrAway is returned by a fetch while no server is connected. The fetch returns it after a moment, so that the
// caller may begin the next one at once. A fetch that had begun before returns it when a server is connected again.
var ErrAway = errors.New("no server is connected")

// FetchOptions say how messages are fetched.
type FetchOptions struct {
	Wait time.Duration // for the first message; 0: only messages that are there already are taken
	// Heartbeat is how often the server must show during the fetch that it is alive; 0: it need not.
	Heartbeat time.Duration
	// Bytes bounds the size of the messages that one fetch brings; 0: there is no bound.
	Bytes int64
	// Pinned must be set for a consumer that serves one process at a time.
	Pinned bool
}

// Fetch asks for at most n messages and calls take with each when it comes. If there is no error,
// there may have been no message: none came in time, or the server serves another process. The
// error is ctx's when ctx ends first.
func (c *Consumer) Fetch(ctx context.Context, n int, options FetchOptions, take func(*Message)) error {
	if err := c.open(options.Pinned); err != nil {
		return err
	}
	err := c.puller.pull(ctx, n, int(options.Bytes), options.Wait, options.Heartbeat, func(msg *nats.Msg) {
		m, err := wrap(pulledMessage{msg})
		if err != nil {
			c.bus.log.Error("message of no stream is left", "error", err)
			return
		}
		take(m)
	})
	if err != nil && !errors.Is(err, ErrAway) {
		return unavailable("fetch "+c.name, err)
	}
	return err
}

// Await returns when the consumer has a message, after wait, or when other has a value. It leaves the message
// with the consumer. The error is ctx's when ctx ends first. Await can't be used with a pinned consumer.
func (c *Consumer) Await(ctx context.Context, wait time.Duration, other <-chan struct{}) error {
	if err := c.open(false); err != nil {
		return err
	}
	err := c.puller.await(ctx, wait, other)
	if err != nil && !errors.Is(err, ErrAway) {
		return unavailable("wait for messages of "+c.name, err)
	}
	return err
}

// open makes the puller at the first call.
func (c *Consumer) open(pinned bool) (err error) {
	if c.puller != nil {
		return nil
	}
	group := ""
	if pinned {
		group = PinGroup
	}
	c.puller, err = c.bus.newPuller(c.stream, c.name, group)
	return err
}

// Close ends the fetching, and gives back messages that have come and were not taken.
func (c *Consumer) Close() {
	if c.puller != nil {
		c.puller.close()
		c.puller = nil
	}
}

// PullOptions say how messages are pulled.
type PullOptions struct {
	Messages  int           // how many messages are sent ahead at most
	Bytes     int64         // of messages sent ahead; 0: there is no bound
	Expiry    time.Duration // how long one request of the client lasts
	Heartbeat time.Duration
}

// Pull is a continuous consumption of a consumer that serves one process at a time.
type Pull struct {
	name     string
	messages jetstream.MessagesContext
}

// Pull begins a continuous consumption: the server sends messages ahead of those that the process works on.
func (c *Consumer) Pull(options PullOptions) (*Pull, error) {
	ahead := jetstream.PullMessagesOpt(jetstream.PullMaxMessages(options.Messages))
	if options.Bytes > 0 {
		ahead = jetstream.PullMaxMessagesWithBytesLimit(options.Messages, int(options.Bytes))
	}
	messages, err := c.consumer.Messages(ahead, jetstream.PullExpiry(options.Expiry), jetstream.PullHeartbeat(options.Heartbeat),
		jetstream.PullPriorityGroup(PinGroup))
	if err != nil {
		return nil, unavailable("consume "+c.name, err)
	}
	return &Pull{c.name, messages}, nil
}

// Next waits for the next message.
func (p *Pull) Next(ctx context.Context) (*Message, error) {
	msg, err := p.messages.Next(jetstream.NextContext(ctx))
	if err != nil {
		return nil, unavailable("take the next message of "+p.name, err)
	}
	return wrap(msg)
}

// Close ends the consumption and gives back messages that were sent ahead, so that they needn't
// wait for AckWait.
func (p *Pull) Close() {
	p.messages.Drain()
	for {
		msg, err := p.messages.Next(jetstream.NextMaxWait(time.Second))
		if err != nil {
			return
		}
		_ = msg.Nak()
	}
}

func wrap(msg consumerMessage) (*Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read message metadata: %w", err)
	}
	return &Message{Sequence: meta.Sequence.Stream, Time: meta.Timestamp.UTC(), Repeated: meta.NumDelivered > 1, Deliveries: meta.NumDelivered, msg: msg}, nil
}
