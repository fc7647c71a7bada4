package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// Message is a message of a stream in the hands of a consumer. Until it is
// acknowledged it comes again, to whoever consumes then.
type Message struct {
	Sequence uint64    // in its stream
	Time     time.Time // when the stream stored it
	Repeated bool      // it was handed out before
	// Deliveries is how often it was handed out, this time included.
	Deliveries uint64
	msg        handed
}

// Subject returns the subject that the message was published on.
func (m *Message) Subject() string { return m.msg.Subject() }

// Header returns the message's headers; they must not be changed.
func (m *Message) Header() map[string][]string { return m.msg.Headers() }

// Body returns the message's body; it must not be changed.
func (m *Message) Body() []byte { return m.msg.Data() }

// size is what the message takes in memory, about.
func (m *Message) size() int64 {
	size := messageExtra + len(m.msg.Data())
	for name, values := range m.msg.Headers() {
		size += len(name)
		for _, value := range values {
			size += len(value)
		}
	}
	return int64(size)
}

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

// ReleaseAfter gives the message back, to be handed out again after a wait.
func (m *Message) ReleaseAfter(wait time.Duration) { _ = m.msg.NakWithDelay(wait) }

// InProgress tells the server that the message is still worked upon, for AckWait more.
func (m *Message) InProgress() { _ = m.msg.InProgress() }

// fetchSize is how many messages are fetched at a time at most, and about half of how many a
// process holds beyond those that it works upon. Where their bytes are bounded, it is less:
// what a fetch may bring is reserved before.
const fetchSize = 500

// recordFetch is how long one fetch of records waits, and how often at least is asked for
// them: well below the time after which the server serves another process because this
// one no longer asks.
const recordFetch = 200 * time.Millisecond

// ConsumeEvents hands the events of EVENTS to handle, one after the other, until ctx is
// done. Each is in inHand from its arrival on; those that handle did not get are given
// back at the end.
func (b *Bus) ConsumeEvents(ctx context.Context, inHand *InHand, handle func(*Message)) error {
	return b.again(ctx, consumerFanout, func(working func()) error {
		return b.fetchOnce(ctx, StreamEvents, consumerFanout, inHand, handle, working, fetching{wait: 10 * time.Second, heartbeat: 2500 * time.Millisecond})
	})
}

// ConsumeRecords hands the messages of RECORDS to handle, in order, until ctx is done, as
// ConsumeEvents does. Among all that consume them the server serves one.
func (b *Bus) ConsumeRecords(ctx context.Context, inHand *InHand, handle func(*Message)) error {
	return b.again(ctx, consumerRecord, func(working func()) error {
		return b.fetchOnce(ctx, StreamRecords, consumerRecord, inHand, handle, working, fetching{wait: recordFetch, always: true, group: PinGroup})
	})
}

// RecordsWritten returns the sequence up to which every message of RECORDS is acknowledged.
func (b *Bus) RecordsWritten(ctx context.Context) (uint64, error) {
	info, err := b.consumerInfo(ctx, StreamRecords, consumerRecord)
	if err != nil {
		return 0, err
	}
	return info.AckFloor.Stream, nil
}

// ConsumeDue hands the due deliveries of one shard to handle, which must not wait, until ctx
// is done; while room, which those in hand take, is full, it asks for no more. nil: there is
// no bound. Among all that consume a shard the server serves one.
func (b *Bus) ConsumeDue(ctx context.Context, shard int, room *Budget, handle func(*Message)) error {
	name := consumerDue + strconv.Itoa(shard)
	return b.again(ctx, name, func(working func()) error {
		consumer, err := b.consumer(ctx, StreamRetries, name)
		if err != nil {
			return err
		}
		for {
			if err := b.pull(ctx, consumer, name, room, handle, working); err != nil {
				return err
			}
		}
	})
}

// dueAhead is how many due deliveries of a shard wait in this process to be handled, at most.
const dueAhead = 256

