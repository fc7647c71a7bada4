package deliver

import "waybill.dev/services/dispatcher/internal/index"

// Forget lets go of a webhook that was deleted, at once or when the last of it has ended.
func (d *Deliverer) Forget(hook *index.Hook) {
	d.mu.RLock()
	ep, ok := d.endpoints[hook]
	d.mu.RUnlock()
	if ok {
		d.forget(ep)
	}
}

// forget lets go of a webhook's side of this process if the webhook was deleted and nothing
// of it is left.
func (d *Deliverer) forget(ep *endpoint) {
	if !ep.hook.Config().Deleted {
		return
	}
	ep.mu.Lock()
	idle := len(ep.attempts) == 0 && len(ep.queue) == 0
	closed := idle && ep.circuit.succeeded() // nothing is probed any more
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
