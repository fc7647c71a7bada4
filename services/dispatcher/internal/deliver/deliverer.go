package deliver

import (
	"context"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"go.opentelemetry.io/otel/trace"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// Keeper stores deliveries that wait; done is called exactly once.
type Keeper interface {
	Schedule(task *domain.Task, at time.Time, done func(error))
	Hold(task *domain.Task, done func(error))
}

// Emitter takes items for the record.
type Emitter interface{ Emit(record.Item) }

// Hooks is the part of the index that deliveries need.
type Hooks interface {
	Hook(domain.WebhookID) (*index.Hook, bool)
	Disable(hook *index.Hook, change domain.HealthChange)
}

// Owners tells how webhooks are divided among dispatchers.
type Owners interface {
	Owns(domain.WebhookID) bool
	OwnsAccount(name string) bool
	Live() int
}

// Notices tells other parts and processes of changes that they must know at once.
type Notices interface {
	DeliveryHeld(id domain.WebhookID, reason string)
	CircuitChanged(id domain.WebhookID, open bool)
}

// Options of a Deliverer.
type Options struct {
	Poster   Poster
	Keeper   Keeper
	Emitter  Emitter
	Hooks    Hooks
	Owners   Owners
	Notices  Notices
	Logger   *slog.Logger
	Metrics  *Metrics
	Tracer   trace.Tracer // nil: no traces
	Schedule []time.Duration
	// Retention ends a delivery when its event was accepted longer ago than this.
	Retention time.Duration
	// DisableAfter is how long all attempts to a webhook may fail before the webhook becomes inactive.
	DisableAfter time.Duration
	UserAgent    string
	Limits       admission.Options
	// Cancelled reports whether a delivery is known to belong to a job that was cancelled before the delivery's attempt;
	// nil: no delivery does. Cancelled must not block. AskCancelled is also asked before an attempt, and may block.
	Cancelled    func(*domain.Task) bool
	AskCancelled func(*domain.Task) bool
	// Watch is called after each attempt; nil: nothing is called. It must not block.
	Watch func(MadeAttempt)
}

// MadeAttempt is an attempt that was made, and what followed from it.
type MadeAttempt struct {
	Webhook   domain.WebhookID
	URL       string // of the webhook
	EventID   string
	EventType domain.EventType
	Attempt   domain.Attempt
	Status    domain.Status // of the delivery, now
	Wait      time.Duration // until the next attempt; 0: none is due
}

// warnInterval is the shortest time between two warnings that the bus takes no deliveries.
const warnInterval = 10 * time.Second

// Deliverer sends deliveries.
type Deliverer struct {
	options         Options
	metrics         *Metrics
	mu              sync.RWMutex
	endpoints       map[*index.Hook]*endpoint
	process         *admission.Process
	limiter         *admission.Limiter[*attempt]
	pacer           admission.Pacer
	busy            endpointList
	changedCircuits endpointList // the webhooks with a circuit to be recorded
	startedAt       time.Time

	warnedAt atomic.Int64 // when warnNotKept last warned, in nanoseconds since startedAt; 0: never
	closing  atomic.Bool
	stop     chan struct{} // closed: nothing is tried again
	once     sync.Once
}

// New returns a deliverer; Run makes it check slow attempts and queues.
func New(options Options) *Deliverer {
	d := &Deliverer{
		options: options, metrics: options.Metrics, endpoints: make(map[*index.Hook]*endpoint),
		process: admission.NewProcess(options.Limits), startedAt: time.Now(), stop: make(chan struct{}),
	}
	d.limiter = admission.NewLimiter(d.process, d.run)
	options.Metrics.deliverer.Store(d)
	return d
}

// Room waits until another event may be taken.
func (d *Deliverer) Room(ctx context.Context) error { return d.process.Room(ctx) }

// Bounds returns all limits of the deliverer.
func (d *Deliverer) Bounds() []admission.Bound { return d.process.Bounds() }

// Offer hands a job to the deliverer, which attempts it at once or soon, or puts it into the hold
// queue. Offer never waits.
func (d *Deliverer) Offer(hook *index.Hook, job *Job) {
	// Jobs from a hold queue and probes are not paced: they come one by one, and a worker waits for each.
	if !job.kept() && !job.Probe && !d.closing.Load() && d.endpoint(hook).failing() {
		d.pacer.Add(func() { d.begin(hook, job) })
		return
	}
	d.begin(hook, job)
}

func (d *Deliverer) begin(hook *index.Hook, job *Job) {
	if d.closing.Load() {
		job.Origin.Abandoned()
		return
	}
	if d.endUnattempted(hook, job, d.options.Cancelled) {
		return
	}
	ep := d.endpoint(hook)
	switch verdict, why := ep.offer(job); verdict {
	case hold:
		d.putOff(ep, job, why)
	case giveBack:
		job.Origin.Abandoned()
	}
}

// countJob counts a job until it is released.
func (d *Deliverer) countJob(job *Job) {
	job.counted.Store(true)
	d.process.Take(job.Lane == Wide)
}

// uncountJob ends the count of a job that countJob began.
func (d *Deliverer) uncountJob(job *Job) {
	if job.counted.Swap(false) {
		d.process.Release(job.Lane == Wide)
	}
}

// endUnattempted handles a job that must not be attempted, and reports whether the job is one. If the job is a probe, its right to
// be sent is given back: by the job's origin if the job is abandoned, otherwise by endUnattempted.
func (d *Deliverer) endUnattempted(hook *index.Hook, job *Job, cancelled func(*domain.Task) bool) bool {
	config := hook.Config()
	why, ends := config.Ends(job.Task.ReceivedAt, job.Task.Request != "")
	switch {
	case ends:
		d.End(job, why)
	case cancelled != nil && cancelled(job.Task):
		d.End(job, domain.ChangeCancelled)
	case time.Since(job.Task.ReceivedAt) > d.options.Retention && job.Task.Request == "":
		d.End(job, domain.ChangeRetention)
	case hook.Inactive() && (!job.Task.Test || config.Fault != ""):
		if job.kept() {
			job.Origin.Abandoned()
			return true
		}
		why = domain.ChangeInactive
		if config.Fault != "" {
			why = domain.ChangeUnreadable
		}
		d.hold(job, why)
	default:
		return false
	}
	if job.Probe {
		d.DropProbe(hook)
	}
	return true
}

func (d *Deliverer) endpoint(hook *index.Hook) *endpoint {
	d.mu.RLock()
	ep, ok := d.endpoints[hook]
	d.mu.RUnlock()
	if ok {
		return ep
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if ep, ok = d.endpoints[hook]; !ok {
		ep = &endpoint{d: d, hook: hook, limits: d.process.Webhook(), attempts: make(map[*attempt]struct{})}
		if !hook.Config().Deleted { // see Forget
			d.endpoints[hook] = ep
		}
	}
	return ep
}

// allEndpoints returns all endpoints.
func (d *Deliverer) allEndpoints() []*endpoint {
	d.mu.RLock()
	defer d.mu.RUnlock()
	return slices.AppendSeq(make([]*endpoint, 0, len(d.endpoints)), maps.Values(d.endpoints))
}

// owns reports whether this dispatcher makes the webhook's retries and probes. That is the owner of the
// webhook's shard or, if the webhook is ordered, the dispatcher that keeps the order of its account.
func (d *Deliverer) owns(hook *index.Hook) bool {
	if hook.Config().Ordering == domain.OrderingShipment {
		return d.options.Owners.OwnsAccount(hook.Account)
	}
	return d.options.Owners.Owns(hook.ID)
}
func (d *Deliverer) liveDispatchers() int { return d.options.Owners.Live() }

// run makes an attempt, and then the next ones that may start, so that its goroutine is used as
// long as there is work.
func (d *Deliverer) run(a *attempt) {
	for a != nil {
		result := d.send(a.ep, a.job)
		a = d.limiter.Pass(a, a.ep.finish(a, result))
	}
}

// Run checks slow attempts and queues until ctx is done.
func (d *Deliverer) Run(ctx context.Context) error {
	ticker := time.NewTicker(admission.LookEvery)
	defer ticker.Stop()
	for looks := 1; ; looks++ {
		select {
		case <-ctx.Done():
			return nil
		case now := <-ticker.C:
			if looks%recordTicks == 0 {
				d.recordCircuits()
			}
			busy := d.busy.takeAll()
			d.process.Overload.Look(now, len(busy) > 0)
			for _, ep := range busy {
				d.tick(ep, now)
			}
		}
	}
}

func (d *Deliverer) tick(ep *endpoint, now time.Time) {
	slow, late := ep.tick(now)
	for _, a := range slow {
		d.limiter.Leave(a)
		if !a.job.Lane.properties().logged {
			d.notePending(a.job)
		}
	}
	d.unqueue(ep, late, domain.ChangeOverflow)
	d.forget(ep)
}

// Drain ends the work: queued deliveries go to the hold queues, and attempts in flight end, until
// ctx is done. Jobs offered from now on are abandoned.
func (d *Deliverer) Drain(ctx context.Context) error {
	d.closing.Store(true)
	d.pacer.Flush()
	for _, ep := range d.allEndpoints() {
		ep.mu.Lock()
		jobs := ep.clear()
		ep.mu.Unlock()
		d.unqueue(ep, jobs, domain.ChangeOverflow)
	}
	for _, a := range d.limiter.Clear() {
		a.ep.withdraw(a)
		d.unqueue(a.ep, []*Job{a.job}, domain.ChangeOverflow)
	}
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for d.process.Attempts() > 0 {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
	d.recordCircuits()
	return nil
}

// unqueue puts jobs that waited into their webhook's hold queue. A job that came from that hold
// queue stays there.
func (d *Deliverer) unqueue(ep *endpoint, jobs []*Job, why domain.Change) {
	for _, job := range jobs {
		if job.kept() {
			job.Origin.Abandoned()
			continue
		}
		d.putOff(ep, job, why)
	}
}

// Close gives up the outcomes that could not be stored yet. Their deliveries stay where they came from.
func (d *Deliverer) Close() { d.once.Do(func() { close(d.stop) }) }

// CircuitHeard takes over the state of a webhook's circuit from another dispatcher.
func (d *Deliverer) CircuitHeard(id domain.WebhookID, open bool) {
	hook, ok := d.options.Hooks.Hook(id)
	if !ok {
		return
	}
	ep := d.endpoint(hook)
	ep.mu.Lock()
	var jobs []*Job
	switch {
	case open && ep.circuit.open:
		ep.circuit.knownOpenAt = time.Now()
	case open:
		ep.circuit.trip(time.Now())
		ep.circuit.eventFailures = max(ep.circuit.eventFailures, circuitFailures) // the other dispatcher does not say which events failed
		d.metrics.circuits.Inc()
		jobs = ep.clear()
	case !open:
		if ep.circuit.noteSuccess() {
			d.metrics.circuits.Dec()
		}
	}
	ep.queueCircuit()
	ep.mu.Unlock()
	d.unqueue(ep, jobs, domain.ChangeCircuit)
}

// Circuit reports whether a webhook's circuit is open, and returns when its next probe is due.
func (d *Deliverer) Circuit(hook *index.Hook) (open bool, nextProbe time.Time) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.circuit.open, ep.circuit.nextProbe
}

// TryProbe takes the right to send one delivery through an open circuit. The caller
// then offers a job with Probe set.
func (d *Deliverer) TryProbe(hook *index.Hook) bool {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.circuit.tryProbe(time.Now())
}

// DropProbe gives the right that TryProbe took back unused.
func (d *Deliverer) DropProbe(hook *index.Hook) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.circuit.dropProbe()
}

// SetSerial makes a webhook accept only jobs from its hold queue (serial), or all jobs again.
func (d *Deliverer) SetSerial(hook *index.Hook, serial bool) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.serial = serial
}

// Cap returns how many attempts to a webhook this dispatcher may have in flight.
func (d *Deliverer) Cap(hook *index.Hook) int {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.limits.Cap(ep.share())
}

// Wait returns how long it takes until a webhook's rate lets the next attempt begin.
func (d *Deliverer) Wait(hook *index.Hook) time.Duration {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.limits.Wait(ep.share(), time.Now())
}

// Recall abandons the jobs from a webhook's hold queue that wait for a slot or for its rate.
// The deliveries stay in the hold queue.
func (d *Deliverer) Recall(hook *index.Hook) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	jobs := ep.recall()
	ep.mu.Unlock()
	for _, job := range jobs {
		job.Origin.Abandoned()
	}
}

func (d *Deliverer) circuitChanged(ep *endpoint, opened bool) {
	if opened {
		d.metrics.circuits.Inc()
		d.options.Logger.Warn("a webhook's circuit opened; only probes are sent", "webhook", ep.hook.ID)
	} else {
		d.metrics.circuits.Dec()
		d.options.Logger.Info("a webhook's circuit closed", "webhook", ep.hook.ID)
	}
	d.options.Notices.CircuitChanged(ep.hook.ID, opened)
}
