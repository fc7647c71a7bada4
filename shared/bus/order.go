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

	"waybill.dev/shared/domain"
)

// headerOrder has the position of an ordered delivery in its queue, in addition to its task:
// version, sequence, shipment, when its next attempt is due (Unix ms, 0: at once) and whether it is
// marked as a gap.
const headerOrder = "Waybill-Order"

const orderVersion = "1"

// OrderPosition is the position of a delivery among those of its webhook and shipment.
type OrderPosition struct {
	Sequence    int64     // 1 for the first delivery of the webhook and the shipment
	ShipmentKey int64     // see domain.ShipmentKey
	Due         time.Time // when the next attempt is due; zero: in the delivery's turn
	AfterGap    bool      // the delivery before it did not arrive
}

// ErrOrdered is returned for a message of ORDER that has no position in a queue.
var ErrOrdered = errors.New("not an ordered delivery")

// KeepOrdered stores a delivery that waits for its turn, and calls done exactly once. There is one
// message for a delivery: a later one replaces an earlier one. The owner of the account's order has
// the delivery in memory, too.
func (b *Bus) KeepOrdered(task *domain.Task, position OrderPosition, done func(error)) {
	b.publishTask(b.orders, orderedMessage(task, position), done)
}

// RestoreOrdered stores a delivery that the bus may have lost, and calls done exactly once. A stored message of
// the delivery stays unless it has an earlier state, because the delivery's owner goes on working and may have
// stored a later one. After restoring deliveries, the caller announces the account with AnnounceRestored, so that
// the owner reads its deliveries again.
func (b *Bus) RestoreOrdered(task *domain.Task, position OrderPosition, done func(error)) {
	b.restoreOver(0, task, position, done)
}

// restoreOver stores a delivery in place of the message with the sequence last; 0: if there is no message yet.
func (b *Bus) restoreOver(last uint64, task *domain.Task, position OrderPosition, done func(error)) {
	msg := orderedMessage(task, position)
	msg.Header[jetstream.ExpectedLastSubjSeqHeader] = []string{strconv.FormatUint(last, 10)}
	b.publishTask(b.orders, msg, func(err error) {
		if isStored(err) {
			go b.restoreBeside(task, position, done)
			return
		}
		done(err)
	})
}

// isStored reports whether a message was refused because its subject has another last message than
// expected. A stream with replicas has an error code of its own for that.
func isStored(err error) bool {
	var refusal *jetstream.APIError
	return errors.As(err, &refusal) &&
		(refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequence || refusal.ErrorCode == jetstream.JSErrCodeStreamWrongLastSequenceConstant)
}

// restoreBeside restores a delivery unless its stored state is the same or newer.
func (b *Bus) restoreBeside(task *domain.Task, position OrderPosition, done func(error)) {
	ctx, cancel := context.WithTimeout(context.Background(), publishTimeout)
	defer cancel()
	entry, err := b.Stream(StreamOrder).Newest(ctx, OrderSubject(task))
	switch {
	case err != nil:
		done(err)
		return
	case entry == nil: // the delivery has ended since, or was lost again
		b.restoreOver(0, task, position, done)
		return
	}
	if stored, err := ParseTask(entry.Header, entry.Body); err == nil && stored.Rev >= task.Rev {
		done(nil)
		return
	}
	b.restoreOver(entry.Sequence, task, position, done)
}

func orderedMessage(task *domain.Task, position OrderPosition) *nats.Msg {
	msg := taskMessage(OrderSubject(task), task)
	gap := int64(0)
	if position.AfterGap {
		gap = 1
	}
	text := []byte(orderVersion)
	for _, n := range []int64{position.Sequence, position.ShipmentKey, millis(position.Due), gap} {
		text = strconv.AppendInt(append(text, ' '), n, 10)
	}
	msg.Header[headerOrder] = []string{string(text)}
	return msg
}

