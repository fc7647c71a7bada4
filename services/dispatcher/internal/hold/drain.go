package hold

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

const (
	// serialFirst is how many deliveries go out one at a time after an outage.
	serialFirst = 100
	// fullFetch is how many deliveries are fetched and put in order at once. slowFetch is used
	// instead if the webhook's rate lets only few go out.
	fullFetch = 500
	slowFetch = 32
	holdWait  = 500 * time.Millisecond
	// sliceTime is how long a hold queue is drained while other hold queues wait for a permit or for memory.
	sliceTime = time.Second
	// longestPause is the longest pause of a hold queue because of its webhook's rate.
	longestPause = 10 * time.Minute
	// drainShare: one hold queue takes at most this part of the drains' memory. Without it, a
	// slow webhook with large deliveries would soon hold all of the memory.
	drainShare = 16
	// maxRemembered is how many sent deliveries a drain remembers.
	maxRemembered = 100_000
)

// progress is how far the draining of a hold queue is. It outlives the slices of the draining,
// until the hold queue is empty or the webhook takes no more.
type progress struct {
	ramp ramp
	// sent has the revisions of the deliveries that were sent and stored last, because a hold
	// queue may hold a delivery twice.
	sent map[domain.DeliveryID]domain.Revision
	// slowRate: the webhook's rate lets out less than one delivery in holdWait. New deliveries then
	// go behind those that wait, which would get no turn otherwise.
	slowRate bool
}

// fetchSize is how many deliveries are fetched at once.
func (p *progress) fetchSize() int {
	if p.slowRate {
		return slowFetch
	}
	return fullFetch
}

// drain sends deliveries of the hold queue for a slice of time, or until the hold queue is empty or
// the webhook takes no more. At the end of the slice, and while the webhook's rate lets nothing out,
// its permit goes to another hold queue.
func (w *worker) drain(ctx context.Context, hook *index.Hook) (queueState, error) {
	if pause := w.rateWait(hook); pause > 0 {
		return queueState{pause: pause}, nil
	}
	w.head = nil
	head, err := w.headTask(ctx)
	if err != nil || head == nil {
		w.stopDraining(hook)
		return emptyState(), err
	}
	permit, err := w.m.permit(ctx)
	if err != nil {
		return queueState{}, err
	}
	defer permit.giveBack()
	if w.progress == nil {
		gentle := w.gentle.Load() || !head.Overflowed
		w.progress = &progress{ramp: newRamp(gentle), sent: make(map[domain.DeliveryID]domain.Revision)}
	}
	per := hook.Config().RatePerSecond
	w.progress.slowRate = per != nil && *per*holdWait.Seconds() < 1
	fetches := w.progress.fetchSize()
	opened, err := w.m.reader.open(ctx, w.id, 2*fetches)
	if err != nil {
		return queueState{}, err
	}
	d := &drain{
		w: w, hook: hook, progress: w.progress, permit: permit, fetchSize: fetches,
		inFlight: admission.NewMessages(w.m.drainBudget()), ended: signal.New(), tasks: make(map[*bus.Message]*domain.Task), seen: make(map[domain.DeliveryID]domain.Revision),
	}
	attending, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = d.inFlight.Run(attending) }()
	err = d.run(ctx, opened)
	d.confirm(ctx)
	stop()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if closeErr := opened.close(closing); err == nil {
		err = closeErr
	}
	switch d.end {
	case sliceOver:
		return queueState{}, err
	case emptied:
		w.gentle.Store(false)
		w.stopDraining(hook)
		return emptyState(), err
	}
	w.stopDraining(hook)
	return queueState{}, err
}

// drainBudget returns the part of the memory that one hold queue may have in flight: room for at
// least four of the largest deliveries.
func (m *Manager) drainBudget() *admission.Budget {
	room := m.options.DrainRoom
	return room.Part(max(room.Limit()/drainShare, 4*admission.LargestTask))
}

// othersWait reports whether other hold queues wait for a permit or for memory.
func (m *Manager) othersWait() bool {
	return m.waits.Load() > 0 || m.options.DrainRoom.State().Waiting > 0
}

