package bus

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// Consumer settings that others rely upon.
const (
	// AckWait is after how long an event or due delivery that a dispatcher neither
	// acknowledged nor reported as in progress goes to another one. Dispatchers report
	// every ProgressInterval, so what a killed one had in hand goes out again within 15 s.
	AckWait          = 10 * time.Second
	ProgressInterval = 3 * time.Second
	// MaxEventsInHand bounds the unacknowledged events over all dispatchers.
	MaxEventsInHand = 1 << 16
	maxDueInHand    = 8192 // a shard
	// pinTTL is how long a pinned consumer waits for its owner before it takes another.
	pinTTL = 3 * time.Second
	// recordPinTTL is the same for the records: what a killed process leaves is seen in the
	// log within 2 s. By then all that it had in hand is free as well, so that the next
	// process gets it first and in order; see recordAckWait and recordFetch.
	recordPinTTL = 1600 * time.Millisecond
	// recordAckWait is AckWait for the records, reported on every recordProgress.
	recordAckWait  = 1200 * time.Millisecond
	recordProgress = 300 * time.Millisecond
)

// Ensure makes the streams and consumers, or brings them to the present settings.
// Any process may call it at any time; the first one makes them. It is called again
// after each reconnection, as the server may have come back without its files.
func (b *Bus) Ensure(ctx context.Context) error {
	for _, config := range b.streamConfigs() {
		if err := b.ensureSized(ctx, config); err != nil {
			return err
		}
	}
	consumers := []struct {
		stream string
		config jetstream.ConsumerConfig
	}{
		{StreamEvents, jetstream.ConsumerConfig{
			Durable: consumerFanout, AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait,
			MaxDeliver: -1, MaxAckPending: MaxEventsInHand, MaxWaiting: 512,
		}},
		{StreamRecords, pinned(recordPinTTL, jetstream.ConsumerConfig{
			Durable: consumerRecord, AckPolicy: jetstream.AckExplicitPolicy, AckWait: recordAckWait,
			MaxDeliver: -1, MaxAckPending: 4 * fetchSize,
		})},
	}
	for shard := range domain.Shards {
		consumers = append(consumers, struct {
			stream string
			config jetstream.ConsumerConfig
		}{StreamRetries, pinned(pinTTL, jetstream.ConsumerConfig{
			Durable:       consumerDue + strconv.Itoa(shard),
			FilterSubject: subjectDue + strconv.Itoa(shard) + ".>",
			AckPolicy:     jetstream.AckExplicitPolicy, AckWait: AckWait,
			MaxDeliver: -1, MaxAckPending: maxDueInHand,
		})})
	}
	for _, c := range consumers {
		if _, err := b.js.CreateOrUpdateConsumer(ctx, c.stream, c.config); err != nil {
			return unavailable("make consumer "+c.config.Durable, err)
		}
	}
	return nil
}

func pinned(ttl time.Duration, config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.PriorityPolicy = jetstream.PriorityPolicyPinned
	config.PriorityGroups = []string{PinGroup}
	config.PinnedTTL = ttl
	return config
}

func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	// Messages are read from the leader alone. A replica that lags behind would show a
	// message of a lane that is gone, and not yet have the oldest that waits: the relay
	// would take what waits for lost.
	base := jetstream.StreamConfig{Storage: jetstream.FileStorage, Replicas: b.options.Replicas}
	with := func(change func(*jetstream.StreamConfig)) jetstream.StreamConfig {
		config := base
		change(&config)
		return config
	}
	return []jetstream.StreamConfig{
		// No size limit and no age on the first three: discarding old messages would drop
		// schedules and lanes silently. Dispatchers end what outlives the retention.
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamRetries, []string{subjectDue + ">", subjectSchedule + ">"}
			c.Description = "deliveries that wait for their next attempt"
			c.Retention, c.AllowMsgSchedules = jetstream.WorkQueuePolicy, true
		}),
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamHold, []string{subjectHold + ">"}
			c.Description = "hold queues of webhooks that are inactive, failing or too slow"
			c.Retention = jetstream.WorkQueuePolicy
		}),
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamRecords, []string{subjectRecords}
			c.Description = "outcomes on their way to the database"
			c.Retention = jetstream.WorkQueuePolicy
		}),
		// A server reserves what a stream is limited to, so these come last, and EVENTS takes what
		// is left.
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamRejected, []string{subjectRejected + ">"}
			c.Description = "messages that are not valid events, with the reason"
			c.MaxAge, c.MaxBytes, c.Discard = b.options.Retention, 1<<30, jetstream.DiscardOld
			c.MaxMsgsPerSubject = maxRejectedEach
			c.AllowDirect = true // a list that lags behind harms nobody
		}),
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamEvents, []string{subjectEvents + ">"}
			c.Description = "shipment events as published"
			c.MaxAge, c.Duplicates = b.options.Retention, min(b.options.DedupeWindow, b.options.Retention)
			c.MaxMsgSize = 1 << 20
			// Full, it refuses: what waits is not given up for what comes. MakeRoom drops
			// what is done before.
			c.MaxBytes, c.Discard = b.options.MaxBytes, jetstream.DiscardNew
		}),
	}
}

