package ratelimit

import (
	"sync"
	"sync/atomic"
)

// Bound limits the number of counts that several pools hold together. While there is room, a pool takes what it
// needs. After that, each pool may have an equal part, and a new count in a pool below its part replaces one in a
// pool above its part.
type Bound struct {
	limit int64
	used  atomic.Int64

	mu    sync.Mutex
	pools []*Pool // pools with counts; each keeps at least one
	next  int     // index of the pool that is asked first to give a count back
}

// NewBound returns a bound of so many counts.
func NewBound(most int64) *Bound { return &Bound{limit: most} }

// Used returns how many counts there are.
func (b *Bound) Used() int64 { return b.used.Load() }

func (b *Bound) full() bool { return b != nil && b.used.Load() >= b.limit }

// poolPart returns how many counts each pool may have when there is no room left. b.mu is held.
func (b *Bound) poolPart() int64 { return max(1, b.limit/max(1, int64(len(b.pools)))) }

// hasPart reports whether a pool has its part.
func (b *Bound) hasPart(p *Pool) bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	return p.held.Load() >= b.poolPart()
}

// free makes a pool with more than its part drop a count.
func (b *Bound) free() {
	b.mu.Lock()
	var from *Pool
	part := b.poolPart()
	for range b.pools {
		b.next = (b.next + 1) % len(b.pools)
		if b.pools[b.next].held.Load() > part {
			from = b.pools[b.next]
			break
		}
	}
	b.mu.Unlock()
	if from == nil {
		return
	}
	from.mu.Lock()
	defer from.mu.Unlock()
	if from.held.Load() > part {
		from.dropOldest()
	}
}

func (b *Bound) add(p *Pool) {
	first := p.held.Add(1) == 1
	if b == nil {
		return
	}
	b.used.Add(1)
	if first {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.pools = append(b.pools, p)
	}
}

func (b *Bound) remove(p *Pool) {
	p.held.Add(-1)
	if b != nil {
		b.used.Add(-1)
	}
}
