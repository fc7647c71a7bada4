package deliver

import "waybill.dev/services/dispatcher/internal/index"

// Forget removes a deleted webhook from memory, at once or when its last attempt has ended.
func (d *Deliverer) Forget(hook *index.Hook) {
	d.mu.RLock()
	ep, ok := d.endpoints[hook]
	d.mu.RUnlock()
	if ok {
		d.forget(ep)
	}
}

// forget removes a webhook's endpoint if the webhook was deleted and nothing
// is in flight or waits.
func (d *Deliverer) forget(ep *endpoint) {
	if !ep.hook.Config().Deleted {
		return
	}
	ep.mu.Lock()
	idle := len(ep.attempts) == 0 && len(ep.queue) == 0
	closed := idle && ep.circuit.noteSuccess() // no probes are sent any more
	ep.mu.Unlock()
	if closed {
		d.metrics.circuits.Dec()
	}
	if idle {
		d.mu.Lock()
		defer d.mu.Unlock()
		delete(d.endpoints, ep.hook)
	}
}
