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

// Stream is the handle of one of Waybill's streams, by its name. Making it does not look the stream
// up: each method asks the server, and fails with domain.ErrUnavailable while the server can't answer.
type Stream struct {
	bus  *Bus
	name string
}

// Stream returns the stream with a name.
func (b *Bus) Stream(name string) *Stream { return &Stream{b, name} }

// Entry is a message as its stream keeps it.
type Entry struct {
	Sequence uint64
	Time     time.Time // when the stream stored it
	Subject  string
	Header   map[string][]string
	Body     []byte
}

// Read returns the first message of a subject from a sequence on; nil: there is none. It asks the
// stream's leader, because a replica may not have the latest messages.
func (s *Stream) Read(ctx context.Context, subject string, from uint64) (*Entry, error) {
	handle, err := s.handle(ctx)
	if err != nil {
		return nil, err
	}
	msg, err := handle.GetMsg(ctx, max(from, 1), jetstream.WithGetMsgSubject(subject))
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read a message of "+s.name, err)
	}
	return &Entry{Sequence: msg.Sequence, Time: msg.Time, Subject: msg.Subject, Header: msg.Header, Body: msg.Data}, nil
}

// Last returns the last message of a subject below a sequence (0: of all messages); nil: there is
// none. Any replica of a stream that allows direct reads may answer.
func (s *Stream) Last(ctx context.Context, subject string, below uint64) (*Entry, error) {
	doing := "read the last message of " + s.name
	request, err := json.Marshal(struct {
		Last []string `json:"multi_last"`
		UpTo uint64   `json:"up_to_seq,omitempty"`
	}{[]string{subject}, max(below, 1) - 1})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", doing, err)
	}
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	msg, err := s.bus.conn.RequestWithContext(ctx, "$JS.API.DIRECT.GET."+s.name, request)
	if err != nil {
		return nil, unavailable(doing, err)
	}
	if status := msg.Header.Get("Status"); status == "404" || status == "204" {
		return nil, nil
	} else if status != "" {
		return nil, unavailable(doing, fmt.Errorf("the server answered %s %s", status, msg.Header.Get("Description")))
	}
	return directEntry(msg)
}

// directEntry reads a server's answer to a direct read.
func directEntry(msg *nats.Msg) (*Entry, error) {
	sequence, err := strconv.ParseUint(msg.Header.Get(jetstream.SequenceHeader), 10, 64)
	if err != nil {
		return nil, fmt.Errorf("read a message's sequence: %w", err)
	}
	at, err := time.Parse(time.RFC3339Nano, msg.Header.Get(jetstream.TimeStampHeaer))
	if err != nil {
		return nil, fmt.Errorf("read a message's time: %w", err)
	}
	return &Entry{
		Sequence: sequence, Time: at.UTC(), Subject: msg.Header.Get(jetstream.SubjectHeader), Header: msg.Header, Body: msg.Data,
	}, nil
}

// Newest returns the last message of a subject as the stream's leader has it; nil: there is none.
func (s *Stream) Newest(ctx context.Context, subject string) (*Entry, error) {
	handle, err := s.handle(ctx)
	if err != nil {
		return nil, err
	}
	msg, err := handle.GetLastMsgForSubject(ctx, subject)
	if errors.Is(err, jetstream.ErrMsgNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, unavailable("read the newest message of "+s.name, err)
	}
	return &Entry{Sequence: msg.Sequence, Time: msg.Time, Subject: msg.Subject, Header: msg.Header, Body: msg.Data}, nil
}

// Clear removes the messages of a subject up to a sequence. Messages that were stored later stay.
func (s *Stream) Clear(ctx context.Context, subject string, last uint64) error {
	handle, err := s.handle(ctx)
	if err == nil {
		err = handle.Purge(ctx, jetstream.WithPurgeSubject(subject), jetstream.WithPurgeSequence(last+1))
	}
	if err != nil {
		return unavailable("remove messages of "+s.name, err)
	}
	return nil
}

// Delete removes a message. It is no error if the message is gone already.
func (s *Stream) Delete(ctx context.Context, sequence uint64) error {
	handle, err := s.handle(ctx)
	if err != nil {
		return err
	}
	err = handle.DeleteMsg(ctx, sequence)
	// The client keeps only the text of the server's answer.
	if errors.Is(err, jetstream.ErrMsgDeleteUnsuccessful) && strings.Contains(err.Error(), "no message found") {
		return nil
	}
	if err != nil {
		return unavailable("delete a message of "+s.name, err)
	}
	return nil
}

// Subjects returns how many messages there are on each subject that the pattern matches.
func (s *Stream) Subjects(ctx context.Context, pattern string) (map[string]uint64, error) {
	info, err := s.bus.info(ctx, s.name, jetstream.WithSubjectFilter(pattern))
	if err != nil {
		return nil, err
	}
	return info.State.Subjects, nil
}

