package bus

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
)

// Consumer is a consumer of a stream, as one of those that it serves sees it. It is for one
// goroutine.
type Consumer struct {
	bus      *Bus
	stream   string
	name     string
	consumer jetstream.Consumer
	puller   *puller // nil: nothing was fetched yet
}

// MaxFetch is how many messages one fetch may ask for.
const MaxFetch = 500

// ErrAway is returned by a fetch while no server is connected. It comes after a moment, so
// that the next one may begin at once. A fetch that was under way returns it when a server is connected again.
var ErrAway = errors.New("no server is connected")

// FetchOptions say how messages are fetched.
type FetchOptions struct {
	Wait time.Duration // for the first message; 0: what is there is taken
	// Heartbeat is how often the server must give a sign of life during the fetch. When 0, the server need not.
	Heartbeat time.Duration
	// Bytes bounds what is handed out; 0: it is not bounded.
	Bytes int64
	// Pinned must be set for a consumer that serves one process at a time.
	Pinned bool
}

// Fetch asks for at most n messages and hands each to take when it comes. Without an error
// there may have been none: nothing came in time, or the server serves another process. Its
// error is ctx's when that ends first.
func (c *Consumer) Fetch(ctx context.Context, n int, options FetchOptions, take func(*Message)) error {
	if err := c.open(options.Pinned); err != nil {
		return err
	}
	err := c.puller.pull(ctx, n, int(options.Bytes), options.Wait, options.Heartbeat, func(msg *nats.Msg) {
		m, err := wrap(pulled{msg})
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

// Await returns when the consumer has a message, after wait, or when other has a value; the message is left.
// Its error is ctx's when that ends first. For a consumer that is not pinned.
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

// open makes the puller, the first time.
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

// Close ends the fetching, and gives back what came and was not taken.
func (c *Consumer) Close() {
	if c.puller != nil {
		c.puller.close()
		c.puller = nil
	}
}

// PullOptions say how messages are pulled.
type PullOptions struct {
	Messages  int           // so many are sent ahead at most
	Bytes     int64         // of messages sent ahead; 0: they are not bounded
	Expiry    time.Duration // of one request of the client
	Heartbeat time.Duration
}

// Pull is a continuous consumption of a consumer that serves one process at a time.
type Pull struct {
	name     string
	messages jetstream.MessagesContext
}

// Pull has messages sent ahead of those that are worked upon.
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

// Close ends the consumption and gives back what was sent ahead, so that it needn't wait for
// AckWait.
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

func wrap(msg handed) (*Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read message metadata: %w", err)
	}
	return &Message{Sequence: meta.Sequence.Stream, Time: meta.Timestamp.UTC(), Repeated: meta.NumDelivered > 1, Deliveries: meta.NumDelivered, msg: msg}, nil
}
