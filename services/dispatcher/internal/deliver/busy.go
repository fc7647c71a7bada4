package deliver

import "sync"

// endpointList lists the webhooks that have attempts in flight, waiting deliveries, or news. Only these are checked regularly,
// because there may be very many others.
type endpointList struct {
	mu   sync.Mutex
	list []*endpoint
}

func (b *endpointList) add(ep *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, ep)
}

// takeAll removes all webhooks from the list, and returns them.
func (b *endpointList) takeAll() []*endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

func (b *endpointList) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)
}
