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
	mu       sync.Mutex
	messages map[stored]held
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
}

// NewInHand returns an empty one.
func NewInHand() *InHand { return &InHand{every: ProgressInterval, messages: make(map[stored]held)} }

// NewRecordsInHand returns an empty one for messages of RECORDS.
func NewRecordsInHand() *InHand {
	return &InHand{every: recordProgress, messages: make(map[stored]held)}
}

// Add takes a message in hand; false: this very message is in hand already and this is
// a repeat of it.
func (h *InHand) Add(m *Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.messages[storedAs(m)]; ok {
		return false
	}
	h.messages[storedAs(m)] = held{m, time.Now()}
	return true
}

// Done lets go of a message, which is acknowledged or released besides.
func (h *InHand) Done(m *Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.messages[storedAs(m)].message == m {
		delete(h.messages, storedAs(m))
	}
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
