package bus

import (
	"errors"
	"log/slog"
	"sync"

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
// beyond publishTimeout if need be. The bound grows by one with each acknowledgement.
type window struct {
	stream string
	log    *slog.Logger

	mu       sync.Mutex
	limit    int
	out      int
	waiting  []func()
	starting bool // a goroutine starts what waits
	late     bool // the bound is not back at windowMost
}

func newWindow(stream string, log *slog.Logger) *window {
	return &window{stream: stream, log: log, limit: windowMost}
}

// enter calls start, at once or in its turn. Whoever starts calls leave when it is over, and
// may do so before start returns.
func (w *window) enter(start func()) {
	w.mu.Lock()
	if len(w.waiting) > 0 || w.out >= w.limit {
		w.waiting = append(w.waiting, start)
		w.mu.Unlock()
		return
	}
	w.out++
	w.mu.Unlock()
	start()
}

// leave tells how it ended.
func (w *window) leave(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.out--
	w.fit(err)
	if !w.starting && len(w.waiting) > 0 && w.out < w.limit {
		w.starting = true
		go w.run()
	}
}

// fit sets the bound; w.mu is held.
func (w *window) fit(err error) {
	switch {
	case errors.Is(err, jetstream.ErrAsyncPublishTimeout):
		w.limit = windowLeast
		if !w.late {
			w.late = true
			w.log.Warn("the bus does not store deliveries in time; fewer are sent to it at once", "stream", w.stream)
		}
	case err == nil && w.limit < windowMost:
		w.limit++
		if w.limit == windowMost {
			w.late = false
			w.log.Info("the bus stores deliveries in time again", "stream", w.stream)
		}
	}
}

// run starts what waits, as far as the bound lets it.
func (w *window) run() {
	w.mu.Lock()
	defer w.mu.Unlock()
	for len(w.waiting) > 0 && w.out < w.limit {
		start := w.waiting[0]
		w.waiting[0] = nil
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
