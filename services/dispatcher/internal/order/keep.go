package order

import (
	"cmp"
	"container/heap"
	"context"
	"math"
	"slices"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

// patience is how long a delivery waits in memory, with its event in flight, until it is stored in
// the stream ORDER.
const patience = time.Second

// keepTicks and passTicks are the number of ticks between two looks: for deliveries to store, and for deliveries that
// have waited too long.
const (
	keepTicks = 5
	passTicks = 10
)

// handleDue handles the deliveries that have become due.
func (s *session) handleDue(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waits) > 0 && !s.waits[0].at.After(now) {
		w := heap.Pop(&s.waits).(wait) //nolint:errcheck,forcetypeassert // nothing else is pushed
		if w.queue.waits.Equal(w.at) {
			w.queue.waits = time.Time{}
		}
		s.advance(w.queue, now)
	}
	s.ticks++
	if s.over {
		return
	}
	if s.ticks%keepTicks == 0 {
		for q := range s.fresh {
			if e := q.firstUnkept(); e != nil && now.Sub(e.cameAt) >= patience && !q.keeping {
				s.keepNext(q, now)
			}
		}
	}
	if s.ticks%passTicks == 0 {
		for _, g := range s.groups {
			for _, q := range g.queues {
				s.passFirst(q, now)
			}
		}
	}
}

// firstUnkept returns the first entry that is neither kept nor in flight. It returns nil while an entry that is
// not kept is in flight: everything before a kept entry must be kept, too, or the next owner would not know
// their order.
func (q *queue) firstUnkept() *entry {
	for i, e := range q.entries {
		if e.kept {
			continue
		}
		if i == 0 && q.busy {
			return nil
		}
		return e
	}
	return nil
}

// keepNext stores the first entry that is not kept. After that it stores the next one. s.mu is held.
func (s *session) keepNext(q *queue, now time.Time) {
	e := q.firstUnkept()
	if e == nil || s.over {
		if e == nil && !q.busy {
			delete(s.fresh, q)
		}
		return
	}
	why := s.waitReason(q, e)
	next := *e.task
	next.Rev = next.Rev.Next()
	next.HeldAt = now
	q.keeping, e.keeping = true, true
	s.keeping++
	s.m.options.Bus.KeepOrdered(&next, bus.OrderPosition{Sequence: e.number, ShipmentKey: q.shipment, AfterGap: e.gap}, func(err error) {
		go s.noteKept(q, e, &next, why, err)
	})
}

// noteKept notes that an entry is kept, or could not be kept.
func (s *session) noteKept(q *queue, e *entry, next *domain.Task, why domain.Change, err error) {
	now := time.Now()
	s.mu.Lock()
	q.keeping, e.keeping = false, false
	s.keeping--
	var job *deliver.Job
	if err == nil {
		job = &deliver.Job{Task: e.task, Origin: e.event}
		e.task, e.event, e.kept = nil, nil, true
	}
	s.advance(q, now)
	if err == nil {
		s.keepNext(q, now)
	}
	s.mu.Unlock()
	if job != nil {
		s.m.options.Deliverer.RecordWaiting(job, next, why)
	}
}

// waitReason returns why an entry waits.
func (s *session) waitReason(q *queue, e *entry) domain.Change {
	hook := q.group.hook
	switch {
	case hook.Config().Fault != "":
		return domain.ChangeUnreadable
	case hook.Inactive():
		return domain.ChangeInactive
	case e != q.entries[0]:
		return domain.ChangeBehind
	}
	if open, _ := s.m.options.Deliverer.Circuit(hook); open {
		return domain.ChangeCircuit
	}
	return domain.ChangeOverflow
}

// passFirst lets the second entry go out when the first one fails and the second has waited as long as the webhook demands;
// s.mu is held.
func (s *session) passFirst(q *queue, now time.Time) {
	if q.busy || len(q.entries) < 2 || !q.entries[0].failed {
		return
	}
	config := q.group.hook.Config()
	ordered := config.Ordering == domain.OrderingShipment
	if ordered && q.group.hook.Inactive() { // the clock stands still
		q.since = q.since.Add(passTicks * tick)
		return
	}
	if ordered && (config.OrderingMaxWait == 0 || now.Sub(q.since) < config.OrderingMaxWait) {
		return
	}
	q.passed = append(q.passed, q.entries[0])
	q.entries = q.entries[1:]
	q.since, q.gap = now, ordered
	s.advance(q, now)
}

