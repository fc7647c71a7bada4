// Package ratelimit counts the requests of callers for the limits that policies set.
package ratelimit

import (
	"container/list"
	"sync"
	"sync/atomic"
	"time"
)

// maxCallers is how many counts a Pool holds that was given no bound.
const maxCallers = 65_536

// BytesOfCount is about what one count takes in memory, with the name of its caller.
const BytesOfCount = 256

// Limit is what a policy allows each caller. Policies that are equal in all of this share a
// count; one that is changed begins anew.
type Limit struct {
	Policy  string // its name
	Allowed int    // requests in a window
	Window  time.Duration
}

// Bound is how many counts several pools hold together.
type Bound struct {
	most int64
	used atomic.Int64
}

// NewBound returns a bound of so many counts.
func NewBound(most int64) *Bound { return &Bound{most: most} }

// Used returns how many counts there are.
func (b *Bound) Used() int64 { return b.used.Load() }

// Pool holds counts, of which those of callers who have called least recently give way. It may be
// used by several goroutines.
type Pool struct {
	most  int
	bound *Bound // nil: none besides

	mu     sync.Mutex
	counts map[key]*list.Element
	recent list.List // of *count, most recent first
}

// key says what a count is for.
type key struct {
	owner  string
	limit  Limit
	caller string
}

type count struct {
	key   key
	begun time.Time
	used  int
}

// NewPool returns an empty pool for at most so many counts; 0: 65,536. When the counts of all pools reach the
// bound, a pool replaces a count of its own by each new one, but may always have one. A nil bound is none.
func NewPool(most int, bound *Bound) *Pool {
	if most == 0 {
		most = maxCallers
	}
	return &Pool{most: most, bound: bound, counts: make(map[key]*list.Element)}
}

// Of returns the counters of an owner, whose counts are its own, whatever its limits are called. They
// go on whenever the same owner is asked for again.
func (p *Pool) Of(owner string) Counters { return Counters{p, owner} }

// Counters count for the limits of one owner.
type Counters struct {
	pool  *Pool
	owner string
}

// Take counts one request of a caller. It returns how long the caller has to wait; 0: it
// may go on. When a window has ended, the caller's next request begins a new one.
func (c Counters) Take(l Limit, caller string) time.Duration {
	now := time.Now()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	n := c.pool.of(key{c.owner, l, caller}, now)
	if since := now.Sub(n.begun); since >= l.Window || since < 0 {
		n.begun, n.used = now, 0
	}
	if n.used < l.Allowed {
		n.used++
		return 0
	}
	return l.Window - now.Sub(n.begun)
}

// of returns the count of a key. A new one replaces the count used least recently if there is no room. p.mu is held.
func (p *Pool) of(k key, now time.Time) *count {
	if element := p.counts[k]; element != nil {
		p.recent.MoveToFront(element)
		return element.Value.(*count) //nolint:errcheck // the list holds nothing else
	}
	if p.recent.Len() > 0 && (p.recent.Len() >= p.most || p.bound.full()) {
		last := p.recent.Remove(p.recent.Back()).(*count) //nolint:errcheck // likewise
		delete(p.counts, last.key)
	} else if p.bound != nil {
		p.bound.used.Add(1)
	}
	n := &count{key: k, begun: now}
	p.counts[k] = p.recent.PushFront(n)
	return n
}

func (b *Bound) full() bool { return b != nil && b.used.Load() >= b.most }