// pull consumes due deliveries by a continuous pull until there is no room for more of them;
// what the client has of them then is given back.
func (b *Bus) pull(ctx context.Context, consumer jetstream.Consumer, name string, room *Budget, handle func(*Message), working func()) error {
	opts := []jetstream.PullMessagesOpt{jetstream.PullMaxMessages(dueAhead)}
	if room != nil {
		// The client asks for more when half of it is handled, so it may have twice as much.
		ahead := max(LargestTask, room.limit/(4*domain.Shards))
		granted, err := room.Reserve(ctx, 2*ahead, 2*ahead)
		if err != nil {
			return err //nolint:wrapcheck // told to stop
		}
		defer room.Give(granted)
		opts[0] = jetstream.PullMaxMessagesWithBytesLimit(dueAhead, int(ahead))
	}
	messages, err := consumer.Messages(append(opts, jetstream.PullExpiry(10*time.Second), jetstream.PullHeartbeat(2*time.Second),
		jetstream.PullPriorityGroup(PinGroup))...)
	if err != nil {
		return unavailable("consume "+name, err)
	}
	defer giveBack(messages)
	for room == nil || !room.full() {
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
	return nil
}

// again keeps a consumption going until ctx is done: through reconnections, lost
// heartbeats, and a server that came back without its streams.
func (b *Bus) again(ctx context.Context, name string, once func(working func()) error) error {
	wait := backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(100*time.Millisecond), backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
	failing := false
	for {
		err := once(func() {
			if failing {
				b.log.Info("messages are consumed again", "consumer", name)
				failing = false
			}
			wait.Reset()
		})
		if ctx.Err() != nil {
			return nil //nolint:nilerr // told to stop
		}
		if !failing {
			b.log.Warn("messages can't be consumed; trying again", "consumer", name, "error", err)
			failing = true
		}
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(wait.NextBackOff()):
		}
	}
}

// consumer looks a consumer up, and makes it when the server has lost it.
func (b *Bus) consumer(ctx context.Context, stream, name string) (jetstream.Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	consumer, err := b.js.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = b.Ensure(ctx); err == nil {
			consumer, err = b.js.Consumer(ctx, stream, name)
		}
	}
	if err != nil {
		return nil, unavailable("look up consumer "+name, err)
	}
	return consumer, nil
}

// fetching is how a stream is consumed by fetches.
type fetching struct {
	wait      time.Duration // of one fetch, for the first message
	heartbeat time.Duration // how often the server must be heard of meanwhile; 0: it need not
	group     string        // of a pinned consumer
	// always: the server is asked in each wait, by which it knows that this process lives: for
	// one message while there is no place for a portion, and for none while there is no room.
	always bool
}

// fetchOnce consumes by fetches. Unlike a continuous pull it leaves nothing in the
// client's buffer, where a message that waits for long would run into AckWait unseen:
// whatever arrives is in inHand at once, and the next fetch waits until there is room.
func (b *Bus) fetchOnce(ctx context.Context, stream, name string, inHand *InHand, handle func(*Message), working func(), how fetching) error {
	if _, err := b.consumer(ctx, stream, name); err != nil {
		return err
	}
	puller, err := b.newPuller(stream, name, how.group)
	if err != nil {
		return err
	}
	defer puller.close()
	queue := make(chan *Message, 2*fetchSize)
	var handling sync.WaitGroup
	handling.Go(func() {
		for m := range queue {
			if ctx.Err() != nil {
				inHand.Done(m)
				m.Release()
				continue
			}
			handle(m)
		}
	})
	defer handling.Wait()
	defer close(queue)
	for asked := time.Now(); ctx.Err() == nil; {
		portion := fetchSize
		if len(queue) > fetchSize/2 {
			portion = 1
			if !how.always || time.Since(asked) < how.wait || len(queue) == cap(queue) {
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
				continue
			}
		}
		asked = time.Now()
		err := b.ask(ctx, puller, portion, inHand, queue, working, how)
		if err != nil && !errors.Is(err, errAway) && ctx.Err() == nil {
			return unavailable("fetch "+name, err)
		}
	}
	return ctx.Err()
}

