package bus

import (
	"errors"
	"log/slog"
	"sync"
	"time"

	"github.com/nats-io/nats.go/jetstream"
)

const (
	// windowMost is how many tasks may be on their way to a stream at once. windowLeast is how many
	// after a task was not acknowledged in time.
	windowMost  = 4096
	windowLeast = 16
)

// window bounds how many publications are on their way to a stream at once. A publication that was
// given up after publishTimeout is still in the queue of a stream that can't keep up, and the
// repeat of its owner comes on top. After a cluster of three had lost a server, with 350 deliveries
// a second to hold, more than 10,000 waited at the stream for minutes, and there were 0.8 copies of
// each. So only a few are sent then, and the others wait here for their turn, beyond publishTimeout
// if needed. The bound grows by one with each acknowledgement. When a stream has acknowledged
// nothing for publishTimeout, waiting publications are given up, too: if they were sent in turn, 16
// at a time, 256 of them would be given up only after 80 s.
type window struct {
	stream string
	log    *slog.Logger

	mu       sync.Mutex
	limit    int
	out      int
	waiting  []waitingPublication
	starting bool      // a goroutine is starting publications that wait
	late     bool      // the bound has not reached windowMost again
	heard    time.Time // when the stream last acknowledged something
}

// waitingPublication is a publication that waits: either start or giveUp is called.
type waitingPublication struct {
	start  func()
	giveUp func(error)
}

func newWindow(stream string, log *slog.Logger) *window {
	return &window{stream: stream, log: log, limit: windowMost}
}

// WindowState is the state of a window.
type WindowState struct {
	Stream              string
	Out, Limit, Waiting int
}

// Windows returns how many tasks are on their way to RETRIES, HOLD and ORDER,
// and how many wait for their turn.
func (b *Bus) Windows() []WindowState {
	return []WindowState{b.schedules.state(), b.holds.state(), b.orders.state()}
}

func (w *window) state() WindowState {
	w.mu.Lock()
	defer w.mu.Unlock()
	return WindowState{Stream: w.stream, Out: w.out, Limit: w.limit, Waiting: len(w.waiting)}
}

// enter calls start, at once or in its turn, or giveUp if the stream is silent by then. After
// start, the caller calls leave when the publication has ended, perhaps before start returns.
func (w *window) enter(start func(), giveUp func(error)) {
	w.mu.Lock()
	if len(w.waiting) > 0 || w.out >= w.limit {
		w.waiting = append(w.waiting, waitingPublication{start, giveUp})
		w.mu.Unlock()
		return
	}
	w.out++
	w.mu.Unlock()
	start()
}

// leave ends a publication; err is its result.
func (w *window) leave(err error) {
	w.mu.Lock()
	w.out--
	var givenUp []waitingPublication
	if silent := w.adjust(err); silent {
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

// adjust sets the bound after a result, and reports whether the stream acknowledges nothing at all;
// w.mu is held.
func (w *window) adjust(err error) (silent bool) {
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

// grow raises the bound by one; w.mu is held.
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

// run starts waiting publications, as far as the bound allows.
func (w *window) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.out < w.limit {
		start := w.waiting[0].start
		w.waiting[0] = waitingPublication{}
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
