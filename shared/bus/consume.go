package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// Message is a message of a stream in the hands of a consumer. Until it is
// acknowledged it comes again, to whoever consumes then.
type Message struct {
	Sequence uint64    // in its stream
	Time     time.Time // when the stream stored it
	Repeated bool      // it was handed out before
	msg      jetstream.Msg
}

// Subject returns the subject that the message was published on.
func (m *Message) Subject() string { return m.msg.Subject() }

// Header returns the message's headers; they must not be changed.
func (m *Message) Header() map[string][]string { return m.msg.Headers() }

// Body returns the message's body; it must not be changed.
func (m *Message) Body() []byte { return m.msg.Data() }

// Ack tells the server that the message is done. If the word is lost, the message comes again.
func (m *Message) Ack() { _ = m.msg.Ack() }

// AckWait is Ack that waits until the server has it.
func (m *Message) AckWait(ctx context.Context) error {
	if err := m.msg.DoubleAck(ctx); err != nil {
		return unavailable("acknowledge", err)
	}
	return nil
}

// Release gives the message back, for another consumer to take at once.
func (m *Message) Release() { _ = m.msg.Nak() }

// InProgress tells the server that the message is still worked upon, for AckWait more.
func (m *Message) InProgress() { _ = m.msg.InProgress() }

// ConsumeEvents hands the events of EVENTS to handle, one after the other, until ctx is
// done. Prefetched messages that handle did not get are given back.
func (b *Bus) ConsumeEvents(ctx context.Context, handle func(*Message)) error {
	return b.consume(ctx, StreamEvents, consumerFanout, handle,
		jetstream.PullMaxMessages(1000), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second))
}

// ConsumeDue hands the due deliveries of one shard to handle, until ctx is done. Among
// all that consume a shard the server serves one.
func (b *Bus) ConsumeDue(ctx context.Context, shard int, handle func(*Message)) error {
	return b.consume(ctx, StreamRetries, consumerDue+strconv.Itoa(shard), handle,
		jetstream.PullMaxMessages(256), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullPriorityGroup(PinGroup))
}

// ConsumeRecords hands the messages of RECORDS to handle, in order, until ctx is done.
// Among all that consume them the server serves one.
func (b *Bus) ConsumeRecords(ctx context.Context, handle func(*Message)) error {
	return b.consume(ctx, StreamRecords, consumerRecord, handle,
		jetstream.PullMaxMessages(256), jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullPriorityGroup(PinGroup))
}

// consume keeps a consumption going until ctx is done: through reconnections, lost
// heartbeats, and a server that came back without its streams.
func (b *Bus) consume(ctx context.Context, stream, name string, handle func(*Message), opts ...jetstream.PullMessagesOpt) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	failing := false
	for {
		err := b.consumeOnce(ctx, stream, name, handle, func() {
			if failing {
				b.log.Info("consumption goes on", "consumer", name)
				failing = false
			}
			wait.Reset()
		}, opts...)
		if ctx.Err() != nil {
			return nil
		}
		if !failing {
			b.log.Warn("consumption interrupted", "consumer", name, "error", err)
			failing = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
	}
}

func (b *Bus) consumeOnce(ctx context.Context, stream, name string, handle func(*Message), working func(), opts ...jetstream.PullMessagesOpt) error {
	lookup, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	consumer, err := b.js.Consumer(lookup, stream, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = b.Ensure(lookup); err == nil {
			consumer, err = b.js.Consumer(lookup, stream, name)
		}
	}
	if err != nil {
		return unavailable("look up consumer "+name, err)
	}
	messages, err := consumer.Messages(opts...)
	if err != nil {
		return unavailable("consume "+name, err)
	}
	defer giveBack(messages)
	for {
		msg, err := messages.Next(jetstream.NextContext(ctx))
		if err != nil {
			return unavailable("take the next message of "+name, err)
		}
		working()
		m, err := wrap(msg)
		if err != nil {
			return err
		}
		handle(m)
	}
}

