package order

import (
	"context"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/recorder"
)

const (
	// ahead is how many deliveries the deliverer may have beyond the webhook's cap. The deliverer keeps
	// to the cap itself; these deliveries wait for a slot, or until their outcome is stored. aheadKept
	// is the same for deliveries that were read from ORDER: fewer, because their bodies are in memory.
	ahead     = 256
	aheadKept = 32
	// readers is how many deliveries are read from ORDER at once.
	readers = 16
)

// pump offers the deliveries that may go out.
func (s *session) pump(ctx context.Context) {
	now := time.Now()
	var jobs, kept []*dueDelivery
	s.mu.Lock()
	for id, g := range s.groups {
		if s.over {
			break
		}
		if len(g.queues) == 0 && g.offered == 0 {
			delete(s.groups, id)
			continue
		}
		jobs, kept = s.takeDue(g, now, jobs, kept)
	}
	s.mu.Unlock()
	for _, t := range jobs {
		t.offer()
	}
	if len(kept) > 0 {
		go s.sendKept(ctx, kept)
	}
}

// takeDue takes the deliveries of a webhook that may go out now; s.mu is held.
func (s *session) takeDue(g *group, now time.Time, jobs, kept []*dueDelivery) (_, _ []*dueDelivery) {
	if len(g.due) == 0 || g.hook.Inactive() && !g.hook.Config().Deleted {
		return jobs, kept
	}
	most, probe := s.m.options.Deliverer.Cap(g.hook), false
	bodies := most + aheadKept
	most += ahead
	if open, _ := s.m.options.Deliverer.Circuit(g.hook); open && !g.hook.Config().Deleted {
		if !s.m.options.Deliverer.TryProbe(g.hook) {
			return jobs, kept
		}
		most, bodies, probe = g.offered+1, g.bodies+1, true
	}
	sent := false
	for len(g.due) > 0 && g.offered < most && g.bodies < bodies {
		q := g.due[0]
		g.due[0] = nil
		g.due = g.due[1:]
		q.due = false
		e, _ := q.next(now)
		if e == nil {
			s.advance(q, now)
			continue
		}
		if len(q.entries) > 0 && e == q.entries[0] && q.gap {
			e.gap, q.gap = true, false
			s.m.metrics.gaps.Inc()
		}
		q.busy, sent = true, true
		g.offered++
		t := &dueDelivery{s: s, q: q, e: e, probe: probe}
		if e.task == nil {
			g.bodies++
			t.fromOrder = true
			kept = append(kept, t)
		} else {
			t.task = e.task
			jobs = append(jobs, t)
		}
	}
	if probe && !sent {
		s.m.options.Deliverer.DropProbe(g.hook)
	}
	return jobs, kept
}

// sendKept reads deliveries from ORDER and offers them. It leaves out those that have ended: another run of
// them was asked for, or the owner before recorded their end and stopped before it removed them from ORDER.
func (s *session) sendKept(ctx context.Context, kept []*dueDelivery) {
	ids := make([]domain.DeliveryID, len(kept))
	for i, t := range kept {
		ids[i] = t.e.delivery
	}
	asking, cancel := context.WithTimeout(ctx, askTime)
	revs, err := s.m.options.Log.Revs(asking, s.account, ids)
	cancel()
	if err != nil {
		s.m.options.Logger.Debug("the delivery log can't be asked about deliveries that waited", "error", err)
	}
	slots := make(chan struct{}, readers)
	var reading sync.WaitGroup
	for _, t := range kept {
		slots <- struct{}{}
		reading.Go(func() {
			defer func() { <-slots }()
			t.readAndOffer(ctx, revs[t.e.delivery])
		})
	}
	reading.Wait()
}

// dueDelivery is a delivery that the deliverer has, or that is being read for the deliverer. It implements
// deliver.Origin and deliver.Keeper.
type dueDelivery struct {
	s         *session
	q         *queue
	e         *entry
	task      *domain.Task
	job       *deliver.Job
	probe     bool
	fromOrder bool // the delivery was read from ORDER

	stored uint64 // the sequence of its message in ORDER; 0: there is none

	retrying bool // another attempt follows
	next     time.Time
}

// readAndOffer reads the delivery from ORDER and offers it.
func (t *dueDelivery) readAndOffer(ctx context.Context, rev domain.Revision) {
	reading, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	subject := bus.OrderSubject(&domain.Task{Account: t.s.account, Webhook: t.q.group.hook.ID, Delivery: t.e.delivery})
	message, err := t.s.m.options.Bus.Stream(bus.StreamOrder).Newest(reading, subject)
	switch {
	case err != nil:
		t.Abandoned()
		return
	case message == nil: // the message is lost and will be restored, or the delivery has ended and was cleared
		t.removeEndedElsewhere(reading)
		return
	}
	t.stored = message.Sequence
	task, err := bus.ParseTask(message.Header, message.Body)
	if err != nil {
		t.s.m.options.Logger.Error("a delivery that waited for its turn can't be read", "delivery", t.e.delivery, "error", err)
		t.removeUnsent(false)
		return
	}
	if task.Rev.WentOn(rev) { // compared with the message as it is now: the relay may have restored a later state
		t.removeEndedElsewhere(reading)
		return
	}
	task.Sequence, task.Shipment = t.e.number, t.q.shipment
	task.HeldAt = time.Time{}
	t.task = task
	t.offer()
}