// Consumer looks a consumer up. If the server has lost the consumer, all
// streams and consumers are made again.
func (s *Stream) Consumer(ctx context.Context, name string) (*Consumer, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	consumer, err := s.bus.js.Consumer(ctx, s.name, name)
	if errors.Is(err, jetstream.ErrStreamNotFound) || errors.Is(err, jetstream.ErrConsumerNotFound) {
		if err = s.bus.Ensure(ctx); err == nil {
			consumer, err = s.bus.js.Consumer(ctx, s.name, name)
		}
	}
	if err != nil {
		return nil, unavailable("look up consumer "+name, err)
	}
	return &Consumer{bus: s.bus, stream: s.name, name: name, consumer: consumer}, nil
}

// CreateConsumer makes a consumer of one subject that hands out at most maxUnacknowledged messages
// at once. The server removes the consumer when it got no request for the time unused.
func (s *Stream) CreateConsumer(ctx context.Context, name, subject string, maxUnacknowledged int, unused time.Duration) (*Consumer, error) {
	consumer, err := s.bus.js.CreateOrUpdateConsumer(ctx, s.name, jetstream.ConsumerConfig{
		Durable: name, FilterSubject: subject, AckPolicy: jetstream.AckExplicitPolicy,
		AckWait: AckWait, MaxDeliver: -1, MaxAckPending: maxUnacknowledged, InactiveThreshold: unused,
	})
	if err != nil {
		return nil, unavailable("make consumer "+name, err)
	}
	return &Consumer{bus: s.bus, stream: s.name, name: name, consumer: consumer}, nil
}

// DeleteConsumer removes a consumer. It is no error if the consumer is gone already.
func (s *Stream) DeleteConsumer(ctx context.Context, name string) error {
	err := s.bus.js.DeleteConsumer(ctx, s.name, name)
	if err != nil && !errors.Is(err, jetstream.ErrConsumerNotFound) && !errors.Is(err, jetstream.ErrStreamNotFound) {
		return unavailable("remove consumer "+name, err)
	}
	return nil
}

// StreamState is the state of a stream.
type StreamState struct {
	Created           time.Time
	FirstSeq, LastSeq uint64
	FirstTime         time.Time // of the message FirstSeq; zero: the stream is empty
	Messages, Bytes   uint64
	Consumers         int
	// Server names the server that may lose the last messages when it is started again: the id of
	// the connected server, which changes with each start; for a stream that a cluster keeps, the
	// name of the cluster.
	Server string
}

// State asks for the state of the stream.
func (s *Stream) State(ctx context.Context) (StreamState, error) {
	connected := s.bus.conn.ConnectedServerId()
	info, err := s.bus.info(ctx, s.name)
	if err != nil {
		return StreamState{}, err
	}
	return StreamState{
		Created: info.Created.UTC().Truncate(time.Microsecond), FirstSeq: info.State.FirstSeq, LastSeq: info.State.LastSeq,
		FirstTime: info.State.FirstTime, Messages: info.State.Msgs, Bytes: info.State.Bytes,
		Consumers: info.State.Consumers, Server: serverOf(info, connected),
	}, nil
}

// ConsumerState is the progress of a consumer.
type ConsumerState struct {
	Delivered      uint64 // sequence of the message that was handed out last
	Acknowledged   uint64 // sequence up to which every message is acknowledged
	Pending        uint64 // messages that were not handed out yet
	Unacknowledged int    // messages that were handed out and are not acknowledged
}

// ConsumerState asks for the progress of a consumer.
func (s *Stream) ConsumerState(ctx context.Context, name string) (ConsumerState, error) {
	info, err := s.bus.consumerInfo(ctx, s.name, name)
	if err != nil {
		return ConsumerState{}, err
	}
	return ConsumerState{
		Delivered: info.Delivered.Stream, Acknowledged: info.AckFloor.Stream,
		Pending: info.NumPending, Unacknowledged: info.NumAckPending,
	}, nil
}

// handle returns the client's handle of the stream. Looking it up costs a request, so it is kept:
// it is valid for as long as the name is.
func (s *Stream) handle(ctx context.Context) (jetstream.Stream, error) {
	b := s.bus
	b.mu.Lock()
	handle := b.handles[s.name]
	b.mu.Unlock()
	if handle != nil {
		return handle, nil
	}
	handle, err := b.js.Stream(ctx, s.name)
	if err != nil {
		return nil, unavailable("look up stream "+s.name, err)
	}
	b.mu.Lock()
	b.handles[s.name] = handle
	b.mu.Unlock()
	return handle, nil
}