// parseOrdered reads the position of a delivery in a message of ORDER. The error is ErrOrdered or
// ErrVersion.
func parseOrdered(header map[string][]string) (OrderPosition, error) {
	values := header[headerOrder]
	if len(values) != 1 {
		return OrderPosition{}, fmt.Errorf("read order header: %w", ErrOrdered)
	}
	parts := strings.Split(values[0], " ")
	if parts[0] != orderVersion {
		return OrderPosition{}, fmt.Errorf("read order header: version %s, %w", cutText(parts[0], 8), ErrVersion)
	}
	if len(parts) != 5 {
		return OrderPosition{}, fmt.Errorf("read order header: %w", ErrOrdered)
	}
	var numbers [4]int64
	for i := range numbers {
		n, err := strconv.ParseInt(parts[i+1], 10, 64)
		if err != nil {
			return OrderPosition{}, fmt.Errorf("read order header: %w", ErrOrdered)
		}
		numbers[i] = n
	}
	return OrderPosition{Sequence: numbers[0], ShipmentKey: numbers[1], Due: fromMillis(numbers[2]), AfterGap: numbers[3] != 0}, nil
}

// AnnounceRestored tells the owner of an account's order that deliveries of the account
// were stored with RestoreOrdered.
func (b *Bus) AnnounceRestored(account string) { b.Announce(SubjectOrder, []byte(account+restored)) }

const restored = " restored"

// ParseOrderNews reads an announcement on SubjectOrder.
func ParseOrderNews(body []byte) (account string, again bool) {
	return strings.CutSuffix(string(body), restored)
}

// loadUnused is the time after which the server removes a consumer of ORDER that was not deleted.
const loadUnused = 30 * time.Second

// Orders calls take with each delivery of an account that waits for its turn, without its body. For
// a message that can't be read, take gets an error. While no delivery waits, no consumer is made.
func (b *Bus) Orders(ctx context.Context, account string, take func(task *domain.Task, position OrderPosition, err error)) error {
	if first, err := b.Stream(StreamOrder).Read(ctx, orderSubjects(account), 1); err != nil || first == nil {
		return err
	}
	name := "load-" + nats.NewInbox()[len(nats.InboxPrefix):]
	consumer, err := b.js.CreateConsumer(ctx, StreamOrder, jetstream.ConsumerConfig{
		Name: name, FilterSubject: orderSubjects(account), AckPolicy: jetstream.AckNonePolicy,
		DeliverPolicy: jetstream.DeliverAllPolicy, HeadersOnly: true, MemoryStorage: true, Replicas: 1, InactiveThreshold: loadUnused,
	})
	if err != nil {
		return unavailable("read "+StreamOrder, err)
	}
	reader := &Consumer{bus: b, stream: StreamOrder, name: name, consumer: consumer}
	defer func() {
		reader.Close()
		ending, cancel := context.WithTimeout(context.WithoutCancel(ctx), publishTimeout)
		defer cancel()
		_ = b.Stream(StreamOrder).DeleteConsumer(ending, name)
	}()
	for left := consumer.CachedInfo().NumPending; left > 0; {
		came := uint64(0)
		err := reader.Fetch(ctx, MaxFetch, FetchOptions{Wait: time.Second}, func(m *Message) {
			came++
			task, err := ParseTask(m.Header(), nil)
			position, positionErr := parseOrdered(m.Header())
			take(task, position, errors.Join(err, positionErr))
		})
		if err != nil {
			return err
		}
		if came == 0 {
			break // the other messages were removed since
		}
		left -= min(left, came)
	}
	return nil
}

// generations returns the highest generation of an account's consumers of EVENTS, and the names of these consumers.
func (b *Bus) generations(ctx context.Context, account string) (highest uint64, older []string, err error) {
	consumers, err := b.eventConsumers(ctx)
	if err != nil {
		return 0, nil, err
	}
	for _, info := range consumers {
		of, number, ok := parseOrderConsumer(info.Name)
		if !ok || of != account {
			continue
		}
		older = append(older, info.Name)
		highest = max(highest, number)
	}
	return highest, older, nil
}

