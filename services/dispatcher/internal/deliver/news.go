package deliver

import (
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// tellTicks is after how many looks the changes of circuits are recorded: once a second,
// however often a circuit has changed in it.
const tellTicks = 4

// tell has the circuit told with the next ones; ep.mu is held. Only the owner tells it: it
// makes the retries and sends the probes.
func (ep *endpoint) tell() {
	if !ep.news && ep.d.owns(ep.hook) {
		ep.news = true
		ep.d.news.add(ep)
	}
}

// failedWith keeps the answer to a failed attempt until it is told.
func (ep *endpoint) failedWith(a *domain.Attempt) {
	last := domain.AnswerOf(a)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.last = &last
}

// tellCircuits records what has become of the circuits that changed.
func (d *Deliverer) tellCircuits() {
	for _, ep := range d.news.take() {
		now := time.Now()
		ep.mu.Lock()
		state := ep.circuit.state(now)
		state.Last, ep.last, ep.news = ep.last, nil, false
		ep.mu.Unlock()
		if d.owns(ep.hook) && !ep.hook.Config().Deleted {
			d.emitHealth(domain.HealthChange{Webhook: ep.hook.ID, Circuit: &state, At: now.UTC()})
		}
	}
}

// Adopt compares what was last said of the circuits of webhooks that are owned here with what
// is known here, and tells what has become of them. A row of failures goes on.
func (d *Deliverer) Adopt(said map[domain.WebhookID]domain.Circuit) {
	for id, before := range said {
		hook, ok := d.options.Hooks.Hook(id)
		if !ok || !d.owns(hook) {
			continue
		}
		d.adopt(hook, before)
	}
}

func (d *Deliverer) adopt(hook *index.Hook, before domain.Circuit) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.okAt.Before(before.SaidAt) {
		ep.circuit.resume(before)
	}
	if ep.circuit.open != !before.OpenSince.IsZero() || ep.circuit.failures != before.Failures {
		ep.tell()
	}
}
