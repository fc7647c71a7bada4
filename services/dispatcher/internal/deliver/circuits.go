package deliver

import (
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// tellTicks is the number of looks between two records of changed circuits: changes are recorded
// once a second, however often a circuit has changed in it.
const tellTicks = 4

// tell puts the circuit among those that are recorded next; ep.mu is held. Only the webhook's owner records the
// circuit, because the owner also makes the retries and sends the probes.
func (ep *endpoint) tell() {
	if !ep.news && ep.d.owns(ep.hook) {
		ep.news = true
		ep.d.news.add(ep)
	}
}

// mostTurns bounds how many changes between failing and recovered are recorded at once for a webhook, however often
// it fails and recovers.
const mostTurns = 2

// turn notes, for the next record, that the webhook began to fail or recovered; ep.mu is held.
func (ep *endpoint) turn(state domain.Circuit) {
	if len(ep.turned) < mostTurns && ep.news {
		state.Last = ep.last
		ep.turned = append(ep.turned, state)
	}
}

// failedWith keeps the answer to a failed attempt until the circuit is recorded.
func (ep *endpoint) failedWith(a *domain.Attempt) {
	last := domain.AnswerOf(a)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.last = &last
}

// tellCircuits records the present state of the circuits that changed.
func (d *Deliverer) tellCircuits() {
	for _, ep := range d.news.take() {
		now := time.Now()
		ep.mu.Lock()
		state := ep.circuit.state(now)
		turned := ep.turned
		state.Last, ep.last, ep.news, ep.turned = ep.last, nil, false, nil
		ep.mu.Unlock()
		if !d.owns(ep.hook) || ep.hook.Config().Deleted {
			continue
		}
		if n := len(turned); n > 0 && turned[n-1].Alarming == state.Alarming {
			turned = turned[:n-1] // the record of the present state says the same
		}
		for i := range turned {
			d.emitHealth(domain.HealthChange{Webhook: ep.hook.ID, Circuit: &turned[i], At: turned[i].SaidAt})
		}
		d.emitHealth(domain.HealthChange{Webhook: ep.hook.ID, Circuit: &state, At: now.UTC()})
	}
}

// Adopt compares the recorded circuits of the webhooks that this dispatcher owns with its own state of them, and
// records the differences. A recorded row of failures goes on here.
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
