package lane

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

const (
	// serialFirst deliveries go out one at a time after an outage.
	serialFirst = 100
	// fetchMost is how many deliveries are fetched and put in order at once.
	fetchMost = 500
	laneWait  = 500 * time.Millisecond
	// remembered is of how many deliveries a drain knows that it has sent them.
	remembered = 100_000
)

// drain sends what the lane holds, until it is empty or the webhook takes no more.
func (w *worker) drain(ctx context.Context, hook *index.Hook) (time.Duration, error) {
	w.head = nil
	head, err := w.look(ctx)
	if err != nil || head == nil {
		return idleFor, err
	}
	select {
	case w.m.drains <- struct{}{}:
		defer func() { <-w.m.drains }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	opened, err := w.m.options.Bus.OpenLane(ctx, w.id, 2*fetchMost)
	if err != nil {
		return 0, err
	}
	gentle := w.gentle.Load() || !head.Spilled
	d := &drain{w: w, hook: hook, inHand: bus.NewInHand(), ended: make(chan struct{}, 1), ramp: newRamp(gentle)}
	attending, stop := context.WithCancel(context.WithoutCancel(ctx))
	go func() { _ = d.inHand.Run(attending) }()
	empty, err := d.run(ctx, opened)
	w.m.options.Deliverer.SetSerial(hook, false)
	d.confirm(ctx)
	stop()
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	if closeErr := opened.Close(closing); err == nil {
		err = closeErr
	}
	if empty {
		w.gentle.Store(false)
		return idleFor, err
	}
	return 0, err
}

// drain is one draining of a lane.
type drain struct {
	w       *worker
	hook    *index.Hook
	inHand  *bus.InHand
	flying  int
	ramp    ramp
	waiting []*bus.Message
	tasks   map[*bus.Message]*domain.Task
	seen    map[domain.DeliveryID]int64 // revisions of what was sent last: a lane may hold it twice

	ended chan struct{} // something came to its end since the last look
	mu    sync.Mutex
	// stored and abandoned count what came to its end since the last look.
	stored, abandoned int
	// last is stored and not acknowledged yet; what was stored before it is. See confirm.
	last *bus.Message
}

func (d *drain) run(ctx context.Context, lane *bus.Lane) (empty bool, err error) {
	fetched := make(chan []*bus.Message)
	fetching, stop := context.WithCancel(ctx)
	ended := make(chan error, 1)
	go func() { ended <- d.fetch(fetching, lane, fetched) }()
	d.tasks, d.seen = make(map[*bus.Message]*domain.Task), make(map[domain.DeliveryID]int64)
	empty = d.work(ctx, fetched)
	stop()
	for batch := range fetched { // the last one, that nobody takes any more
		d.release(batch)
	}
	if fetchErr := <-ended; ctx.Err() == nil && !empty {
		err = fetchErr
	}
	return empty, err
}

// work sends what is fetched, until the lane is empty or the webhook takes no more.
func (d *drain) work(ctx context.Context, fetched <-chan []*bus.Message) (empty bool) {
	refused := false
	quiet := time.NewTimer(laneWait)
	defer quiet.Stop()
	for {
		refused = refused || !d.sendMore(ctx)
		if refused && d.flying == 0 {
			d.releaseWaiting()
			return false
		}
		var more <-chan []*bus.Message
		if len(d.waiting) == 0 && !refused {
			more = fetched
		}
		select {
		case batch, ok := <-more:
			if !ok {
				refused = true
				continue
			}
			if len(batch) == 0 && d.flying == 0 {
				return true
			}
			d.take(ctx, batch)
		case <-d.ended:
			refused = !d.land() || refused
		case <-quiet.C:
			d.confirm(ctx)
			refused = refused || !d.open(ctx)
		}
		quiet.Reset(laneWait)
	}
}

// land takes what came to its end off those under way; false: some of it was abandoned.
func (d *drain) land() bool {
	d.mu.Lock()
	stored, abandoned := d.stored, d.abandoned
	d.stored, d.abandoned = 0, 0
	d.mu.Unlock()
	d.flying -= stored + abandoned
	for range stored {
		d.ramp.done()
	}
	d.w.m.drained.Add(float64(stored))
	return abandoned == 0
}

// confirm acknowledges the last of what was stored and waits for the server's word, which
// is that of all before it, too: they were acknowledged on the same connection. The lane's
// consumer may be closed then; an acknowledgement on its way would be lost with it.
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
	d.inHand.Done(last)
}

// sendMore sends as many as may be under way; false: the webhook takes no more.
func (d *drain) sendMore(ctx context.Context) bool {
	d.ramp.limit = d.w.m.options.Deliverer.Cap(d.hook)
	d.w.m.options.Deliverer.SetSerial(d.hook, d.ramp.serial())
	for len(d.waiting) > 0 && d.flying < d.ramp.window() {
		if !d.open(ctx) {
			return false
		}
		d.send(d.waiting[0])
		d.waiting = d.waiting[1:]
	}
	return true
}