// ask waits for room and fetches one portion.
func (b *Bus) ask(ctx context.Context, p *puller, portion int, inHand *InHand, queue chan<- *Message, working func(), how fetching) error {
	room, err := inHand.reserve(ctx, largestMessage, how)
	full := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !full {
		return err // told to stop
	}
	if how.always {
		// What the server sends until the wait is over would come again only after AckWait: out
		// of order.
		ctx = context.WithoutCancel(ctx)
	}
	if full {
		// A message of one byte, which there is none of: so the server goes on serving this process.
		return p.pull(ctx, 1, 1, how.wait, 0, func(msg *nats.Msg) { _ = msg.Nak() })
	}
	return b.fetch(ctx, p, portion, inHand, room, queue, working, how)
}

// fetch takes one portion into queue, which has a place for each, of the room reserved for
// it; 0: there is no bound.
func (b *Bus) fetch(ctx context.Context, p *puller, portion int, inHand *InHand, room int64, queue chan<- *Message, working func(), how fetching) error {
	if room > 0 {
		defer func() { inHand.room.Give(room) }()
	}
	asked := room
	err := p.pull(ctx, portion, int(asked), how.wait, how.heartbeat, func(msg *nats.Msg) {
		working()
		m, err := wrap(pulled{msg})
		if err != nil {
			b.log.Error("message of no stream is left", "error", err)
			return
		}
		if inHand.Add(m) {
			queue <- m
			if asked > 0 { // what it took is no longer reserved
				taken := min(room, m.size())
				room -= taken
				inHand.room.Give(taken)
			}
		}
	})
	if err == nil {
		working()
	}
	return err
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

func wrap(msg handed) (*Message, error) {
	meta, err := msg.Metadata()
	if err != nil {
		return nil, fmt.Errorf("read message metadata: %w", err)
	}
	return &Message{Sequence: meta.Sequence.Stream, Time: meta.Timestamp.UTC(), Repeated: meta.NumDelivered > 1, Deliveries: meta.NumDelivered, msg: msg}, nil
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

// laneReadBytes bounds what is read of a lane at once.
const laneReadBytes = 1 << 20

// Held is a delivery in a lane: it stays there until LaneDelete.
type Held struct {
	Task     *domain.Task
	Sequence uint64
}

// LaneRead returns up to most deliveries of a webhook's lane in its order, from the
// sequence given on, fewer when their bodies come to over 1 MiB. The first for which more
// says false is the last; nil: as many as there are. One that can't be read is set aside,
// see SetAside. Each costs a request.
func (b *Bus) LaneRead(ctx context.Context, id domain.WebhookID, from uint64, most int, more func(*domain.Task) bool) ([]*Held, error) {
	stream, err := b.hold(ctx)
	if err != nil {
		return nil, err
	}
	var list []*Held
	for size := 0; len(list) < most && size < laneReadBytes; {
		msg, err := stream.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(HoldSubject(id)))
		if errors.Is(err, jetstream.ErrMsgNotFound) {
			break
		}
		if err != nil {
			return nil, unavailable("read a hold queue", err)
		}
		from = msg.Sequence + 1
		task, cause := ParseTask(msg.Header, msg.Data)
		if cause != nil {
			b.log.Error("a held delivery can't be read and is set aside", "sequence", msg.Sequence, "error", cause)
			at := stored{msg.Sequence, msg.Time.UnixNano()}
			if err := wait(ctx, func(done func(error)) { b.aside(msg.Subject, msg.Header, msg.Data, at, cause, done) }); err != nil {
				return nil, err
			}
			if err := b.LaneDelete(ctx, msg.Sequence); err != nil {
				return nil, err
			}
			continue
		}
		list = append(list, &Held{Task: task, Sequence: msg.Sequence})
		size += len(msg.Data)
		if more != nil && !more(task) {
			break
		}
	}
	return list, nil
}

// LaneDelete removes deliveries from their lanes; that one is gone already is no fault.
func (b *Bus) LaneDelete(ctx context.Context, sequences ...uint64) error {
	stream, err := b.hold(ctx)
	if err != nil {
		return err
	}
	failed := make([]error, len(sequences))
	var deleting sync.WaitGroup
	for i, sequence := range sequences {
		deleting.Go(func() {
			err := stream.DeleteMsg(ctx, sequence)
			// The client keeps of the server's answer only its text.
			gone := errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) && strings.Contains(err.Error(), "no message found")
			if err != nil && !gone {
				failed[i] = unavailable("delete from a hold queue", err)
			}
		})
	}
	deleting.Wait()
	return errors.Join(failed...)
}

