package bus

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// Consumer settings that other packages rely on.
const (
	// AckWait is the time after which an event or due delivery goes to another dispatcher if its
	// dispatcher neither acknowledged it nor reported it as in progress. Dispatchers report every
	// ProgressInterval, so deliveries that a killed dispatcher had in flight go out again within 15 s.
	AckWait          = 10 * time.Second
	ProgressInterval = 3 * time.Second
	// MaxEventsInFlight bounds the unacknowledged events over all dispatchers.
	MaxEventsInFlight = 1 << 16
	maxDueInFlight    = 8192 // for each shard
	// maxConsumers is how many consumers EVENTS and ORDER may have. For each account with an order, EVENTS has
	// one, and two while the owner changes; ORDER has one while the owner changes. The server's own limit is 1000.
	maxConsumers = 1 << 17
	// pinTTL is how long a pinned consumer waits for its owner before it takes another.
	pinTTL = 3 * time.Second
	// recordPinTTL is the same for the records: the log shows within 2 s what a killed process had
	// in flight. By then all these messages may be handed out again, so that the next process gets
	// them first and in order; see recordAckWait.
	recordPinTTL = 1600 * time.Millisecond
	// recordAckWait is AckWait for the records. Processes report progress on them every
	// RecordsProgressInterval.
	recordAckWait           = 1200 * time.Millisecond
	RecordsProgressInterval = 300 * time.Millisecond
	// MaxRecordsInFlight bounds the batches of records that are handed out and not acknowledged.
	MaxRecordsInFlight = 4 * MaxFetch
)

// Ensure makes the streams and consumers, or updates them to the present settings. Any process may
// call it at any time; the first one makes them. It is called again after each reconnection,
// because the server may have come back without its files.
func (b *Bus) Ensure(ctx context.Context) error {
	if err := b.ensureStreams(ctx); err != nil {
		return err
	}
	consumers := []struct {
		stream string
		config jetstream.ConsumerConfig
	}{
		{StreamEvents, jetstream.ConsumerConfig{
			Durable: ConsumerFanout, AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait,
			MaxDeliver: -1, MaxAckPending: MaxEventsInFlight, MaxWaiting: 512,
		}},
		{StreamRecords, withPin(recordPinTTL, jetstream.ConsumerConfig{
			Durable: ConsumerRecord, AckPolicy: jetstream.AckExplicitPolicy, AckWait: recordAckWait,
			MaxDeliver: -1, MaxAckPending: MaxRecordsInFlight,
		})},
	}
	for shard := range domain.Shards {
		consumers = append(consumers, struct {
			stream string
			config jetstream.ConsumerConfig
		}{StreamRetries, withPin(pinTTL, jetstream.ConsumerConfig{
			Durable:       DueConsumer(shard),
			FilterSubject: dueSubjects(shard),
			AckPolicy:     jetstream.AckExplicitPolicy, AckWait: AckWait,
			MaxDeliver: -1, MaxAckPending: maxDueInFlight,
		})})
	}
	for _, c := range consumers {
		if _, err := b.js.CreateOrUpdateConsumer(ctx, c.stream, c.config); err != nil {
			return unavailable("make consumer "+c.config.Durable, err)
		}
	}
	return nil
}

func (b *Bus) ensureStreams(ctx context.Context) error {
	for _, config := range b.streamConfigs() {
		err := b.ensureSized(ctx, config)
		var small *NoRoomError
		if errors.As(err, &small) && config.Name == StreamEvents {
			if err = b.giveWay(ctx); err == nil {
				err = b.ensureSized(ctx, config)
			}
		}
		if err != nil {
			if errors.As(err, &small) {
				b.missing.Store(small)
			}
			return err
		}
	}
	b.missing.Store(nil)
	return nil
}

func withPin(ttl time.Duration, config jetstream.ConsumerConfig) jetstream.ConsumerConfig {
	config.PriorityPolicy = jetstream.PriorityPolicyPinned
	config.PriorityGroups = []string{PinGroup}
	config.PinnedTTL = ttl
	return config
}

