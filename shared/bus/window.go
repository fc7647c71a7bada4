package bus

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// windowMost is how many tasks may be on their way to a stream at once, and windowLeast
	// how many after one was not acknowledged in time.
	windowMost  = 4096
	windowLeast = 16
)

// window bounds what is on its way to a stream at once. Where a stream can't keep up, a
// publication that was given up after publishTimeout is in its queue all the same, and what
// its owner publishes again comes on top: after a cluster of three had lost a server, with 350
// deliveries a second to hold, more than 10,000 waited at the stream for minutes, and there
// were 0.8 copies of each. So only few go out then, and the others wait here for their turn,
// beyond publishTimeout if need be. The bound grows by one with each acknowledgement. When a
// stream has acknowledged nothing for publishTimeout, what waits is given up, too: sent in
// turn, 16 at a time, 256 that somebody waits for would be given up after 80 s.
type window struct {
	stream string
	log    *slog.Logger

	mu       sync.Mutex
	limit    int
	out      int
	waiting  []passage
	starting bool      // a goroutine starts what waits
	late     bool      // the bound is not back at windowMost
	heard    time.Time // when the stream last acknowledged something
}

// passage is a publication: either start is called, or giveUp.
type passage struct {
	start  func()
	giveUp func(error)
}

func newWindow(stream string, log *slog.Logger) *window {
	return &window{stream: stream, log: log, limit: windowMost}
}

// WindowState is what is on its way to a stream.
type WindowState struct {
	Stream              string
	Out, Limit, Waiting int
}

// Windows returns what is on its way to RETRIES, HOLD and ORDER, and what waits for its turn.
func (b *Bus) Windows() []WindowState {
	return []WindowState{b.schedules.state(), b.holds.state(), b.orders.state()}
}

func (w *window) state() WindowState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return WindowState{Stream: w.stream, Out: w.out, Limit: w.limit, Waiting: len(w.waiting)}
}

// enter calls start, at once or in its turn, or giveUp if the stream is silent meanwhile.
// Whoever starts calls leave when it is over, and may do so before start returns.
func (w *window) enter(start func(), giveUp func(error)) {
	w.mu.Lock()
	if len(w.waiting) > 0 || w.out >= w.limit {
		w.waiting = append(w.waiting, passage{start, giveUp})
		w.mu.Unlock()
		return
	}
	w.out++
	w.mu.Unlock()
	start()
}

// leave says how it ended.
func (w *window) leave(err error) {
	w.mu.Lock()
	w.out--
	var givenUp []passage
	if silent := w.fit(err); silent {
		givenUp, w.waiting = w.waiting, nil
	}
	if !w.starting && len(w.waiting) > 0 && w.out < w.limit {
		w.starting = true
		go w.run()
	}
	w.mu.Unlock()
	for _, p := range givenUp {
		p.giveUp(err)
	}
}

// fit sets the bound, and reports whether the stream acknowledges nothing at all; w.mu is held.
func (w *window) fit(err error) (silent bool) {
	switch {
	case err == nil:
		w.heard = time.Now()
		w.grow()
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		w.limit = windowLeast
		if !w.late {
			w.late = true
			w.log.Warn("the bus stores deliveries too slowly; fewer are sent to it at once", "stream", w.stream)
		}
		return time.Since(w.heard) >= publishTimeout
	}
	return false
}

// grow lets one more be on its way; w.mu is held.
func (w *window) grow() {
	if w.limit == windowMost {
		return
	}
	w.limit++
	if w.limit == windowMost {
		w.late = false
		w.log.Info("the bus stores deliveries in time again", "stream", w.stream)
	}
}

// run starts what waits, as far as the bound lets it.
func (w *window) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.out < w.limit {
		start := w.waiting[0].start
		w.waiting[0] = passage{}
		w.waiting = w.waiting[1:]
		w.out++
		w.mu.Unlock()
		start()
		w.mu.Lock()
	}
	if len(w.waiting) == 0 {
		w.waiting = nil
	}
	w.starting = false
}
