package deliver

import "sync"

// busy is the webhooks that have something under way or waiting, for those who look at
// them regularly. All others, of which there may be very many, are left alone.
type busy struct {
	mu   sync.Mutex
	list []*endpoint
}

func (b *busy) add(ep *endpoint) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.list = append(b.list, ep)
}

// take takes all of them out.
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