// rateWait returns how long the webhook's rate lets nothing out; 0: the rate lets a delivery out soon.
func (w *worker) rateWait(hook *index.Hook) time.Duration {
	pause := w.m.options.Deliverer.Wait(hook)
	if w.progress == nil || pause <= holdWait {
		return 0
	}
	return min(pause, longestPause)
}

// stopDraining forgets the progress: the next draining starts from the beginning.
func (w *worker) stopDraining(hook *index.Hook) {
	if w.progress != nil {
		w.progress = nil
		w.m.options.Deliverer.SetSerial(hook, false)
	}
}

// ending is the reason why no more is sent.
type ending int

const (
	going     ending = iota // more is sent
	emptied                 // the hold queue is empty
	refused                 // the webhook takes no more
	sliceOver               // it is another hold queue's turn
)

// drain is one slice of the draining of a hold queue.
type drain struct {
	w         *worker
	hook      *index.Hook
	progress  *progress
	permit    *permit
	fetchSize int       // how many deliveries are fetched at once
	until     time.Time // when the slice is over, if others wait; zero: no delivery came yet
	inFlight  *admission.Messages
	end       ending
	underWay  int
	waiting   []*bus.Message
	tasks     map[*bus.Message]*domain.Task
	seen      map[domain.DeliveryID]domain.Revision // revisions of the deliveries that came in this slice

	ended signal.Signal // a delivery ended since the last look
	mu    sync.Mutex
	// stored and abandoned count the deliveries that ended since the last look.
	stored, abandoned int
	// last is stored and not acknowledged yet; all that were stored before last are acknowledged. See confirm.
	last *bus.Message
}

func (d *drain) run(ctx context.Context, queue *queueConsumer) error {
	fetched := make(chan []*bus.Message)
	fetching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.fetch(fetching, queue, fetched) }()
	d.sendFetched(ctx, fetched, stop)
	stop()
	for batch := range fetched { // the last batch, which work did not take
		d.release(batch)
	}
	if fetchErr := <-ended; ctx.Err() == nil && d.end == refused {
		return fetchErr
	}
	return nil
}

// sendFetched sends the fetched deliveries, until there is a reason to stop and all that were sent have ended.
func (d *drain) sendFetched(ctx context.Context, fetched <-chan []*bus.Message, stopFetching func()) {
	quiet := time.NewTimer(holdWait)
	defer quiet.Stop()
	for {
		d.sendMore(ctx)
		if d.end != going {
			stopFetching()
			d.withdraw()
			if d.underWay == 0 {
				return
			}
			d.permit.linger()
		}
		var more <-chan []*bus.Message
		if len(d.waiting) == 0 && d.end == going {
			more = fetched
		}
		select {
		case batch, ok := <-more:
			switch {
			case !ok:
				d.stopSending(refused)
			case len(batch) == 0 && d.underWay == 0:
				d.stopSending(emptied)
			default:
				d.addBatch(ctx, batch)
			}
		case <-d.ended:
			if !d.countEnded() {
				d.stopSending(refused)
			}
		case <-quiet.C:
			d.confirm(ctx)
			if !d.takesMore(ctx) {
				d.stopSending(refused)
			}
		}
		quiet.Reset(holdWait)
	}
}

// stopSending notes the first reason to send no more.
func (d *drain) stopSending(why ending) {
	if d.end == going {
		d.end = why
	}
}

// withdraw gives back the deliveries that were not sent yet.
func (d *drain) withdraw() {
	d.release(d.waiting)
	d.waiting = nil
	d.w.m.options.Deliverer.Recall(d.hook)
}

// countEnded subtracts the deliveries that ended from those under way; false: some were abandoned.
func (d *drain) countEnded() bool {
	d.mu.Lock()
	stored, abandoned := d.stored, d.abandoned
	d.stored, d.abandoned = 0, 0
	d.mu.Unlock()
	d.underWay -= stored + abandoned
	for range stored {
		d.progress.ramp.countSent()
	}
	d.w.m.drained.Add(float64(stored))
	return abandoned == 0
}