// eventConsumers returns the consumers of EVENTS. Callers that ask while the consumers are being listed share that
// list: a dispatcher that takes over a thousand accounts would otherwise list a thousand consumers a thousand
// times. So a consumer that was made just now may be missing; then making another one with its name fails.
func (b *Bus) eventConsumers(ctx context.Context) ([]*jetstream.ConsumerInfo, error) {
	answer := b.listing.DoChan(StreamEvents, func() (any, error) { return b.consumersOf(context.WithoutCancel(ctx), StreamEvents) })
	select {
	case a := <-answer:
		list, _ := a.Val.([]*jetstream.ConsumerInfo)
		return list, a.Err //nolint:wrapcheck // it is consumersOf's
	case <-ctx.Done():
		return nil, unavailable("list the consumers of "+StreamEvents, ctx.Err())
	}
}

// EventsClaim is the right to an account's events in order.
type EventsClaim struct {
	Consumer *Consumer
	First    bool // the account had no consumer before
}

// errClaimed means that another process has taken an account's events at the same time.
var errClaimed = errors.New("another process has taken them")

// Before a new owner takes the events, the consumer of the owner before must have stood still for
// standStill, because an owner that stops still finishes its events in flight. The new owner waits
// for that at most standMost.
const (
	standStill = 250 * time.Millisecond
	standMost  = 3 * time.Second
)

// TakeEvents makes the next generation of an account's consumer of EVENTS, for the process self alone.
// It begins with the first event that the generation before had not acknowledged. So every event that
// was in flight comes again, at once and in order, and acknowledgements of the process before no longer
// count. If there was no generation before, it begins at the sequence that first returns.
func (b *Bus) TakeEvents(ctx context.Context, account, self string, most int, first func() (uint64, error)) (EventsClaim, error) {
	highest, older, err := b.generations(ctx, account)
	if err != nil {
		return EventsClaim{}, err
	}
	var start uint64
	if highest == 0 {
		if start, err = first(); err != nil {
			return EventsClaim{}, err
		}
	} else {
		state, err := b.awaitStandstill(ctx, OrderConsumer(account, highest))
		if err != nil {
			return EventsClaim{}, err
		}
		start = state.Acknowledged + 1
	}
	name := OrderConsumer(account, highest+1)
	consumer, err := b.js.CreateConsumer(ctx, StreamEvents, jetstream.ConsumerConfig{
		Durable: name, Description: self, FilterSubject: subjectEvents + account + ".>",
		DeliverPolicy: jetstream.DeliverByStartSequencePolicy, OptStartSeq: max(start, 1),
		AckPolicy: jetstream.AckExplicitPolicy, AckWait: AckWait, MaxDeliver: -1, MaxAckPending: most,
	})
	if errors.Is(err, jetstream.ErrConsumerExists) {
		err = errClaimed
	}
	if err != nil {
		return EventsClaim{}, unavailable("take the events of an account", err)
	}
	for _, old := range older {
		if err := b.Stream(StreamEvents).DeleteConsumer(ctx, old); err != nil {
			return EventsClaim{}, err
		}
	}
	return EventsClaim{Consumer: &Consumer{bus: b, stream: StreamEvents, name: name, consumer: consumer}, First: highest == 0}, nil
}

// awaitStandstill waits until a consumer has stopped moving, and returns its state.
func (b *Bus) awaitStandstill(ctx context.Context, name string) (ConsumerState, error) {
	before, err := b.Stream(StreamEvents).ConsumerState(ctx, name)
	for deadline := time.Now().Add(standMost); err == nil; {
		if before.Unacknowledged == 0 || time.Now().After(deadline) {
			break
		}
		select {
		case <-ctx.Done():
			return before, fmt.Errorf("wait for %s: %w", name, ctx.Err())
		case <-time.After(standStill):
		}
		var now ConsumerState
		if now, err = b.Stream(StreamEvents).ConsumerState(ctx, name); now == before {
			break
		}
		before = now
	}
	return before, err
}

// EventsState is the progress of the dispatchers with EVENTS, over all of its consumers.
type EventsState struct {
	Delivered      uint64 // sequence of the message that was handed out last
	Acknowledged   uint64 // sequence up to which every message is acknowledged by each consumer that it concerns
	Pending        uint64 // messages that were not handed out yet, by the consumer with most of them
	Unacknowledged int    // messages that were handed out and are not acknowledged, over all
}