func (b *Bus) ensureStream(ctx context.Context, config jetstream.StreamConfig) error {
	_, err := b.js.CreateOrUpdateStream(ctx, config)
	if err == nil {
		return nil
	}
	// Two processes may start at once: the second sees the stream of the first.
	if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
		if _, err = b.js.UpdateStream(ctx, config); err == nil {
			return nil
		}
	}
	return unavailable("make stream "+config.Name, err)
}

// StreamState is how far a stream is.
type StreamState struct {
	domain.StreamMark
	FirstSeq  uint64
	FirstTime time.Time // of the message FirstSeq; zero: the stream is empty
}

// Lost tells whether the stream has lost what it held when known was marked: it was made
// at another time, it is not as far as it was, or what it holds from before the mark
// was stored after it. The last two are what a power cut leaves behind.
func (s StreamState) Lost(known domain.StreamMark) bool {
	// Server and database may disagree about the time by so much.
	const clocks = 2 * time.Second
	return !known.Created.Equal(s.Created) || s.LastSeq < known.LastSeq ||
		(s.Server != known.Server && s.FirstSeq <= known.LastSeq && s.FirstTime.After(known.SeenAt.Add(clocks)))
}

// Streams returns how far each of Waybill's streams is, or was after the time at which all
// of them are noted as seen: what is stored while they are asked for is not passed over.
func (b *Bus) Streams(ctx context.Context) (map[string]StreamState, error) {
	states := make(map[string]StreamState)
	seen := time.Now().UTC().Truncate(time.Microsecond)
	for _, name := range []string{StreamEvents, StreamRetries, StreamHold, StreamRecords} {
		connected := b.conn.ConnectedServerId()
		info, err := b.info(ctx, name)
		if err != nil {
			return nil, err
		}
		states[name] = StreamState{
			StreamMark: domain.StreamMark{
				Created: info.Created.UTC().Truncate(time.Microsecond), LastSeq: info.State.LastSeq,
				Server: keeper(info, connected), SeenAt: seen,
			},
			FirstSeq: info.State.FirstSeq, FirstTime: info.State.FirstTime,
		}
	}
	return states, nil
}

// keeper names what a stream's last messages may be lost with when it is started again: the
// server that is connected, by an id that is another one after each start. A stream with
// copies on several servers of a cluster loses nothing with any one of them, nor does it
// matter which of them was asked, so the cluster's name stands for all.
func keeper(info *jetstream.StreamInfo, connected string) string {
	if info.Config.Replicas > 1 && info.Cluster != nil && info.Cluster.Name != "" {
		return "cluster " + info.Cluster.Name
	}
	return connected
}

func (b *Bus) info(ctx context.Context, name string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	stream, err := b.js.Stream(ctx, name)
	if err != nil {
		return nil, unavailable("look up stream "+name, err)
	}
	info, err := stream.Info(ctx, opts...)
	if err == nil {
		err = b.led(info.Cluster)
	}
	if err != nil {
		return nil, unavailable("ask for stream "+name, err)
	}
	return info, nil
}

var errNoLeader = errors.New("it has no leader")

