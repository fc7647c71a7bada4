// Package hold works on the hold queues: deliveries of a webhook that are held because it is inactive, its
// circuit is open, or more came than it takes. One dispatcher owns a hold queue. While the circuit is
// open, that dispatcher sends probes. When the webhook takes deliveries again, it drains the hold queue in
// the order of publication, first one delivery at a time and then at a rising rate.
package hold

import (
	"context"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

// Bus keeps the hold queues.
type Bus interface {
	Streams
	Announce(subject string, body []byte)
}

// Deliverer sends the deliveries of hold queues.
type Deliverer interface {
	Offer(hook *index.Hook, job *deliver.Job)
	End(job *deliver.Job, how domain.Change)
	Circuit(hook *index.Hook) (open bool, nextProbe time.Time)
	TryProbe(hook *index.Hook) bool
	DropProbe(hook *index.Hook)
	SetSerial(hook *index.Hook, serial bool)
	Cap(hook *index.Hook) int
	// Wait returns how long until the webhook's rate lets the next attempt begin.
	Wait(hook *index.Hook) time.Duration
	// Recall abandons the jobs from a hold queue that have not begun.
	Recall(hook *index.Hook)
}

// Index knows the webhooks, or asks the database for them.
type Index interface {
	Find(id domain.WebhookID, answer func(*index.Hook, error))
	Loaded() bool
}

// Log reads from the database what is recorded of deliveries.
type Log interface {
	Revs(ctx context.Context, account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error)
}

// Options of a Manager.
type Options struct {
	Bus       Bus
	Deliverer Deliverer
	Index     Index
	Log       Log
	DrainRoom *admission.Budget // for what drains have in flight
	ProbeRoom *admission.Budget // for deliveries that are read from hold queues otherwise
	Logger    *slog.Logger
	Metrics   prometheus.Registerer
	Schedule  []time.Duration
	Retention time.Duration
}

const (
	// listEvery is how often the hold queues are listed, to find those whose announcement was lost.
	listEvery = 10 * time.Second
	// announceEvery is the shortest time between two announcements of one hold queue to its owner.
	announceEvery = 500 * time.Millisecond
	// maxDrains bounds the hold queues that are drained at once: each needs a consumer, and a
	// stream has at most 1000.
	maxDrains = 64
	// maxLingering bounds, in addition to those, the hold queues that have given their permit to
	// others and keep their consumer until the deliveries that they have sent have ended.
	maxLingering = 448
)

// Manager works the hold queues of the shards that this dispatcher owns.
type Manager struct {
	options Options
	reader  reader
	drains  chan struct{} // the permits of hold queues that are drained
	waits   atomic.Int64  // how many hold queues wait for a permit
	linger  chan struct{} // the hold queues that linger; see maxLingering
	ending  chan struct{} // bounds the hold queues that end deliveries at a time; see maxEnding
	drained prometheus.Counter
	probes  prometheus.Counter

	mu        sync.Mutex
	begin     func(*worker) // starts a worker within Run; nil: not running
	owned     [domain.Shards]bool
	workers   map[domain.WebhookID]*worker
	announced map[domain.WebhookID]time.Time
	running   sync.WaitGroup
	list      signal.Signal
}

// New returns a manager.
func New(options Options) *Manager {
	m := &Manager{
		options: options, reader: reader{options.Bus, options.Logger}, drains: make(chan struct{}, maxDrains), linger: make(chan struct{}, maxLingering), ending: make(chan struct{}, maxEnding),
		workers: make(map[domain.WebhookID]*worker), announced: make(map[domain.WebhookID]time.Time),
		list: signal.New(),
		drained: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_lane_drained_total", Help: "Deliveries that left a hold queue."}),
		probes: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_probes_total", Help: "Probes sent while a circuit was open."}),
	}
	options.Metrics.MustRegister(m.drained, m.probes, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_lanes", Help: "Hold queues of this dispatcher that hold something."},
		func() float64 {
			m.mu.Lock()
			defer m.mu.Unlock()
			return float64(len(m.workers))
		}))
	return m
}

// Drains returns how many hold queues are drained, how many may be drained at once, and how many
// wait for a permit.
func (m *Manager) Drains() (drained, most, waiting int64) {
	return int64(len(m.drains)), maxDrains, m.waits.Load()
}

// Own starts or ends the work on a shard's hold queues.
func (m *Manager) Own(shard int, owned bool) {
	m.mu.Lock()
	m.owned[shard] = owned
	for id, w := range m.workers {
		if id.Shard() == shard && !owned {
			w.stop()
		}
	}
	m.mu.Unlock()
	m.list.Give()
}