func (b *Bus) streamConfigs() []jetstream.StreamConfig {
	// Messages are read from the leader alone. A replica that lags behind could show a message of a
	// hold queue that is gone, and not yet have the oldest waiting message: the relay would take
	// that message for lost.
	base := jetstream.StreamConfig{Storage: jetstream.FileStorage, Replicas: b.options.Replicas}
	with := func(change func(*jetstream.StreamConfig)) jetstream.StreamConfig {
		config := base
		change(&config)
		return config
	}
	return []jetstream.StreamConfig{
		// The first three streams have no limit of size or age: discarding old messages would silently
		// drop schedules and hold queues. Dispatchers end deliveries that are older than the retention.
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
			c.Name, c.Subjects = StreamOrder, []string{subjectOrder + ">"}
			c.Description = "deliveries that wait for their turn among those of their shipment"
			c.MaxMsgsPerSubject, c.Discard = 1, jetstream.DiscardOld
			c.MaxConsumers = maxConsumers
		}),
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamRecords, []string{SubjectRecords}
			c.Description = "outcomes on their way to the database"
			c.Retention = jetstream.WorkQueuePolicy
		}),
		// A server reserves storage for the limit of a stream, so the streams with a limit come last. EVENTS
		// comes before REJECTED, because nothing is delivered without EVENTS.
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamEvents, []string{SubjectsEvents}
			c.Description = "shipment events as published"
			c.MaxAge, c.Duplicates = b.options.Retention, min(b.options.DedupeWindow, b.options.Retention)
			c.MaxMsgSize = 1 << 20
			// When full, the stream refuses new events, so that waiting events are not lost. Before
			// that, MakeRoom drops events that are done.
			c.MaxBytes, c.Discard = b.options.MaxBytes, jetstream.DiscardNew
			c.MaxConsumers = maxConsumers
		}),
		with(func(c *jetstream.StreamConfig) {
			c.Name, c.Subjects = StreamRejected, []string{subjectRejected + ">"}
			c.Description = "messages that are not valid events, with the reason"
			c.MaxAge, c.MaxBytes, c.Discard = b.options.Retention, 1<<30, jetstream.DiscardOld
			c.MaxMsgsPerSubject = maxRejectedEach
			c.AllowDirect = true // a list that lags behind does no harm
		}),
	}
}

func (b *Bus) ensureStream(ctx context.Context, config jetstream.StreamConfig) error {
	err := b.matchStream(ctx, config)
	if errors.Is(err, jetstream.ErrStreamNotFound) {
		_, err = b.js.CreateStream(ctx, config)
		// Two processes may start at once: the second sees the stream of the first.
		if errors.Is(err, jetstream.ErrStreamNameAlreadyInUse) {
			err = b.matchStream(ctx, config)
		}
	}
	if err != nil {
		return unavailable("make stream "+config.Name, err)
	}
	return nil
}

// matchStream updates an existing stream to the settings. A stream that already has them is left alone,
// because the server does not keep an update apart from a consumer that is made at the same time.
func (b *Bus) matchStream(ctx context.Context, config jetstream.StreamConfig) error {
	stream, err := b.js.Stream(ctx, config.Name)
	if err != nil || hasSettings(stream.CachedInfo().Config, config) {
		return err
	}
	_, err = b.js.UpdateStream(ctx, config)
	return err
}

// hasSettings reports whether a stream has the wanted settings. Settings that are not given are the server's.
func hasSettings(have, want jetstream.StreamConfig) bool {
	limit := func(have, want int64) bool { return have == want || have == -1 && want == 0 }
	return slices.Equal(have.Subjects, want.Subjects) && have.Description == want.Description &&
		have.Retention == want.Retention && have.Discard == want.Discard && have.Storage == want.Storage &&
		have.AllowMsgSchedules == want.AllowMsgSchedules && have.AllowDirect == want.AllowDirect && have.MaxAge == want.MaxAge &&
		limit(have.MaxBytes, want.MaxBytes) && limit(have.MaxMsgsPerSubject, want.MaxMsgsPerSubject) &&
		limit(int64(have.MaxMsgSize), int64(want.MaxMsgSize)) && limit(int64(have.MaxConsumers), int64(want.MaxConsumers)) &&
		(want.Duplicates == 0 || have.Duplicates == want.Duplicates) && have.Replicas == max(want.Replicas, 1)
}

// serverOf names the server that may lose a stream's last messages when it is started again: the id
// of the connected server, which changes with each start. A stream with copies on several servers
// of a cluster loses nothing with any one of them, and it does not matter which of them was asked,
// so the cluster's name stands for all.
func serverOf(info *jetstream.StreamInfo, connected string) string {
	if info.Config.Replicas > 1 && info.Cluster != nil && info.Cluster.Name != "" {
		return "cluster " + info.Cluster.Name
	}
	return connected
}

func (b *Bus) info(ctx context.Context, name string, opts ...jetstream.StreamInfoOpt) (*jetstream.StreamInfo, error) {
	stream, err := b.Stream(name).handle(ctx)
	if err != nil {
		return nil, err
	}
	info, err := stream.Info(ctx, opts...)
	if err == nil {
		err = b.checkLeader(info.Cluster)
	}
	if err != nil {
		return nil, unavailable("ask for stream "+name, err)
	}
	return info, nil
}

var errNoLeader = errors.New("it has no leader")

// checkLeader returns an error unless the answer about a stream or consumer came from its leader. While
// there is no leader any server answers, with as much of the stream as it has; and a server that is
// starting knows consumers before their state, and says that nothing waits.
func (b *Bus) checkLeader(by *jetstream.ClusterInfo) error {
	if b.options.Replicas > 1 && (by == nil || by.Leader == "") {
		return errNoLeader
	}
	return nil
}

// consumerInfo asks for the progress of a consumer.
func (b *Bus) consumerInfo(ctx context.Context, stream, name string) (*jetstream.ConsumerInfo, error) {
	consumer, err := b.js.Consumer(ctx, stream, name)
	if err != nil {
		return nil, unavailable("look up consumer "+name, err)
	}
	info := consumer.CachedInfo() // of a moment ago
	if err := b.checkLeader(info.Cluster); err != nil {
		return nil, unavailable("ask for consumer "+name, err)
	}
	return info, nil
}
