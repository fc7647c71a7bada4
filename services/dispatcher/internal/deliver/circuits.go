package deliver

import (
	"time"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// recordTicks is the number of looks between two records of changed circuits: changes are recorded
// once a second, however often a circuit has changed in it.
const recordTicks = 4

// queueCircuit puts the circuit among those that are recorded next; ep.mu is held. Only the webhook's owner records the
// circuit, because the owner also makes the retries and sends the probes.
func (ep *endpoint) queueCircuit() {
	if !ep.circuitChanged && ep.d.owns(ep.hook) {
		ep.circuitChanged = true
		ep.d.changedCircuits.add(ep)
	}
}

// maxTurns bounds how many changes between failing and recovered are recorded at once for a webhook, however often
// it fails and recovers.
const maxTurns = 2

// noteTurn notes, for the next record, that the webhook began to fail or recovered; ep.mu is held.
func (ep *endpoint) noteTurn(state domain.Circuit) {
	if len(ep.turns) < maxTurns && ep.circuitChanged {
		state.Last = ep.lastAnswer
		ep.turns = append(ep.turns, state)
	}
}

// keepAnswer keeps the answer to a failed attempt until the circuit is recorded.
func (ep *endpoint) keepAnswer(a *domain.Attempt) {
	last := domain.AnswerOf(a)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.lastAnswer = &last
}

// recordCircuits records the present state of the circuits that changed.
func (d *Deliverer) recordCircuits() {
	for _, ep := range d.changedCircuits.takeAll() {
		now := time.Now()
		ep.mu.Lock()
		state := ep.circuit.state(now)
		turned := ep.turns
		state.Last, ep.lastAnswer, ep.circuitChanged, ep.turns = ep.lastAnswer, nil, false, nil
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
func (d *Deliverer) Adopt(recorded map[domain.WebhookID]domain.Circuit) {
	for id, before := range recorded {
		hook, ok := d.options.Hooks.Hook(id)
		if !ok || !d.owns(hook) {
			continue
		}
		d.adopt(hook, before)
	}
}

func (d *Deliverer) adopt(hook *index.Hook, recorded domain.Circuit) {
	ep := d.endpoint(hook)
	ep.mu.Lock()
	defer ep.mu.Unlock()
	if ep.okAt.Before(recorded.SaidAt) {
		ep.circuit.resume(recorded)
	}
	if ep.circuit.open != !recorded.OpenSince.IsZero() || ep.circuit.failures != recorded.Failures {
		ep.queueCircuit()
	}
}