// DeliveryHeld is called when a delivery was put into a hold queue here, with the reason.
func (m *Manager) DeliveryHeld(id domain.WebhookID, reason string) {
	m.mu.Lock()
	if m.owned[id.Shard()] {
		m.wake(id, reason != domain.ReasonOverCap)
		m.mu.Unlock()
		return
	}
	now := time.Now()
	due := now.Sub(m.announced[id]) > announceEvery
	if due {
		m.announced[id] = now
	}
	m.mu.Unlock()
	if due {
		m.options.Bus.Announce(bus.SubjectHold, []byte(string(id)+" "+reason))
	}
}

// HeldElsewhere is called when another dispatcher has filled a hold queue.
func (m *Manager) HeldElsewhere(id domain.WebhookID, reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.owned[id.Shard()] {
		m.wake(id, reason != domain.ReasonOverCap)
	}
}

// WebhookChanged is called when a webhook or its circuit has changed.
func (m *Manager) WebhookChanged(id domain.WebhookID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if w, ok := m.workers[id]; ok {
		w.woken.Give()
	}
}

// wake makes the worker of a hold queue look at it; m.mu is held.
func (m *Manager) wake(id domain.WebhookID, gently bool) {
	if m.begin == nil {
		return
	}
	w, ok := m.workers[id]
	if !ok {
		w = &worker{m: m, id: id, woken: signal.New()}
		m.workers[id] = w
		m.begin(w)
	}
	if gently {
		w.gentle.Store(true)
	}
	w.woken.Give()
}

// removeWorker removes a worker whose hold queue is empty, unless the worker was woken again. must: the worker was told to stop.
// If this dispatcher owns the shard again by then, the hold queues are listed at once, and this one gets another worker.
func (m *Manager) removeWorker(w *worker, stopped bool) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(w.woken) > 0 && !stopped {
		return false
	}
	delete(m.workers, w.id)
	delete(m.announced, w.id)
	if stopped && m.owned[w.id.Shard()] {
		m.list.Give()
	}
	return true
}

// permit is the right to drain a hold queue. Only a few hold queues are drained at a time.
type permit struct {
	m    *Manager
	held chan struct{}
}

// permit waits for a permit to drain. The error is ctx's.
func (m *Manager) permit(ctx context.Context) (*permit, error) {
	select {
	case m.drains <- struct{}{}:
		return &permit{m: m, held: m.drains}, nil
	default:
	}
	m.waits.Add(1)
	defer m.waits.Add(-1)
	select {
	case m.drains <- struct{}{}:
		return &permit{m: m, held: m.drains}, nil
	case <-ctx.Done():
		return nil, fmt.Errorf("wait to drain a hold queue: %w", ctx.Err())
	}
}

// linger passes the permit on to another hold queue, because this one sends nothing more. While too many hold queues
// linger, the permit is kept until the deliveries of this one have ended.
func (p *permit) linger() {
	if p.held != p.m.drains {
		return
	}
	select {
	case p.m.linger <- struct{}{}:
		p.giveBack()
		p.held = p.m.linger
	default:
	}
}

// giveBack gives the permit back.
func (p *permit) giveBack() { <-p.held }

// Run works until ctx is done.
func (m *Manager) Run(ctx context.Context) error {
	m.mu.Lock()
	m.begin = func(w *worker) {
		working, stop := context.WithCancel(ctx)
		w.stop = stop
		m.running.Go(func() {
			defer stop()
			w.run(working)
		})
	}
	m.mu.Unlock()
	ticker := time.NewTicker(listEvery)
	defer ticker.Stop()
	for {
		m.listQueues(ctx)
		select {
		case <-ctx.Done():
			m.mu.Lock()
			m.begin = nil
			m.mu.Unlock()
			m.running.Wait()
			return nil
		case <-ticker.C:
		case <-m.list:
		}
	}
}

func (m *Manager) listQueues(ctx context.Context) {
	if !m.options.Index.Loaded() {
		time.AfterFunc(200*time.Millisecond, m.list.Give)
		return
	}
	held, err := m.reader.stream().State(ctx)
	if err != nil || held.Messages == 0 { // usually nothing is held: one request instead of one for each shard
		return
	}
	for shard := range domain.Shards {
		m.mu.Lock()
		owned := m.owned[shard]
		m.mu.Unlock()
		if !owned || ctx.Err() != nil {
			continue
		}
		queues, err := m.reader.queues(ctx, shard)
		if err != nil {
			m.options.Logger.Debug("the hold queues can't be listed", "error", err)
			return
		}
		m.mu.Lock()
		for id := range queues {
			if _, ok := m.workers[id]; !ok && m.owned[shard] {
				m.wake(id, false)
			}
		}
		m.mu.Unlock()
	}
}
