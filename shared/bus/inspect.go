package bus

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"waybill.dev/shared/domain"
)

// LastError returns why the server could not be reached, or what it refused last; nil: there was no error.
func (b *Bus) LastError() error { return b.conn.LastError() }

// ServerInfo describes the connected server.
type ServerInfo struct {
	Version string
	Cluster string // its name; empty: there is none
	TLS     bool
	Known   []string // the known servers, as host:port
	Trip    time.Duration
}

// ServerInfo asks whether the server is alive, and returns what is known of it.
func (b *Bus) ServerInfo(ctx context.Context) (ServerInfo, error) {
	began := time.Now()
	if err := b.Sync(ctx); err != nil {
		return ServerInfo{}, err
	}
	return ServerInfo{
		Version: b.conn.ConnectedServerVersion(), Cluster: b.conn.ConnectedClusterName(),
		TLS: b.conn.TLSRequired(), Known: b.Addresses(), Trip: time.Since(began),
	}, nil
}

// StreamLook is the state of a stream, compared with its settings.
type StreamLook struct {
	Name    string
	Missing bool
	Differs []string // settings that differ from the ones that these options ask for
	Messages,
	Bytes uint64
	MaxBytes int64 // 0: no limit
	// LeastBytes is the room that a missing stream needs; 0: the stream needs none in advance.
	LeastBytes int64
	Oldest     time.Time
	Replicas   int
	Behind     []string // replicas that are offline or not up to date
	NoLeader   bool
}

// InspectStreams looks at Waybill's streams and changes nothing, unlike Ensure.
func (b *Bus) InspectStreams(ctx context.Context) ([]StreamLook, error) {
	var looks []StreamLook
	for _, want := range b.streamConfigs() {
		stream, err := b.js.Stream(ctx, want.Name)
		if errors.Is(err, jetstream.ErrStreamNotFound) {
			looks = append(looks, StreamLook{Name: want.Name, Missing: true, LeastBytes: leastOf(want)})
			continue
		}
		if err != nil {
			return looks, unavailable("look up stream "+want.Name, err)
		}
		looks = append(looks, lookAt(stream.CachedInfo(), want))
	}
	return looks, nil
}

func lookAt(info *jetstream.StreamInfo, want jetstream.StreamConfig) StreamLook {
	look := StreamLook{
		Name: want.Name, Differs: differences(info.Config, want), Messages: info.State.Msgs, Bytes: info.State.Bytes,
		MaxBytes: max(info.Config.MaxBytes, 0), Oldest: info.State.FirstTime, Replicas: info.Config.Replicas,
	}
	if info.Cluster == nil || info.Config.Replicas < 2 {
		return look
	}
	look.NoLeader = info.Cluster.Leader == ""
	for _, replica := range info.Cluster.Replicas {
		if replica.Offline || !replica.Current {
			look.Behind = append(look.Behind, replica.Name)
		}
	}
	return look
}

// differences names the settings in which a stream differs from the wanted ones. A smaller EVENTS
// is no difference, because the server's disk may have no more room.
func differences(have, want jetstream.StreamConfig) []string {
	var list []string
	note := func(name string, have, want any) {
		if have != want {
			list = append(list, fmt.Sprintf("%s is %v, not %v", name, have, want))
		}
	}
	if !slices.Equal(have.Subjects, want.Subjects) {
		note("subjects", strings.Join(have.Subjects, " "), strings.Join(want.Subjects, " "))
	}
	note("retention", have.Retention, want.Retention)
	note("storage", have.Storage, want.Storage)
	note("discard", have.Discard, want.Discard)
	note("max age", have.MaxAge, want.MaxAge)
	note("replicas", have.Replicas, max(want.Replicas, 1))
	if want.Duplicates > 0 {
		note("duplicate window", have.Duplicates, want.Duplicates)
	}
	if want.MaxBytes > 0 && have.MaxBytes > want.MaxBytes {
		note("max bytes", have.MaxBytes, want.MaxBytes)
	}
	if len(list) == 0 && !hasSettings(have, want) && max(have.MaxBytes, 0) >= want.MaxBytes {
		list = append(list, "its settings are of another version of Waybill")
	}
	return list
}

