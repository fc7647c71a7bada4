package fanout

import (
	"sync"
	"time"

	"waybill.dev/shared/bus"
)

// endedSize is how many ended events are remembered: more than a server that crashed
// can have forgotten the acknowledgements of.
const endedSize = 1 << 16

// ended remembers the events that were acknowledged last. A server that crashes forgets
// acknowledgements of the last tenth of a second and hands these events out again. An
// event is told by its sequence and its time in the stream: a stream that was made anew
// counts from one again.
type ended struct {
	mu   sync.Mutex
	set  map[identity]struct{}
	ring []identity
	next int
}

type identity struct {
	sequence uint64
	at       time.Time
}

func newEnded() *ended { return &ended{set: make(map[identity]struct{})} }

func (e *ended) add(m *bus.Message) {
	id := identity{m.Sequence, m.Time}
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.ring) < endedSize {
		e.ring = append(e.ring, id)
	} else {
		delete(e.set, e.ring[e.next])
		e.ring[e.next] = id
		e.next = (e.next + 1) % endedSize
	}
	e.set[id] = struct{}{}
}

func (e *ended) has(m *bus.Message) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, ok := e.set[identity{m.Sequence, m.Time}]
	return ok
}
