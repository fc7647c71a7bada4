package accept

import (
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/signal"
)

// Bounds of the events on their way to the bus. Events beyond them are left to the relay, which publishes them some
// ten seconds later. The bounds are reached only when the bus hangs.
const (
	maxPublishing      = 1 << 14
	maxPublishingBytes = 64 << 20
	// lastAcks is how long a stopping process waits for the bus to acknowledge.
	lastAcks = 3 * time.Second
)

// publisher hands committed events to the bus on a goroutine of its own, because a write
// to a bus that hangs may block.
type publisher struct {
	bus     Bus
	log     *slog.Logger
	metrics *metrics

	mu       sync.Mutex
	queue    []publication
	wake     signal.Signal
	inFlight int // queued or unacknowledged, under mu
	bytes    int // bytes of these events; under mu
	idle     signal.Signal
	failing  atomic.Bool
}

type publication struct {
	bus.AcceptedEvent
	round int
}

func newPublisher(b Bus, log *slog.Logger, m *metrics) *publisher {
	return &publisher{bus: b, log: log, metrics: m, wake: signal.New(), idle: signal.New()}
}

// add queues an event, or leaves it to the relay when too many are on their way.
func (p *publisher) add(a bus.AcceptedEvent) {
	p.mu.Lock()
	if p.inFlight >= maxPublishing || p.bytes+len(a.Event.Payload) > maxPublishingBytes {
		p.mu.Unlock()
		p.metrics.unpublished.Inc()
		return
	}
	p.inFlight++
	p.bytes += len(a.Event.Payload)
	p.queue = append(p.queue, publication{AcceptedEvent: a})
	p.mu.Unlock()
	p.wake.Give()
}

// run publishes until stop is closed. Then run waits until the events on their way are acknowledged, for lastAcks at
// most.
func (p *publisher) run(stop <-chan struct{}) {
	for stopping := false; !stopping; {
		select {
		case <-p.wake:
		case <-stop:
			stopping = true
		}
		p.publishQueued()
	}
	deadline := time.NewTimer(lastAcks)
	defer deadline.Stop()
	for p.pending() > 0 {
		select {
		case <-p.wake:
			p.publishQueued()
		case <-p.idle:
		case <-deadline.C:
			return
		}
	}
}

func (p *publisher) pending() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.inFlight
}

func (p *publisher) publishQueued() {
	for {
		p.mu.Lock()
		batch := p.queue
		p.queue = nil
		p.mu.Unlock()
		if len(batch) == 0 {
			return
		}
		for _, item := range batch {
			p.bus.PublishEvent(item.AcceptedEvent, item.round, func(duplicate bool, err error) { p.done(item, duplicate, err) })
		}
	}
}

// done takes the bus's answer. A duplicate on the first publication means that another publisher has used the message
// id and that nothing was stored: the event goes again under another id.
func (p *publisher) done(item publication, duplicate bool, err error) {
	if err == nil && duplicate && item.round == 0 {
		item.round = 1
		p.mu.Lock()
		p.queue = append(p.queue, item)
		p.mu.Unlock()
		p.wake.Give()
		return
	}
	if err != nil {
		p.metrics.unpublished.Inc()
		if !p.failing.Swap(true) {
			p.log.Warn("the bus does not take events; the relay publishes them later", "error", err)
		}
	} else if p.failing.Swap(false) {
		p.log.Info("the bus takes events again")
	}
	p.mu.Lock()
	p.inFlight--
	p.bytes -= len(item.Event.Payload)
	last := p.inFlight == 0
	p.mu.Unlock()
	if last {
		p.idle.Give()
	}
}
