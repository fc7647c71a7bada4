package bus

import (
	"context"
	"sync"
	"time"
)

// InHand keeps the messages of one stream that are worked upon, and tells the server
// about those that take long, so that no other consumer gets them.
type InHand struct {
	every    time.Duration // how often the server is told
	room     *Budget       // nil: without a bound
	mu       sync.Mutex
	messages map[stored]held
	moves    uint64
}

// stored names a message: a stream that was lost begins its sequences anew.
type stored struct {
	sequence uint64
	at       int64 // nanoseconds
}

func storedAs(m *Message) stored { return stored{m.Sequence, m.Time.UnixNano()} }

type held struct {
	message *Message
	since   time.Time
	size    int64 // of the room that it takes
}

// NewInHandOf returns an empty one whose messages take their bytes of room until Done; nil:
// without a bound.
func NewInHandOf(room *Budget) *InHand {
	return &InHand{every: ProgressInterval, room: room, messages: make(map[stored]held)}
}

// NewRecordsInHand is NewInHandOf for messages of RECORDS.
func NewRecordsInHand(room *Budget) *InHand {
	return &InHand{every: recordProgress, room: room, messages: make(map[stored]held)}
}

// Add takes a message in hand; false: this very message is in hand already and this is
// a repeat of it.
func (h *InHand) Add(m *Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.messages[storedAs(m)]; ok {
		return false
	}
	size := m.size()
	h.messages[storedAs(m)] = held{m, time.Now(), size}
	h.moves++
	if h.room != nil {
		h.room.Take(size)
	}
	return true
}

// More tells that a message in hand takes n bytes more than its own, until Done.
func (h *InHand) More(m *Message, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, ok := h.messages[storedAs(m)]
	if !ok || one.message != m || h.room == nil {
		return
	}
	one.size += n
	h.messages[storedAs(m)] = one
	h.room.Take(n)
}

// Done lets go of a message, which is acknowledged or released besides.
func (h *InHand) Done(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.messages[storedAs(m)]
	if one.message != m {
		return
	}
	delete(h.messages, storedAs(m))
	h.moves++
	if h.room != nil {
		h.room.LetGo(one.size)
	}
}

// Moves counts messages that came in hand, and those that left it.
func (h *InHand) Moves() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moves
}

// reserve waits for room for one message of the largest size at least, and takes a quarter
// of all room at most; 0: there is no bound. A consumption that asks always waits for no
// longer than one of its fetches.
func (h *InHand) reserve(ctx context.Context, largest int64, how fetching) (int64, error) {
	if h.room == nil {
		return 0, ctx.Err()
	}
	if how.always {
		waiting, cancel := context.WithTimeout(ctx, how.wait)
		defer cancel()
		ctx = waiting
	}
	return h.room.Reserve(ctx, largest, max(largest, h.room.limit/4))
}

// Len returns how many messages are in hand.
func (h *InHand) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.messages)
}

// Run reports on what takes long until ctx is done.
func (h *InHand) Run(ctx context.Context) error {
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			for _, m := range h.olderThan(now.Add(-h.every / 2)) {
				m.InProgress()
			}
		}
	}
}

func (h *InHand) olderThan(t time.Time) []*Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*Message
	for _, held := range h.messages {
		if held.since.Before(t) {
			list = append(list, held.message)
		}
	}
	return list
}