// giveBack ends a consumption and releases what was prefetched, so that it needn't wait
// for AckWait.
func giveBack(messages jetstream.MessagesContext) {
	messages.Drain()
	for {
		msg, err := messages.Next(jetstream.NextMaxWait(time.Second))
		if err != nil {
			return
		}
		_ = msg.Nak()
	}
}

func wrap(msg jetstream.Msg) (*Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read message metadata: %w", err)
	}
	return &Message{Sequence: meta.Sequence.Stream, Time: meta.Timestamp.UTC(), Repeated: meta.NumDelivered > 1, msg: msg}, nil
}

// Lanes returns the webhooks of a shard whose lanes hold something, with how many
// deliveries each.
func (b *Bus) Lanes(ctx context.Context, shard int) (map[domain.WebhookID]uint64, error) {
	info, err := b.info(ctx, StreamHold, jetstream.WithSubjectFilter(subjectHold+strconv.Itoa(shard)+".>"))
	if err != nil {
		return nil, err
	}
	lanes := make(map[domain.WebhookID]uint64, len(info.State.Subjects))
	for subject, n := range info.State.Subjects {
		if id, ok := webhookOfSubject(subject); ok {
			lanes[id] = n
		}
	}
	return lanes, nil
}

// Held is the head of a lane: it stays there until LaneDelete.
type Held struct {
	Task     *domain.Task
	Sequence uint64
}

// LaneHead returns the first delivery in a webhook's lane at or after sequence from;
// nil: there is none.
func (b *Bus) LaneHead(ctx context.Context, id domain.WebhookID, from uint64) (*Held, error) {
	stream, err := b.js.Stream(ctx, StreamHold)
	if err != nil {
		return nil, unavailable("look up stream "+StreamHold, err)
	}
	msg, err := stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(HoldSubject(id)))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read the head of a lane", err)
	}
	task, err := ParseTask(msg.Header, msg.Data)
	if err != nil {
		return nil, err
	}
	return &Held{Task: task, Sequence: msg.Sequence}, nil
}

// LaneDelete removes a delivery from its lane.
func (b *Bus) LaneDelete(ctx context.Context, sequence uint64) error {
	stream, err := b.js.Stream(ctx, StreamHold)
	if err != nil {
		return unavailable("look up stream "+StreamHold, err)
	}
	if err := stream.DeleteMsg(ctx, sequence); err != nil && !errors.Is(err, jetstream.ErrMsgNotFound) {
		return unavailable("delete from a lane", err)
	}
	return nil
}

// Lane is a webhook's lane while it is drained, through a consumer of its own.
type Lane struct {
	bus      *Bus
	name     string
	consumer jetstream.Consumer
}

// OpenLane starts to drain a lane. At most inHand deliveries are unacknowledged at once.
func (b *Bus) OpenLane(ctx context.Context, id domain.WebhookID, inHand int) (*Lane, error) {
	name := consumerLane + id.Token()
	consumer, err := b.js.CreateOrUpdateConsumer(ctx, StreamHold, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: HoldSubject(id), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: AckWait, MaxDeliver: -1, MaxAckPending: inHand,
		// A guard against leaks: who drains asks more often than this.
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, unavailable("open a lane", err)
	}
	return &Lane{bus: b, name: name, consumer: consumer}, nil
}

// Fetch returns up to n deliveries, waiting at most wait for the first.
func (l *Lane) Fetch(n int, wait time.Duration) ([]*Message, error) {
	batch, err := l.consumer.Fetch(n, jetstream.FetchMaxWait(wait))
	if err != nil {
		return nil, unavailable("fetch from a lane", err)
	}
	var list []*Message
	for msg := range batch.Messages() {
		m, err := wrap(msg)
		if err != nil {
			return list, err
		}
		list = append(list, m)
	}
	if err := batch.Error(); err != nil {
		return list, unavailable("fetch from a lane", err)
	}
	return list, nil
}

// Close ends the draining; what was not acknowledged stays in the lane.
func (l *Lane) Close(ctx context.Context) error {
	err := l.bus.js.DeleteConsumer(ctx, StreamHold, l.name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return unavailable("close a lane", err)
	}
	return nil
}
