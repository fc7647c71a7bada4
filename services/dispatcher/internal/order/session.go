package order

import (
	"container/heap"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/pending"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

// session keeps the order of one account from one change of its owner to the next.
type session struct {
	m             *Manager
	account       string
	stage         *pending.Stage
	inFlight      *admission.Messages
	memory        *admission.Budget // for entries; part of the Manager's memory
	ended         *pending.AcknowledgedSet
	places        places      // only the goroutine that takes events uses places and trimmed
	trimmedAt     time.Time   // when it was last checked whether numbers can leave memory
	trimming      atomic.Bool // numbers are being removed from memory
	created       time.Time   // of EVENTS
	from          uint64      // see recorder.OrderStart
	suspect       uint64      // events up to this sequence may have been handed out before
	fetchedEvents int         // events that the last fetch has brought; only the goroutine that takes events uses it
	doubtful      atomic.Bool // EVENTS may be another stream now
	checkNow      chan struct{}
	failed        chan error
	poked         chan struct{}

	mu      sync.Mutex
	over    bool
	groups  map[domain.WebhookID]*group
	numbers map[recorder.SequenceKey]int64 // the number that was given last
	// gaps are the webhooks and shipments without a queue whose last delivery did not arrive.
	gaps map[recorder.SequenceKey]bool
	// loaded has the deliveries that the session before has kept, while their events may come again; nil: the
	// events can't come again.
	loaded  map[domain.DeliveryID]bool
	fresh   map[*queue]struct{} // queues with entries that are not kept
	waits   waits
	keeping int // deliveries that are being stored in ORDER
	entries int // in all queues
	ticks   int
}

// group has the deliveries of one webhook.
type group struct {
	hook    *index.Hook
	queues  map[int64]*queue // by shipment
	due     []*queue         // queues with a delivery that may go out, first come first served
	offered int              // deliveries that the deliverer has
	bodies  int              // deliveries of offered that were read from ORDER
}

// queue has the deliveries of one webhook and shipment that have not ended.
type queue struct {
	group    *group
	shipment int64
	entries  []*entry  // in order; only the first may be in flight
	passed   []*entry  // entries that later ones have passed, because these had waited too long
	since    time.Time // when the second entry became the second
	busy     bool      // an entry is in flight
	due      bool      // it is in group.due
	keeping  bool      // an entry is being kept
	waits    time.Time // the last time for which the queue was added to session.waits
	gap      bool      // the delivery before the first entry did not arrive
}

// entry is a delivery. While it is not kept, its event is in flight and its task is in memory.
type entry struct {
	delivery domain.DeliveryID
	number   int64
	cameAt   time.Time // when the delivery came
	due      time.Time // time of the next attempt; zero: as soon as it is the entry's turn
	task     *domain.Task
	event    *pending.Event
	kept     bool // ORDER has it
	keeping  bool
	failed   bool // an attempt was made
	gap      bool // the callback says that there is a gap
}

func (s *session) wake() {
	select {
	case s.poked <- struct{}{}:
	default:
	}
}

// group returns the group of a webhook; s.mu is held.
func (s *session) group(hook *index.Hook) *group {
	g := s.groups[hook.ID]
	if g == nil {
		g = &group{hook: hook, queues: make(map[int64]*queue)}
		s.groups[hook.ID] = g
	}
	return g
}

// queue returns the queue of a shipment; s.mu is held.
func (g *group) queue(shipment int64) *queue {
	q := g.queues[shipment]
	if q == nil {
		q = &queue{group: g, shipment: shipment}
		g.queues[shipment] = q
	}
	return q
}

// enqueue gives a delivery its number and puts it into its queue.
func (s *session) enqueue(event *pending.Event, hook *index.Hook, shipment int64, task *domain.Task) {
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	key := recorder.SequenceKey{Webhook: hook.ID, Shipment: shipment}
	s.numbers[key]++
	task.Sequence, task.Shipment = s.numbers[key], shipment
	q := s.group(hook).queue(shipment)
	if s.gaps[key] {
		delete(s.gaps, key)
		q.gap = true
	}
	s.append(q, &entry{delivery: task.Delivery, number: task.Sequence, cameAt: now, task: task, event: event}, now)
	s.fresh[q] = struct{}{}
}

// append adds an entry at the end; s.mu is held.
func (s *session) append(q *queue, e *entry, now time.Time) {
	q.entries = append(q.entries, e)
	s.entries++
	s.memory.Take(entrySize)
	s.m.metrics.waiting.Inc()
	switch len(q.entries) {
	case 1:
		s.advance(q, now)
	case 2:
		q.since = now
	}
}

// lastKept returns the greatest number of a kept delivery of a webhook and shipment; s.mu is held.
func (s *session) lastKept(key recorder.SequenceKey) int64 {
	g := s.groups[key.Webhook]
	if g == nil || g.queues[key.Shipment] == nil {
		return 0
	}
	greatest := int64(0)
	q := g.queues[key.Shipment]
	for _, list := range [][]*entry{q.entries, q.passed} {
		for _, e := range list {
			greatest = max(greatest, e.number)
		}
	}
	return greatest
}

// noteMissed notes the number of the last delivery of a webhook and shipment that did not arrive. The
// delivery after it gets the mark of a gap, whether it waits already or is still to come. s.mu is held.
func (s *session) noteMissed(key recorder.SequenceKey, number int64) {
	if number == 0 {
		return
	}
	if number == s.numbers[key] {
		s.gaps[key] = true
		return
	}
	if g := s.groups[key.Webhook]; g != nil && g.queues[key.Shipment] != nil {
		q := g.queues[key.Shipment]
		if !q.busy && len(q.entries) > 0 && q.entries[0].number == number+1 {
			q.gap = true
		}
	}
}

// wasKept reports whether the session before had kept a delivery.
func (s *session) wasKept(id domain.DeliveryID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loaded[id]
}

// isQueued reports whether a delivery waits in its queue.
func (s *session) isQueued(webhook domain.WebhookID, shipment int64, id domain.DeliveryID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	g := s.groups[webhook]
	if g == nil || g.queues[shipment] == nil {
		return false
	}
	is := func(e *entry) bool { return e.delivery == id }
	return slices.ContainsFunc(g.queues[shipment].entries, is) || slices.ContainsFunc(g.queues[shipment].passed, is)
}

// next returns an entry that may go out now, or else the time at which one may. If it returns
// neither, an entry may go out only after another one has ended. s.mu is held.
func (q *queue) next(now time.Time) (e *entry, at time.Time) {
	if q.busy {
		return nil, time.Time{}
	}
	list := q.passed
	if len(q.entries) > 0 {
		list = append(slices.Clip(list), q.entries[0])
	}
	for _, e := range list {
		switch {
		case e.keeping:
		case !e.due.After(now):
			return e, time.Time{}
		case at.IsZero() || e.due.Before(at):
			at = e.due
		}
	}
	return nil, at
}

// advance adds a queue to the queues that are due, or notes when its next entry may go out; s.mu is held.
func (s *session) advance(q *queue, now time.Time) {
	if q.due || q.busy {
		return
	}
	e, at := q.next(now)
	switch {
	case e != nil:
		q.due = true
		q.group.due = append(q.group.due, q)
	case !at.IsZero() && !at.Equal(q.waits):
		q.waits = at
		heap.Push(&s.waits, wait{at, q})
	}
}

// remove removes an entry that has ended from its queue; s.mu is held.
func (s *session) remove(q *queue, e *entry, arrived bool, now time.Time) {
	if s.entries > 0 { // otherwise the session is over and has given the room back
		s.entries--
		s.memory.LetGo(entrySize)
		s.m.metrics.waiting.Dec()
	}
	if len(q.entries) > 0 && q.entries[0] == e {
		q.entries[0] = nil
		q.entries = q.entries[1:]
		q.since = now
		if !arrived && q.group.hook.Config().Ordering == domain.OrderingShipment {
			q.gap = true
		}
	} else {
		for i := range q.passed {
			if q.passed[i] == e {
				q.passed = append(q.passed[:i], q.passed[i+1:]...)
				break
			}
		}
	}
	if len(q.entries) == 0 && len(q.passed) == 0 {
		if q.gap { // a queue for each shipment that has failed once would take too much memory
			s.gaps[recorder.SequenceKey{Webhook: q.group.hook.ID, Shipment: q.shipment}] = true
		}
		delete(q.group.queues, q.shipment)
		delete(s.fresh, q)
	}
}

// countUnderWay returns how many deliveries the deliverer has or are being stored in ORDER.
func (s *session) countUnderWay() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, g := range s.groups {
		n += g.offered
	}
	return n + s.keeping
}

// countOpen returns how many deliveries have not ended.
func (s *session) countOpen() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.entries
}

// giveBack gives back the room of the deliveries that still wait when the session ends.
func (s *session) giveBack() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.m.metrics.waiting.Sub(float64(s.entries))
	s.memory.LetGo(int64(s.entries) * entrySize)
	s.entries = 0
}

// wait is a queue and the time at which its next entry may go out.
type wait struct {
	at    time.Time
	queue *queue
}

// waits are ordered by time.
type waits []wait

// Len implements heap.Interface.
func (w *waits) Len() int { return len(*w) }

// Less implements heap.Interface.
func (w *waits) Less(i, j int) bool { return (*w)[i].at.Before((*w)[j].at) }

// Swap implements heap.Interface.
func (w *waits) Swap(i, j int) { (*w)[i], (*w)[j] = (*w)[j], (*w)[i] }

// Push implements heap.Interface.
func (w *waits) Push(x any) { *w = append(*w, x.(wait)) } //nolint:errcheck,forcetypeassert // nothing else is pushed

// Pop implements heap.Interface.
func (w *waits) Pop() any {
	old := *w
	last := old[len(old)-1]
	old[len(old)-1] = wait{}
	*w = old[:len(old)-1]
	return last
}
