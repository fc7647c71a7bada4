package admission

import (
	"context"
	"sync"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/signal"
)

// Messages are the messages of one stream that this process works on. It tells the server about
// those that take long, so that no other consumer gets them.
type Messages struct {
	every    time.Duration // how often the server is notified
	room     *Budget       // nil: without a bound
	mu       sync.Mutex
	messages map[bus.Position]inFlightMessage
	moves    uint64
	first    signal.Signal // has a value once a message came while no other was in flight
}

type inFlightMessage struct {
	message *bus.Message
	since   time.Time
	size    int64 // bytes of room that the message takes
}

// NewMessages returns an empty Messages. The bytes of each message count towards room until Done. A nil room is
// without a bound.
func NewMessages(room *Budget) *Messages {
	return &Messages{every: bus.ProgressInterval, room: room, messages: make(map[bus.Position]inFlightMessage), first: signal.New()}
}

// NewRecords is NewMessages for messages of RECORDS.
func NewRecords(room *Budget) *Messages {
	return &Messages{every: bus.RecordsProgressInterval, room: room, messages: make(map[bus.Position]inFlightMessage), first: signal.New()}
}

// Add adds a message in flight. False: the same message is in flight already, and this is a repeat.
func (h *Messages) Add(m *bus.Message) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if _, ok := h.messages[m.Position()]; ok {
		return false
	}
	size := Size(m)
	h.messages[m.Position()] = inFlightMessage{m, time.Now(), size}
	h.moves++
	if len(h.messages) == 1 {
		h.first.Give()
	}
	if h.room != nil {
		h.room.Take(size)
	}
	return true
}

// AddBytes adds n bytes to what a message in flight takes, until Done.
func (h *Messages) AddBytes(m *bus.Message, n int64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one, ok := h.messages[m.Position()]
	if !ok || one.message != m || h.room == nil {
		return
	}
	one.size += n
	h.messages[m.Position()] = one
	h.room.Take(n)
}

// Done removes a message. The caller acknowledges or releases it besides.
func (h *Messages) Done(m *bus.Message) {
	h.mu.Lock()
	defer h.mu.Unlock()
	one := h.messages[m.Position()]
	if one.message != m {
		return
	}
	delete(h.messages, m.Position())
	h.moves++
	if h.room != nil {
		h.room.LetGo(one.size)
	}
}

// Leave removes all messages. The bus gives them to another consumer. Calls for one of
// them after Leave change nothing.
func (h *Messages) Leave() {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, one := range h.messages {
		h.moves++
		if h.room != nil {
			h.room.LetGo(one.size)
		}
	}
	clear(h.messages)
}

// Moves returns how many messages were added and removed so far.
func (h *Messages) Moves() uint64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.moves
}

// Reserve waits for room for at least one message of the largest size, and takes at most a quarter
// of all room; 0: there is no bound. The caller gives the room back with Give.
func (h *Messages) Reserve(ctx context.Context) (int64, error) {
	return h.reserve(ctx, largestMessage, 4)
}

// ReserveTasks is Reserve for messages of RETRIES and HOLD, and takes half of all room at most.
func (h *Messages) ReserveTasks(ctx context.Context) (int64, error) {
	return h.reserve(ctx, LargestTask, 2)
}

func (h *Messages) reserve(ctx context.Context, largest, share int64) (int64, error) {
	if h.room == nil {
		return 0, ctx.Err()
	}
	return h.room.Reserve(ctx, largest, max(largest, h.room.Limit()/share))
}

// Give gives back reserved room that no message takes.
func (h *Messages) Give(n int64) {
	if h.room != nil {
		h.room.Give(n)
	}
}

// Len returns how many messages are in flight.
func (h *Messages) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.messages)
}

// Run tells the server about messages that take long, until ctx is done. While nothing is in flight it sleeps.
func (h *Messages) Run(ctx context.Context) error {
	ticker := time.NewTicker(h.every)
	defer ticker.Stop()
	for {
		if h.Len() == 0 {
			ticker.Stop()
			select {
			case <-ctx.Done():
				return nil
			case <-h.first:
			}
			ticker.Reset(h.every)
		}
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

func (h *Messages) olderThan(t time.Time) []*bus.Message {
	h.mu.Lock()
	defer h.mu.Unlock()
	var list []*bus.Message
	for _, held := range h.messages {
		if held.since.Before(t) {
			list = append(list, held.message)
		}
	}
	return list
}

// messageExtra is how much memory a message in flight takes besides its own bytes.
const messageExtra = 512

// Size returns about how many bytes a message takes in memory.
func Size(m *bus.Message) int64 {
	size := messageExtra + len(m.Body())
	for name, values := range m.Header() {
		size += len(name)
		for _, value := range values {
			size += len(value)
		}
	}
	return int64(size)
}