// confirm acknowledges the last stored delivery and waits for the server's answer. That answer covers
// all deliveries before it, because they were acknowledged on the same connection. After confirm the
// hold queue's consumer may be closed; an acknowledgement on its way would be lost with the consumer.
func (d *drain) confirm(ctx context.Context) {
	d.mu.Lock()
	last := d.last
	d.last = nil
	d.mu.Unlock()
	if last == nil {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if err := last.AckWait(ctx); err != nil {
		d.w.m.options.Logger.Warn("held deliveries could not be acknowledged; they may be repeated", "webhook", d.w.id, "error", fmt.Errorf("drain: %w", err))
	}
	d.inFlight.Done(last)
}

// sendMore sends deliveries until as many are under way as allowed.
func (d *drain) sendMore(ctx context.Context) {
	if d.end != going {
		return
	}
	if !d.until.IsZero() && time.Now().After(d.until) && d.w.m.othersWait() {
		d.stopSending(sliceOver)
		return
	}
	ramp := &d.progress.ramp
	ramp.limit = d.w.m.options.Deliverer.Cap(d.hook)
	for len(d.waiting) > 0 && d.underWay < ramp.window() {
		if !d.takesMore(ctx) {
			d.stopSending(refused)
			return
		}
		if d.w.m.options.Deliverer.Wait(d.hook) > holdWait {
			d.progress.slowRate = true
			d.stopSending(sliceOver)
			break
		}
		d.send(d.waiting[0])
		d.waiting = d.waiting[1:]
	}
	d.w.m.options.Deliverer.SetSerial(d.hook, ramp.serial() || d.progress.slowRate)
}

// takesMore reports whether the webhook still takes deliveries from the hold queue.
func (d *drain) takesMore(ctx context.Context) bool {
	if ctx.Err() != nil || d.hook.Config().Deleted || d.hook.Config().Delivery == domain.DeliveryPull || d.hook.Inactive() {
		return false
	}
	open, _ := d.w.m.options.Deliverer.Circuit(d.hook)
	return !open
}

// fetch fetches batches until ctx is done; an empty batch says that nothing came for holdWait.
func (d *drain) fetch(ctx context.Context, queue *queueConsumer, fetched chan<- []*bus.Message) error {
	defer close(fetched)
	for ctx.Err() == nil {
		batch, err := queue.fetch(ctx, d.inFlight, d.fetchSize, holdWait)
		if ctx.Err() != nil {
			d.release(batch)
			return nil
		}
		if err != nil {
			d.release(batch)
			return err //nolint:wrapcheck // says what was being done
		}
		select {
		case fetched <- batch:
		case <-ctx.Done():
			d.release(batch)
			return nil
		}
	}
	return nil
}

// addBatch puts a batch into the order of publication and leaves out stale deliveries.
func (d *drain) addBatch(ctx context.Context, batch []*bus.Message) {
	if len(batch) == 0 {
		return
	}
	if d.until.IsZero() {
		d.until = time.Now().Add(sliceTime)
	}
	var tasks []*domain.Task
	for _, m := range batch {
		task, err := bus.ParseTask(m.Header(), m.Body())
		if err != nil {
			d.w.m.options.Logger.Error("a held delivery can't be read and is set aside", "sequence", m.Sequence, "error", err)
			d.w.m.options.Bus.SetAside(m.Entry(), err, func(err error) {
				d.inFlight.Done(m)
				if err == nil { // on an error the message stays in the hold queue
					m.Ack()
				}
			})
			continue
		}
		d.tasks[m] = d.w.resume(d.hook, task)
		tasks = append(tasks, task)
	}
	fresh := d.w.latestTasks(ctx, tasks)
	for _, m := range batch {
		task, ok := d.tasks[m]
		if !ok {
			continue
		}
		// A delivery that failed and came back has a later revision, so it is no copy.
		twice := d.cameBefore(task)
		keepLatest(d.seen, task.Delivery, task.Rev)
		if twice || !fresh[task.Delivery] {
			delete(d.tasks, m)
			d.inFlight.Done(m)
			m.Ack()
			continue
		}
		d.waiting = append(d.waiting, m)
	}
	slices.SortStableFunc(d.waiting, func(a, b *bus.Message) int {
		ta, tb := d.tasks[a], d.tasks[b]
		if ta.EventSeq > 0 && tb.EventSeq > 0 {
			return cmp.Compare(ta.EventSeq, tb.EventSeq)
		}
		return ta.ReceivedAt.Compare(tb.ReceivedAt)
	})
}

// cameBefore reports whether the same or a newer revision of a delivery came before.
func (d *drain) cameBefore(task *domain.Task) bool {
	if last, ok := d.seen[task.Delivery]; ok && task.Rev <= last {
		return true
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	last, ok := d.progress.sent[task.Delivery]
	return ok && task.Rev <= last
}

// keepLatest keeps a delivery's latest revision.
func keepLatest(revisions map[domain.DeliveryID]domain.Revision, id domain.DeliveryID, rev domain.Revision) {
	if len(revisions) >= maxRemembered {
		clear(revisions)
	}
	revisions[id] = max(rev, revisions[id])
}

func (d *drain) send(m *bus.Message) {
	task := d.tasks[m]
	delete(d.tasks, m)
	d.underWay++
	held := *task
	held.HeldAt, held.Overflowed = time.Time{}, false
	d.w.m.options.Deliverer.Offer(d.hook, &deliver.Job{Task: &held, Lane: deliver.Drained, Origin: &drainOrigin{d: d, message: m, delivery: task.Delivery, rev: task.Rev}})
}

func (d *drain) release(messages []*bus.Message) {
	for _, m := range messages {
		d.inFlight.Done(m)
		m.Release()
	}
}

// drainOrigin is a message of a hold queue in flight.
type drainOrigin struct {
	deliver.SettledOrigin

	d        *drain
	message  *bus.Message
	delivery domain.DeliveryID
	rev      domain.Revision
}

// Stored implements deliver.Origin. It acknowledges the message that was stored before this one;
// confirm acknowledges the last. Waiting for the server's answer to each acknowledgement would cost
// a goroutine and a request to the bus for each delivery.
func (o *drainOrigin) Stored() {
	d := o.d
	d.mu.Lock()
	before := d.last
	d.last = o.message
	d.stored++
	keepLatest(d.progress.sent, o.delivery, o.rev)
	if before != nil {
		before.Ack() // under the lock, because the answer to the last acknowledgement must come last
	}
	d.mu.Unlock()
	if before != nil {
		d.inFlight.Done(before)
	}
	d.ended.Give()
}

// Abandoned implements deliver.Origin.
func (o *drainOrigin) Abandoned() {
	d := o.d
	d.inFlight.Done(o.message)
	o.message.Release()
	d.mu.Lock()
	d.abandoned++
	d.mu.Unlock()
	d.ended.Give()
}

// ramp limits how many deliveries of a draining hold queue may be under way.
type ramp struct {
	sent   int
	size   int
	gentle bool
	limit  int
}

func newRamp(gentle bool) ramp {
	return ramp{size: 1, gentle: gentle}
}

// serial reports whether deliveries go one at a time.
func (r *ramp) serial() bool { return r.gentle && r.sent < serialFirst }

// ahead is how many deliveries a hold queue at full rate has under way beyond the webhook's cap. The
// deliverer keeps to that cap; these deliveries wait for a slot, or for their outcome to be stored.
const ahead = 256

// window returns how many deliveries may be under way. The number grows with the deliveries that
// were sent, until it reaches the webhook's cap.
func (r *ramp) window() int {
	switch {
	case r.serial():
		return 1
	case r.gentle && r.size < r.limit:
		return max(1, r.size)
	}
	return max(1, r.limit) + ahead
}

// countSent counts a delivery that was sent. From serialFirst deliveries on, it doubles the window whenever their number
// is a multiple of 8 windows.
func (r *ramp) countSent() {
	r.sent++
	if r.sent >= serialFirst && r.sent%(8*r.size) == 0 {
		r.size *= 2
	}
}