// led returns an error unless the leader of a stream or consumer has told about it. While
// there is none any server answers, with as much of the stream as it has; and one that
// starts knows consumers before their state, and says that nothing waits.
func (b *Bus) led(by *jetstream.ClusterInfo) error {
	if b.options.Replicas > 1 && (by == nil || by.Leader == "") {
		return errNoLeader
	}
	return nil
}

// consumerInfo asks how far a consumer is.
func (b *Bus) consumerInfo(ctx context.Context, stream, name string) (*jetstream.ConsumerInfo, error) {
	consumer, err := b.js.Consumer(ctx, stream, name)
	if err != nil {
		return nil, unavailable("look up consumer "+name, err)
	}
	info := consumer.CachedInfo() // of a moment ago
	if err := b.led(info.Cluster); err != nil {
		return nil, unavailable("ask for consumer "+name, err)
	}
	return info, nil
}

// Backlog is what the bus still has to do.
type Backlog struct {
	Events, Records uint64    // messages that wait, in hand included
	OldestEvent     time.Time // publication of the oldest unacknowledged event; zero: none waits
	OldestRecord    time.Time // of the oldest unwritten records; zero: none waits
	Scheduled, Held uint64
	EventsInHand    int
}

// Backlog asks the server how far the consumers are.
func (b *Bus) Backlog(ctx context.Context) (Backlog, error) {
	var l Backlog
	var err error
	var unacked int
	if l.Events, unacked, l.OldestEvent, err = b.behind(ctx, StreamEvents, consumerFanout); err != nil {
		return l, err
	}
	l.EventsInHand = unacked
	if l.Records, _, l.OldestRecord, err = b.behind(ctx, StreamRecords, consumerRecord); err != nil {
		return l, err
	}
	hold, err := b.info(ctx, StreamHold)
	if err != nil {
		return l, err
	}
	l.Held = hold.State.Msgs
	retries, err := b.info(ctx, StreamRetries)
	if err != nil {
		return l, err
	}
	l.Scheduled = retries.State.Msgs
	return l, nil
}

// behind tells what a consumer has not acknowledged, and how old the oldest of it is.
func (b *Bus) behind(ctx context.Context, stream, name string) (waiting uint64, unacked int, oldest time.Time, err error) {
	handle, err := b.js.Stream(ctx, stream)
	if err != nil {
		return 0, 0, time.Time{}, unavailable("look up stream "+stream, err)
	}
	info, err := b.consumerInfo(ctx, stream, name)
	if err != nil {
		return 0, 0, time.Time{}, err
	}
	waiting, unacked = info.NumPending+uint64(info.NumAckPending), info.NumAckPending
	if waiting == 0 {
		return 0, 0, time.Time{}, nil
	}
	subject := subjectEvents + ">"
	if stream == StreamRecords {
		subject = subjectRecords
	}
	msg, err := handle.GetMsg(ctx, info.AckFloor.Stream+1, jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return waiting, unacked, time.Time{}, nil
	}
	if err != nil {
		return 0, 0, time.Time{}, unavailable(fmt.Sprintf("read the oldest message of %s", stream), err)
	}
	return waiting, unacked, msg.Time, nil
}

// EventsWait tells whether events wait that were handed out to nobody, and whether they are
// not because as many as may be are unacknowledged.
func (b *Bus) EventsWait(ctx context.Context) (some, full bool, err error) {
	info, err := b.consumerInfo(ctx, StreamEvents, consumerFanout)
	if err != nil {
		return false, false, err
	}
	return info.NumPending > 0, info.NumAckPending >= MaxEventsInHand, nil
}

// restartMargin is how many events the server may have handed out beyond what it
// remembers after a crash: it writes a consumer's state some ten times a second.
const restartMargin = 20_000

// MaybeHandedOut returns the sequence up to which events of EVENTS may have been handed
// out before, whatever the server says of them: asked at the start and after each
// reconnection, as the server may have crashed meanwhile.
func (b *Bus) MaybeHandedOut(ctx context.Context) (uint64, error) {
	info, err := b.consumerInfo(ctx, StreamEvents, consumerFanout)
	if err != nil {
		return 0, err
	}
	delivered := info.Delivered.Stream
	if delivered == 0 {
		return 0, nil
	}
	return delivered + restartMargin, nil
}
