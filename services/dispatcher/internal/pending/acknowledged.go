package pending

import (
	"context"
	"sync"

	"waybill.dev/shared/bus"
)

// restartMargin is how many more events the server may have handed out than it remembers after a
// crash: it writes a consumer's state some ten times a second.
const restartMargin = 20_000

// Consumers returns the state of consumers.
type Consumers interface {
	ConsumerState(ctx context.Context, name string) (bus.ConsumerState, error)
}

// HandedOut returns the sequence up to which events of EVENTS may have been handed out before,
// whatever the server says of them; 0: no event was. Call it at the start and after each
// reconnection, because the server may have crashed before.
func HandedOut(ctx context.Context, events Consumers) (uint64, error) {
	state, err := events.ConsumerState(ctx, bus.ConsumerFanout)
	if err != nil || state.Delivered == 0 {
		return 0, err
	}
	return state.Delivered + restartMargin, nil
}

// acknowledgedSize is how many events are remembered: more than the number of acknowledgements that
// a server may forget when it crashes.
const acknowledgedSize = 1 << 16

// AcknowledgedSet remembers the events that were acknowledged last. A server that crashes forgets
// acknowledgements of the last tenth of a second and hands these events out again. It may be
// used concurrently.
type AcknowledgedSet struct {
	mu   sync.Mutex
	set  map[bus.Position]struct{}
	ring []bus.Position
	next int
}

// NewAcknowledgedSet returns an AcknowledgedSet that remembers nothing yet.
func NewAcknowledgedSet() *AcknowledgedSet {
	return &AcknowledgedSet{set: make(map[bus.Position]struct{})}
}

// Add remembers an event.
func (a *AcknowledgedSet) Add(event bus.Position) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.ring) < acknowledgedSize {
		a.ring = append(a.ring, event)
	} else {
		delete(a.set, a.ring[a.next])
		a.ring[a.next] = event
		a.next = (a.next + 1) % acknowledgedSize
	}
	a.set[event] = struct{}{}
}

// Has reports whether an event is remembered.
func (a *AcknowledgedSet) Has(event bus.Position) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	_, ok := a.set[event]
	return ok
}
