// Package retry takes deliveries that are due: retries after their wait, and tests, retries and
// replays that an API caller asked for. The later stages treat all of them alike.
package retry

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

// Bus has the due deliveries.
type Bus interface {
	admission.Bus
	SetAside(e *bus.Entry, cause error, done func(error))
}

// Deliverer takes deliveries.
type Deliverer interface {
	Offer(hook *index.Hook, job *deliver.Job)
	End(job *deliver.Job, how domain.Change)
}

// Index knows the webhooks, or asks the database for them.
type Index interface {
	Find(id domain.WebhookID, answer func(*index.Hook, error))
}

// DueDeliveries consumes the due deliveries of the shards that this dispatcher owns.
type DueDeliveries struct {
	bus       Bus
	deliverer Deliverer
	index     Index
	log       *slog.Logger
	room      *admission.Budget
	inFlight  *admission.Messages

	mu        sync.Mutex
	begin     func(shard int) (stop func())         // consumes a shard within Run; nil: not running
	attempted map[domain.DeliveryID]domain.Revision // the revision that is attempted or being stored
	stops     map[int]func()
	owned     map[int]bool
	workers   sync.WaitGroup
}

// New returns DueDeliveries. The messages that it has in flight take room; nil: there is no bound.
func New(source Bus, deliverer Deliverer, hooks Index, room *admission.Budget, log *slog.Logger) *DueDeliveries {
	return &DueDeliveries{
		bus: source, deliverer: deliverer, index: hooks, log: log, room: room, inFlight: admission.NewMessages(room),
		attempted: make(map[domain.DeliveryID]domain.Revision), stops: make(map[int]func()), owned: make(map[int]bool),
	}
}

// Own starts or ends the consumption of a shard.
func (d *DueDeliveries) Own(shard int, owned bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.owned[shard] = owned
	d.applyOwnership(shard)
}

// Run consumes until ctx is done.
func (d *DueDeliveries) Run(ctx context.Context) error {
	d.mu.Lock()
	d.begin = func(shard int) func() {
		consuming, stop := context.WithCancel(ctx)
		d.workers.Go(func() { d.consume(consuming, shard) })
		return stop
	}
	for shard := range domain.Shards {
		d.applyOwnership(shard)
	}
	d.mu.Unlock()
	<-ctx.Done()
	d.mu.Lock()
	d.begin = nil
	d.mu.Unlock()
	d.workers.Wait()
	return nil
}

// Attend keeps the deliveries in flight from going to other dispatchers,
// until ctx is done. It outlives Run.
func (d *DueDeliveries) Attend(ctx context.Context) error { return d.inFlight.Run(ctx) }

// applyOwnership begins to consume a shard that this process owns, and stops consuming a shard that this process no
// longer owns. The caller holds d.mu.
func (d *DueDeliveries) applyOwnership(shard int) {
	stop, running := d.stops[shard]
	switch {
	case d.owned[shard] && !running && d.begin != nil:
		d.stops[shard] = d.begin(shard)
	case !d.owned[shard] && running:
		stop()
		delete(d.stops, shard)
	}
}

func (d *DueDeliveries) handle(ctx context.Context, m *bus.Message) {
	if !d.inFlight.Add(m) {
		return
	}
	task, err := bus.ParseTask(m.Header(), m.Body())
	if err != nil {
		// This build can't deliver it. The message must neither block others nor be lost.
		d.log.Error("a due delivery can't be read and is set aside", "sequence", m.Sequence, "error", err)
		d.bus.SetAside(m.Entry(), err, func(err error) {
			d.inFlight.Done(m)
			if err == nil { // on an error the message comes again
				m.Ack()
			}
		})
		return
	}
	if task.Request == "" && !d.mark(task) {
		// The delivery is being attempted. This message is a copy, and the outcome of the attempt
		// is stored in a new message. A copy that comes after that is not dropped, because its
		// schedule may have replaced the newer one. A newer revision is not dropped either: it is
		// the outcome of the attempt, due already while its record still waits for the bus.
		d.inFlight.Done(m)
		m.Ack()
		return
	}
	job := &deliver.Job{Task: task, Lane: deliver.Due, Origin: &retryOrigin{d: d, message: m, delivery: task.Delivery, rev: task.Rev}}
	if left := min(time.Until(bus.DueAt(m.Header())), longestWait); left > 0 {
		d.workers.Go(func() { d.wait(ctx, left, job) })
		return
	}
	d.offer(ctx, job)
}

// longestWait bounds how long a delivery waits here until it is due. The bus hands it out 250 ms before
// that time, but the clocks of two machines may differ by more.
const longestWait = time.Second

// wait offers a job when it is due. If ctx is done before that, another dispatcher gets the delivery.
func (d *DueDeliveries) wait(ctx context.Context, left time.Duration, job *deliver.Job) {
	timer := time.NewTimer(left)
	defer timer.Stop()
	select {
	case <-timer.C:
		d.offer(ctx, job)
	case <-ctx.Done():
		job.Origin.Abandoned()
	}
}

func (d *DueDeliveries) offer(ctx context.Context, job *deliver.Job) {
	d.index.Find(job.Task.Webhook, func(hook *index.Hook, err error) {
		switch {
		case hook != nil:
			d.deliverer.Offer(hook, job)
		case err != nil || ctx.Err() != nil:
			job.Origin.Abandoned()
		default:
			d.deliverer.End(job, domain.ChangeDeleted)
		}
	})
}

// mark marks a delivery as being attempted; false: the same or a newer revision is being attempted already.
func (d *DueDeliveries) mark(task *domain.Task) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	if rev, ok := d.attempted[task.Delivery]; ok && rev >= task.Rev {
		return false
	}
	d.attempted[task.Delivery] = task.Rev
	return true
}

// unmark removes the mark that mark made for a revision of a delivery.
func (d *DueDeliveries) unmark(id domain.DeliveryID, rev domain.Revision) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.attempted[id] == rev {
		delete(d.attempted, id)
	}
}

// retryOrigin is a message of RETRIES in flight.
type retryOrigin struct {
	deliver.SettledOrigin

	d        *DueDeliveries
	message  *bus.Message
	delivery domain.DeliveryID
	rev      domain.Revision
}

// Stored implements deliver.Origin. The message that replaces this one is stored, so Stored waits
// until the server confirms that this one is acknowledged; otherwise the delivery could be repeated. A
// message with the same delivery that arrives before that is the next attempt, not a duplicate.
func (o *retryOrigin) Stored() {
	o.d.unmark(o.delivery, o.rev)
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
		defer cancel()
		if err := o.message.AckWait(ctx); err != nil {
			o.d.log.Warn("a due delivery could not be acknowledged; it may be repeated", "error", err)
		}
		o.d.inFlight.Done(o.message)
	}()
}

// Abandoned implements deliver.Origin.
func (o *retryOrigin) Abandoned() {
	o.d.unmark(o.delivery, o.rev)
	o.d.inFlight.Done(o.message)
	o.message.Release()
}