// loadKept reads from ORDER the deliveries that wait for their turn.
func (s *session) loadKept(ctx context.Context) error {
	type kept struct {
		task     *domain.Task
		position bus.OrderPosition
	}
	lists := make(map[domain.WebhookID][]kept)
	err := s.m.options.Bus.Orders(ctx, s.account, func(task *domain.Task, position bus.OrderPosition, err error) {
		if err != nil {
			s.m.options.Logger.Error("a delivery that waits for its turn can't be read and is left", "account", s.account, "error", err)
			return
		}
		lists[task.Webhook] = append(lists[task.Webhook], kept{task, position})
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	s.loaded = make(map[domain.DeliveryID]bool)
	s.mu.Unlock()
	for id, list := range lists {
		hook, err := s.findWebhook(ctx, id)
		if err != nil {
			return err
		}
		if hook == nil {
			for _, k := range list {
				s.m.options.Deliverer.End(&deliver.Job{Task: k.task, Origin: orphanOrigin{s: s, task: k.task}}, domain.ChangeDeleted)
			}
			continue
		}
		slices.SortFunc(list, func(a, b kept) int { return cmp.Compare(a.position.Sequence, b.position.Sequence) })
		now := time.Now()
		s.mu.Lock()
		for _, k := range list {
			q := s.group(hook).queue(k.position.ShipmentKey)
			since := now
			if k.task.HeldAt.After(hook.Config().ActivatedAt) {
				since = k.task.HeldAt
			}
			s.loaded[k.task.Delivery] = true
			s.append(q, &entry{
				delivery: k.task.Delivery, number: k.position.Sequence, cameAt: now, due: k.position.Due,
				kept: true, failed: k.task.Attempts > 0, gap: k.position.AfterGap,
			}, since)
		}
		s.mu.Unlock()
	}
	return s.loadNumbers(ctx)
}

// loadNumbers reads the last numbers of the shipments that have waiting deliveries. It marks each delivery behind
// one that did not arrive, because the owner before may have stopped before it knew of that.
func (s *session) loadNumbers(ctx context.Context) error {
	var keys []recorder.SequenceKey
	s.mu.Lock()
	for id, g := range s.groups {
		for shipment := range g.queues {
			keys = append(keys, recorder.SequenceKey{Webhook: id, Shipment: shipment})
		}
	}
	s.mu.Unlock()
	if len(keys) == 0 {
		return nil
	}
	numbers, err := s.m.numbers.ask(ctx, keys...)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, key := range keys {
		// A kept delivery may have a number that the log does not have yet, and may end before the log has it.
		s.numbers[key] = max(numbers[key].Last, s.lastKept(key))
		s.noteMissed(key, numbers[key].Missed)
	}
	return nil
}

// findWebhook returns a webhook; nil: it was deleted.
func (s *session) findWebhook(ctx context.Context, id domain.WebhookID) (*index.Hook, error) {
	type answer struct {
		hook *index.Hook
		err  error
	}
	found := make(chan answer, 1)
	s.m.options.Index.Find(id, func(hook *index.Hook, err error) { found <- answer{hook, err} })
	select {
	case a := <-found:
		return a.hook, a.err
	case <-ctx.Done():
		return nil, ctx.Err() //nolint:wrapcheck // asked to stop
	}
}

// orphanOrigin is a delivery of a webhook that was deleted.
type orphanOrigin struct {
	deliver.SettledOrigin

	s    *session
	task *domain.Task
}

// Stored implements deliver.Origin.
func (o orphanOrigin) Stored() { go o.s.removeKept(o.task.Webhook, o.task.Delivery, math.MaxInt64) }

// Abandoned implements deliver.Origin: the delivery is found again.
func (orphanOrigin) Abandoned() {}