// ConsumerLook is the state of one of the permanent consumers.
type ConsumerLook struct {
	Stream, Name string
	Missing      bool
	Pending      uint64 // messages that were not handed out yet
	Unacked      int    // handed out and not acknowledged
	MaxUnacked   int
	// Oldest is when the first unacknowledged message was stored; zero: there is none.
	Oldest time.Time
}

// InspectConsumers looks at the consumers of EVENTS and RECORDS, and at the consumers of due
// deliveries, which it returns as one.
func (b *Bus) InspectConsumers(ctx context.Context) ([]ConsumerLook, error) {
	var looks []ConsumerLook
	for _, c := range []struct{ stream, name, subject string }{
		{StreamEvents, ConsumerFanout, SubjectsEvents}, {StreamRecords, ConsumerRecord, SubjectRecords},
	} {
		look, err := b.lookAtConsumer(ctx, c.stream, c.name, c.subject)
		if err != nil {
			return looks, err
		}
		looks = append(looks, look)
	}
	due := ConsumerLook{Stream: StreamRetries, Name: consumerDue + "*"}
	for shard := range domain.Shards {
		look, err := b.lookAtConsumer(ctx, StreamRetries, DueConsumer(shard), dueSubjects(shard))
		if err != nil {
			return looks, err
		}
		due.add(look)
	}
	return append(looks, due), nil
}

func (l *ConsumerLook) add(other ConsumerLook) {
	l.Missing = l.Missing || other.Missing
	l.Pending, l.Unacked, l.MaxUnacked = l.Pending+other.Pending, l.Unacked+other.Unacked, l.MaxUnacked+other.MaxUnacked
	if l.Oldest.IsZero() || !other.Oldest.IsZero() && other.Oldest.Before(l.Oldest) {
		l.Oldest = other.Oldest
	}
}

func (b *Bus) lookAtConsumer(ctx context.Context, stream, name, subject string) (ConsumerLook, error) {
	look := ConsumerLook{Stream: stream, Name: name}
	consumer, err := b.js.Consumer(ctx, stream, name)
	if errors.Is(err, jetstream.ErrConsumerNotFound) || errors.Is(err, jetstream.ErrStreamNotFound) {
		look.Missing = true
		return look, nil
	}
	if err != nil {
		return look, unavailable("look up consumer "+name, err)
	}
	info := consumer.CachedInfo()
	look.Pending, look.Unacked, look.MaxUnacked = info.NumPending, info.NumAckPending, info.Config.MaxAckPending
	if look.Pending == 0 && look.Unacked == 0 {
		return look, nil
	}
	first, err := b.Stream(stream).Read(ctx, subject, info.AckFloor.Stream+1)
	if err != nil || first == nil {
		return look, err
	}
	look.Oldest = first.Time
	return look, nil
}

// Rights are the rights of a connection's user, as far as the server tells.
type Rights struct {
	User, Account string
	// Told: the server has told the rights. Everything: it has told that they have no limits.
	Told, Everything bool
	// Missing are the subjects that a process of this name must listen to but may not. Unpublished are
	// the subjects of streams that it must publish to but may not.
	Missing, Unpublished []string
}

// neededSubjects returns the subjects that a process listens to; name is the name of the process on the bus.
func neededSubjects(name string) []string {
	switch name {
	case "gateway":
		return []string{SubjectGateway, SubjectKeys, "_INBOX_gateway.>"}
	case "dispatcher":
		return []string{SubjectConfig, SubjectHealth, SubjectDispatchers, SubjectHold, "_INBOX_dispatcher.>"}
	}
	return []string{SubjectConfig, SubjectRelay, SubjectKeys, subjectPublish + ">", "_INBOX_" + name + ".>"}
}

// publishedSubjects returns one subject of each stream that a process publishes to; name is the name of the process
// on the bus.
func publishedSubjects(name string) []string {
	of := func(prefixes ...string) (subjects []string) {
		for _, prefix := range prefixes {
			subjects = append(subjects, prefix+"rights")
		}
		return subjects
	}
	switch name {
	case "gateway":
		return nil
	case "dispatcher":
		return append(of(subjectRejected, subjectDue, subjectSchedule, subjectHold, subjectOrder), SubjectRecords)
	}
	return of(subjectEvents, subjectRejected, subjectDue, subjectSchedule, subjectHold, subjectOrder)
}