// removeEndedElsewhere removes a delivery that has ended elsewhere. The log knows whether the delivery has arrived,
// once it has all records that are on the bus.
func (t *dueDelivery) removeEndedElsewhere(ctx context.Context) {
	key := recorder.SequenceKey{Webhook: t.q.group.hook.ID, Shipment: t.q.shipment}
	err := t.s.awaitRecords(ctx)
	var numbers map[recorder.SequenceKey]recorder.Numbers
	if err == nil {
		numbers, err = t.s.m.numbers.ask(ctx, key)
	}
	if err != nil {
		t.Abandoned()
		return
	}
	t.removeUnsent(numbers[key].Missed != t.e.number)
}

// removeUnsent removes a delivery that has ended already, without an attempt.
func (t *dueDelivery) removeUnsent(arrived bool) {
	if t.probe {
		t.s.m.options.Deliverer.DropProbe(t.q.group.hook)
	}
	t.removeEntry(arrived)
}

func (t *dueDelivery) offer() {
	t.task.Gap = t.e.gap
	t.job = &deliver.Job{Task: t.task, Origin: t, Lane: deliver.Ordered, Keeper: t, Probe: t.probe}
	t.s.m.options.Deliverer.Offer(t.q.group.hook, t.job)
}

// Schedule implements deliver.Keeper.
func (t *dueDelivery) Schedule(task *domain.Task, at time.Time, done func(error)) {
	t.keepTask(task, at, done)
}

// Hold implements deliver.Keeper.
func (t *dueDelivery) Hold(task *domain.Task, done func(error)) { t.keepTask(task, time.Time{}, done) }

func (t *dueDelivery) keepTask(task *domain.Task, at time.Time, done func(error)) {
	position := bus.OrderPosition{Sequence: t.e.number, ShipmentKey: t.q.shipment, Due: at, AfterGap: t.e.gap}
	t.s.m.options.Bus.KeepOrdered(task, position, func(err error) {
		if err == nil {
			t.retrying, t.next = true, at
		}
		done(err)
	})
}

// Emitting implements deliver.Origin.
func (t *dueDelivery) Emitting() *domain.Event {
	if t.e.event == nil {
		return nil
	}
	return t.e.event.Emitting()
}

// SettlingEvent implements deliver.Origin.
func (t *dueDelivery) SettlingEvent() record.SettlingEvent {
	if t.e.event == nil {
		return nil
	}
	return t.e.event.SettlingEvent()
}

// Stored implements deliver.Origin. Only now may the next delivery of the shipment go out.
func (t *dueDelivery) Stored() {
	if !t.retrying {
		t.removeEntry(t.job.Status() == domain.StatusDelivered)
		return
	}
	s, now := t.s, time.Now()
	s.mu.Lock()
	event := t.e.event
	t.e.event, t.e.task, t.e.kept, t.e.failed = nil, nil, true, true
	t.e.due = t.next
	t.release()
	s.advance(t.q, now)
	s.mu.Unlock()
	if event != nil {
		event.Stored()
	}
	s.wake()
}

// removeEntry removes the delivery from its queue.
func (t *dueDelivery) removeEntry(arrived bool) {
	s, now := t.s, time.Now()
	s.mu.Lock()
	event := t.e.event
	t.release()
	s.remove(t.q, t.e, arrived, now)
	s.advance(t.q, now)
	s.mu.Unlock()
	if event != nil {
		event.Stored()
	}
	if t.stored > 0 { // a message that the relay restores after this one stays
		go s.removeKept(t.q.group.hook.ID, t.e.delivery, t.stored)
	}
	s.wake()
}

// release ends the count of the delivery as one that the deliverer has; s.mu is held.
func (t *dueDelivery) release() {
	t.q.busy = false
	t.q.group.offered--
	if t.fromOrder {
		t.q.group.bodies--
	}
}

// Abandoned implements deliver.Origin. The delivery stays in its queue, and
// is tried again with the next tick.
func (t *dueDelivery) Abandoned() {
	s := t.s
	if t.probe {
		s.m.options.Deliverer.DropProbe(t.q.group.hook)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	t.release()
	t.q.due = true
	t.q.group.due = append([]*queue{t.q}, t.q.group.due...)
}

// removeKept removes a delivery that has ended from ORDER. If that fails, the next owner finds the delivery
// there, and the log tells that it has ended.
func (s *session) removeKept(webhook domain.WebhookID, id domain.DeliveryID, last uint64) {
	ctx, cancel := context.WithTimeout(context.Background(), askTime)
	defer cancel()
	subject := bus.OrderSubject(&domain.Task{Account: s.account, Webhook: webhook, Delivery: id})
	if err := s.m.options.Bus.Stream(bus.StreamOrder).Clear(ctx, subject, last); err != nil {
		s.m.options.Logger.Debug("a delivery that ended can't be removed from the bus", "delivery", id, "error", err)
	}
}