// hold returns the lanes' stream. To look it up costs a request, so the handle, which is
// good for as long as the name is, is kept.
func (b *Bus) hold(ctx context.Context) (jetstream.Stream, error) {
	b.mu.Lock()
	stream := b.lanes
	b.mu.Unlock()
	if stream != nil {
		return stream, nil
	}
	stream, err := b.js.Stream(ctx, StreamHold)
	if err != nil {
		return nil, unavailable("look up stream "+StreamHold, err)
	}
	b.mu.Lock()
	b.lanes = stream
	b.mu.Unlock()
	return stream, nil
}

// Lane is a webhook's lane while it is drained, through a consumer of its own.
type Lane struct {
	bus    *Bus
	name   string
	puller *puller
}

// OpenLane starts to drain a lane. At most inHand deliveries are unacknowledged at once.
func (b *Bus) OpenLane(ctx context.Context, id domain.WebhookID, inHand int) (*Lane, error) {
	name := consumerLane + id.Token()
	_, err := b.js.CreateOrUpdateConsumer(ctx, StreamHold, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: HoldSubject(id), AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: AckWait, MaxDeliver: -1, MaxAckPending: inHand,
		// A guard against leaks: who drains asks more often than this.
		InactiveThreshold: time.Minute,
	})
	if err != nil {
		return nil, unavailable("open a hold queue", err)
	}
	puller, err := b.newPuller(StreamHold, name, "")
	if err != nil {
		return nil, err
	}
	return &Lane{bus: b, name: name, puller: puller}, nil
}

// Fetch takes up to n deliveries in hand, as many as there is room for, waiting for room and
// then at most wait for the first. What it returns beside an error is in hand, too.
func (l *Lane) Fetch(ctx context.Context, inHand *InHand, n int, wait time.Duration) ([]*Message, error) {
	var granted int64
	if inHand.room != nil {
		var err error
		granted, err = inHand.room.Reserve(ctx, LargestTask, max(LargestTask, inHand.room.limit/2))
		if err != nil {
			return nil, err //nolint:wrapcheck // told to stop
		}
		defer inHand.room.Give(granted)
	}
	var list []*Message
	var unreadable error
	err := l.puller.pull(context.WithoutCancel(ctx), n, int(granted), wait, 0, func(msg *nats.Msg) {
		m, err := wrap(pulled{msg})
		if err != nil {
			unreadable = err
			return
		}
		inHand.Add(m)
		list = append(list, m)
	})
	if errors.Is(err, errAway) {
		return nil, nil
	}
	if err = errors.Join(err, unreadable); err != nil {
		return list, unavailable("fetch from a hold queue", err)
	}
	return list, nil
}

// Close ends the draining; what was not acknowledged stays in the lane.
func (l *Lane) Close(ctx context.Context) error {
	l.puller.close()
	err := l.bus.js.DeleteConsumer(ctx, StreamHold, l.name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return unavailable("close a hold queue", err)
	}
	return nil
}
