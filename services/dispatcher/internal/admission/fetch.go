package admission

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/shared/again"
	"waybill.dev/shared/bus"
)

// Bus has the streams.
type Bus interface {
	Stream(name string) *bus.Stream
}

// fetchSize is the most messages that one fetch brings. It is also about half of the messages that
// a process holds beyond those that it works on. Where bytes are bounded, a fetch brings less,
// because its bytes are reserved first.
const fetchSize = bus.MaxFetch

const (
	// eventsWait is how long one fetch of events waits for the first event. eventsHeartbeat is how
	// often the server shows during that wait that it is alive.
	eventsWait      = 10 * time.Second
	eventsHeartbeat = 2500 * time.Millisecond
	// recordsWait is how long one fetch of records waits, and the longest time between two requests of a process
	// for records: half of the 1.6 s after which the server serves another process because this one no longer asks.
	recordsWait = 800 * time.Millisecond
)

// Events hands the events of EVENTS to handle, one after the other, until ctx is done. Each event
// is in inFlight from its arrival on. Events that handle did not get are given back at the end.
func Events(ctx context.Context, from Bus, log *slog.Logger, inFlight *Messages, handle func(*bus.Message)) {
	f := &fetcher{
		stream: from.Stream(bus.StreamEvents), name: bus.ConsumerFanout, inFlight: inFlight, handle: handle,
		options: bus.FetchOptions{Wait: eventsWait, Heartbeat: eventsHeartbeat},
	}
	KeepConsuming(ctx, log, f.name, func(works func()) error { return f.run(ctx, works) })
}

// Records hands the messages of RECORDS to handle, in order, until ctx is done, as Events does. The
// server serves only one of all the processes that consume them.
func Records(ctx context.Context, from Bus, log *slog.Logger, inFlight *Messages, handle func(*bus.Message)) {
	f := &fetcher{
		stream: from.Stream(bus.StreamRecords), name: bus.ConsumerRecord, inFlight: inFlight, handle: handle,
		always: true, options: bus.FetchOptions{Wait: recordsWait, Pinned: true},
	}
	KeepConsuming(ctx, log, f.name, func(works func()) error { return f.run(ctx, works) })
}

// KeepConsuming keeps a consumption going until ctx is done: through reconnections, lost heartbeats, and a server that
// came back without its streams. once calls works when the consumption works.
func KeepConsuming(ctx context.Context, log *slog.Logger, name string, once func(works func()) error) {
	_ = again.Do(ctx, again.Loop{
		First: 100 * time.Millisecond, Longest: 2 * time.Second, Log: log,
		Fails: "messages can't be consumed; trying again", Works: "messages are consumed again", About: []any{"consumer", name},
	}, once)
}

// fetcher consumes a stream by fetches. A continuous pull would leave messages in the client's
// buffer, where one that waits for long would run into AckWait unseen. Here each message is in
// flight as soon as it arrives, and the next fetch waits until there is room.
type fetcher struct {
	stream   *bus.Stream
	name     string // of the consumer
	inFlight *Messages
	handle   func(*bus.Message)
	// always: the process asks the server in each wait, so that the server knows that it is alive. It
	// asks for one message while there is no place for a portion, and for none while there is no room.
	always  bool
	options bus.FetchOptions

	consumer *bus.Consumer
	queue    chan *bus.Message
	working  func()
}

func (f *fetcher) run(ctx context.Context, working func()) (err error) {
	if f.consumer, err = f.stream.Consumer(ctx, f.name); err != nil {
		return err
	}
	defer f.consumer.Close()
	f.queue, f.working = make(chan *bus.Message, 2*fetchSize), working
	var handling sync.WaitGroup
	handling.Go(func() { f.handleAll(ctx, f.queue) })
	defer handling.Wait()
	defer close(f.queue)
	for asked := time.Now(); ctx.Err() == nil; {
		portion := fetchSize
		if len(f.queue) > fetchSize/2 {
			portion = 1
			if !f.always || time.Since(asked) < f.options.Wait || len(f.queue) == cap(f.queue) {
				select {
				case <-ctx.Done():
				case <-time.After(2 * time.Millisecond):
				}
				continue
			}
		}
		asked = time.Now()
		if err := f.fetchPortion(ctx, portion); err != nil && !errors.Is(err, bus.ErrAway) && ctx.Err() == nil {
			return err
		}
	}
	return ctx.Err()
}

func (f *fetcher) handleAll(ctx context.Context, queue <-chan *bus.Message) {
	for m := range queue {
		if ctx.Err() != nil {
			f.inFlight.Done(m)
			m.Release()
			continue
		}
		f.handle(m)
	}
}

// fetchPortion waits for room and fetches one portion. With always, it waits for
// room no longer than one fetch waits.
func (f *fetcher) fetchPortion(ctx context.Context, portion int) error {
	reserving := ctx
	if f.always {
		waiting, cancel := context.WithTimeout(ctx, f.options.Wait)
		defer cancel()
		reserving = waiting
	}
	room, err := f.inFlight.Reserve(reserving)
	full := errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil
	if err != nil && !full {
		return err // asked to stop
	}
	if f.always {
		// A message that the server sends until the wait is over would come again only after
		// AckWait, and out of order.
		ctx = context.WithoutCancel(ctx)
	}
	if full {
		// No message has one byte: the server sends none, but goes on serving this process.
		options := f.options
		options.Bytes = 1
		return f.consumer.Fetch(ctx, 1, options, (*bus.Message).Release)
	}
	return f.fetchInto(ctx, portion, room)
}

// fetchInto fetches one portion into the queue, which has a place for each message. room is what was
// reserved for the portion; 0: there is no bound.
func (f *fetcher) fetchInto(ctx context.Context, portion int, room int64) error {
	if room > 0 {
		defer func() { f.inFlight.Give(room) }()
	}
	options := f.options
	options.Bytes = room
	err := f.consumer.Fetch(ctx, portion, options, func(m *bus.Message) {
		f.working()
		if !f.inFlight.Add(m) {
			return
		}
		f.queue <- m
		if options.Bytes > 0 { // the bytes that the message took are no longer reserved
			taken := min(room, Size(m))
			room -= taken
			f.inFlight.Give(taken)
		}
	})
	if err == nil {
		f.working()
	}
	return err
}
