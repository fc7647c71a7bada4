package deliver

import "sync"

// busy lists the webhooks that have attempts in flight, waiting deliveries, or news. Only these are checked regularly,
// because there may be very many others.
type busy struct {
	mu   sync.Mutex
	list []*endpoint
}

func (b *busy) add(ep *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, ep)
}

// take removes all webhooks from the list, and returns them.
func (b *busy) take() []*endpoint {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := b.list
	b.list = nil
	return list
}

func (b *busy) len() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.list)
}