// noStream is a name that no stream has. A message may name the stream that it is for, and all other streams
// refuse it. So a message for noStream is stored nowhere, but shows whether the user may publish to its subject.
const noStream = "waybill-rights"

// Rights finds out, on a connection of its own, which subjects the user of this connection may listen to
// and which streams it may publish to. Nothing is stored, and no process receives anything. Rights does not
// try subjects of other processes, because messages there would reach these processes.
func (b *Bus) Rights(ctx context.Context) (Rights, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	var mu sync.Mutex
	var refused []string
	var unpublished strings.Builder // the server's errors about refused publications
	closed := make(chan struct{})
	conn, err := b.dial(nats.MaxReconnects(0), nats.RetryOnFailedConnect(false), nats.ErrorHandler(func(_ *nats.Conn, sub *nats.Subscription, err error) {
		if !errors.Is(err, nats.ErrPermissionViolation) {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		if sub != nil {
			refused = append(refused, sub.Subject)
		} else {
			unpublished.WriteString(err.Error() + "\n")
		}
	}), nats.ClosedHandler(func(*nats.Conn) { close(closed) }))
	if err != nil {
		return Rights{}, unavailable("connect to the bus", err)
	}
	defer conn.Close()
	for _, subject := range neededSubjects(b.options.Name) {
		if _, err := conn.SubscribeSync(subject); err != nil {
			return Rights{}, unavailable("listen on the bus", err)
		}
	}
	for _, subject := range publishedSubjects(b.options.Name) {
		msg := nats.NewMsg(subject)
		msg.Header.Set(jetstream.ExpectedStreamHeader, noStream)
		if err := conn.PublishMsg(msg); err != nil {
			return Rights{}, unavailable("publish on the bus", err)
		}
	}
	// The server answers in order: when this answer comes, it has sent all its refusals.
	if err := conn.FlushWithContext(ctx); err != nil {
		return Rights{}, unavailable("reach the bus", err)
	}
	rights := whoami(ctx, conn)
	conn.Close()
	select { // the client calls its handlers in order, so it has called all others before this one
	case <-closed:
	case <-ctx.Done():
		return Rights{}, unavailable("close the connection", ctx.Err())
	}
	mu.Lock()
	defer mu.Unlock()
	for _, subject := range neededSubjects(b.options.Name) {
		if slices.Contains(refused, subject) {
			rights.Missing = append(rights.Missing, subject)
		}
	}
	for _, subject := range publishedSubjects(b.options.Name) {
		if strings.Contains(unpublished.String(), `Publish to "`+subject+`"`) {
			rights.Unpublished = append(rights.Unpublished, strings.TrimSuffix(subject, "rights"))
		}
	}
	return rights, nil
}

// whoamiTimeout is how long to wait for the answer of a server that may not be allowed to answer.
const whoamiTimeout = 500 * time.Millisecond

// whoami asks the server for the user of the connection. A user with few rights may not even ask that.
func whoami(ctx context.Context, conn *nats.Conn) Rights {
	ctx, cancel := context.WithTimeout(ctx, whoamiTimeout)
	defer cancel()
	msg, err := conn.RequestWithContext(ctx, "$SYS.REQ.USER.INFO", nil)
	if err != nil {
		return Rights{}
	}
	var answer struct {
		Data struct {
			User        string          `json:"user"`
			Account     string          `json:"account"`
			Permissions json.RawMessage `json:"permissions"`
		} `json:"data"`
	}
	if json.Unmarshal(msg.Data, &answer) != nil {
		return Rights{}
	}
	return Rights{User: answer.Data.User, Account: answer.Data.Account, Told: true, Everything: len(answer.Data.Permissions) == 0}
}

// Hear listens on a subject and calls take with each message, until ctx ends or take returns true.
func (b *Bus) Hear(ctx context.Context, subject string, take func(body []byte) (enough bool)) error {
	done := make(chan struct{})
	end := sync.OnceFunc(func() { close(done) })
	stop, err := b.Listen(subject, func(body []byte) {
		if take(body) {
			end()
		}
	})
	if err != nil {
		return err
	}
	defer stop()
	select {
	case <-ctx.Done():
	case <-done:
	}
	return nil
}