// EventsState asks for the progress of fan-out and of the order of each account. A consumer of an account that has nothing to do counts as
// being at the end of the stream.
//
// The consumers are not listed if the stream and the number of its consumers are the same as when all events were acknowledged: with a
// thousand accounts a list takes some 10 ms of a processor, and the relay asks each second.
func (b *Bus) EventsState(ctx context.Context) (EventsState, error) {
	stream, err := b.Stream(StreamEvents).State(ctx)
	if err != nil {
		return EventsState{}, err
	}
	if done := b.allDone.Load(); done != nil && done.of == ofEvents(stream) {
		return done.state, nil
	}
	consumers, err := b.consumersOf(ctx, StreamEvents)
	if err != nil {
		return EventsState{}, err
	}
	state := EventsState{Acknowledged: stream.LastSeq}
	newest := make(map[string]*jetstream.ConsumerInfo) // by account
	for _, info := range consumers {
		account, number, ordered := parseOrderConsumer(info.Name)
		switch {
		case info.Name == ConsumerFanout:
			newest[""] = info
		case ordered:
			if other := newest[account]; other != nil {
				if _, than, _ := parseOrderConsumer(other.Name); than > number {
					continue
				}
			}
			newest[account] = info
		}
	}
	fanout := newest[""]
	if fanout == nil {
		return EventsState{}, unavailable("ask for consumers of "+StreamEvents, jetstream.ErrConsumerNotFound)
	}
	for account, info := range newest {
		state.Delivered = max(state.Delivered, info.Delivered.Stream)
		state.Pending = max(state.Pending, info.NumPending)
		state.Unacknowledged += info.NumAckPending
		if account == "" || info.NumPending > 0 || info.NumAckPending > 0 {
			state.Acknowledged = min(state.Acknowledged, info.AckFloor.Stream)
		}
	}
	if state.Pending == 0 && state.Unacknowledged == 0 {
		b.allDone.Store(&eventsDone{state, ofEvents(stream)})
	}
	return state, nil
}

// eventsDone is the state of EVENTS when all of its messages were acknowledged.
type eventsDone struct {
	state EventsState
	of    eventsMark
}

// eventsMark tells states of EVENTS apart.
type eventsMark struct {
	created   int64
	last      uint64
	consumers int
	server    string // see StreamState
}

func ofEvents(s StreamState) eventsMark {
	return eventsMark{s.Created.UnixNano(), s.LastSeq, s.Consumers, s.Server}
}

// consumersOf returns all consumers of a stream.
func (b *Bus) consumersOf(ctx context.Context, stream string) ([]*jetstream.ConsumerInfo, error) {
	ctx, cancel := context.WithTimeout(ctx, publishTimeout)
	defer cancel()
	doing := "list the consumers of " + stream
	var list []*jetstream.ConsumerInfo
	for {
		answer, err := b.conn.RequestWithContext(ctx, "$JS.API.CONSUMER.LIST."+stream, []byte(`{"offset":`+strconv.Itoa(len(list))+`}`))
		if err != nil {
			return nil, unavailable(doing, err)
		}
		var page struct {
			Error     *jetstream.APIError       `json:"error"`
			Total     int                       `json:"total"`
			Consumers []*jetstream.ConsumerInfo `json:"consumers"`
			Missing   []string                  `json:"missing"`
		}
		if err := json.Unmarshal(answer.Data, &page); err != nil {
			return nil, fmt.Errorf("%s: %w", doing, err)
		}
		switch {
		case page.Error != nil:
			return nil, unavailable(doing, page.Error)
		case len(page.Missing) > 0:
			return nil, unavailable(doing, errNoLeader)
		}
		for _, info := range page.Consumers {
			if err := b.checkLeader(info.Cluster); err != nil {
				return nil, unavailable(doing, err)
			}
		}
		list = append(list, page.Consumers...)
		if len(page.Consumers) == 0 || len(list) >= page.Total {
			return list, nil
		}
	}
}