// open tells whether the webhook still takes what the lane brings.
func (d *drain) open(ctx context.Context) bool {
	if ctx.Err() != nil || d.hook.Config().Deleted || d.hook.Inactive() {
		return false
	}
	open, _ := d.w.m.options.Deliverer.Circuit(d.hook)
	return !open
}

// fetch brings batches until ctx is done; an empty one tells that nothing came for laneWait.
func (d *drain) fetch(ctx context.Context, lane *bus.Lane, fetched chan<- []*bus.Message) error {
	defer close(fetched)
	for ctx.Err() == nil {
		batch, err := lane.Fetch(fetchMost, laneWait)
		for _, m := range batch {
			d.inHand.Add(m)
		}
		if err != nil {
			d.release(batch)
			return err
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

// take puts a batch into order of publication and leaves out what is stale.
func (d *drain) take(ctx context.Context, batch []*bus.Message) {
	if len(batch) == 0 {
		return
	}
	var tasks []*domain.Task
	for _, m := range batch {
		task, err := bus.ParseTask(m.Header(), m.Body())
		if err != nil {
			d.w.m.options.Logger.Error("held delivery can't be read and is set aside", "sequence", m.Sequence, "error", err)
			d.w.m.options.Bus.SetAside(m, err, func(err error) {
				d.inHand.Done(m)
				if err == nil { // else it stays in the lane
					m.Ack()
				}
			})
			continue
		}
		d.tasks[m] = d.w.resume(d.hook, task)
		tasks = append(tasks, task)
	}
	fresh := d.w.fresh(ctx, tasks)
	for _, m := range batch {
		task, ok := d.tasks[m]
		if !ok {
			continue
		}
		// One that failed and came back has a later revision: that is no copy.
		last, sent := d.seen[task.Delivery]
		twice := sent && task.Rev <= last
		if len(d.seen) >= remembered {
			clear(d.seen)
		}
		d.seen[task.Delivery] = max(task.Rev, last)
		if twice || !fresh[task.Delivery] {
			delete(d.tasks, m)
			d.inHand.Done(m)
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

func (d *drain) send(m *bus.Message) {
	task := d.tasks[m]
	delete(d.tasks, m)
	d.flying++
	held := *task
	held.HeldAt, held.Spilled = time.Time{}, false
	d.w.m.options.Deliverer.Offer(d.hook, &deliver.Job{Task: &held, FromLane: true, Origin: &fromLane{d: d, message: m}})
}

func (d *drain) releaseWaiting() {
	d.release(d.waiting)
	d.waiting = nil
}

func (d *drain) release(messages []*bus.Message) {
	for _, m := range messages {
		d.inHand.Done(m)
		m.Release()
	}
}

// fromLane is a message of a lane in hand.
type fromLane struct {
	d       *drain
	message *bus.Message
}

// Emitting implements deliver.Origin.
func (o *fromLane) Emitting() *domain.Event { return nil }

// Stored implements deliver.Origin. It acknowledges what was stored before this message,
// which stays to be confirmed: to wait for the server's word on each took a goroutine and a
// request of the bus for each delivery.
func (o *fromLane) Stored() {
	d := o.d
	d.mu.Lock()
	before := d.last
	d.last = o.message
	d.stored++
	if before != nil {
		before.Ack() // under the lock, as the last one's word is to be the last
	}
	d.mu.Unlock()
	if before != nil {
		d.inHand.Done(before)
	}
	d.wake()
}

// Abandoned implements deliver.Origin.
func (o *fromLane) Abandoned() {
	d := o.d
	d.inHand.Done(o.message)
	o.message.Release()
	d.mu.Lock()
	d.abandoned++
	d.mu.Unlock()
	d.wake()
}

func (d *drain) wake() {
	select {
	case d.ended <- struct{}{}:
	default:
	}
}

// ramp is how many deliveries of a draining lane may be under way.
type ramp struct {
	sent   int
	size   int
	gentle bool
	limit  int
}

func newRamp(gentle bool) ramp {
	return ramp{size: 1, gentle: gentle}
}

// serial tells whether deliveries go one at a time.
func (r *ramp) serial() bool { return r.gentle && r.sent < serialFirst }

// ahead is how many deliveries a lane at full rate has in hand beyond the webhook's cap,
// which the deliverer keeps: they wait for a slot, or for their outcome to be stored.
const ahead = 256

// window returns the number that may be under way. It grows with what was sent until it
// reaches the webhook's cap.
func (r *ramp) window() int {
	switch {
	case r.serial():
		return 1
	case r.gentle && r.size < r.limit:
		return max(1, r.size)
	}
	return max(1, r.limit) + ahead
}

// done counts a delivery that was sent, and doubles the window after each eight of them.
func (r *ramp) done() {
	r.sent++
	if r.sent >= serialFirst && r.sent%(8*r.size) == 0 {
		r.size *= 2
	}
}
