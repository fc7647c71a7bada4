// Package ratelimit counts the requests of callers for the limits that policies set.
package ratelimit

import (
	"container/list"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// maxCallers is how many counts a Pool holds that was given no bound.
const maxCallers = 65_536

const (
	// BytesOfCount is about what one count takes in memory, with the name of its caller.
	BytesOfCount = 256
	// maxName is from how many bytes on a name is kept as its hash: subjects of tokens may have thousands.
	maxName = 64
)

// Limit is what a policy allows each caller. Policies that are equal in all of this share a
// count; one that is changed begins anew.
type Limit struct {
	Policy  string // its name
	Allowed int    // requests in a window
	Window  time.Duration
}

// Pool holds counts, of which those of callers who have called least recently give way. It may be
// used by several goroutines.
type Pool struct {
	most  int
	bound *Bound // nil: none besides
	held  atomic.Int64

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
// bound, a new one takes the place of one in a pool that has more than its part. A nil bound is none.
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
	if len(caller) > maxName {
		sum := sha256.Sum256([]byte(caller))
		caller = string(sum[:])
	}
	k, now := key{c.owner, l, caller}, time.Now()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.pool.counts[k] == nil && c.pool.bound.full() && !c.pool.bound.enough(c.pool) {
		c.pool.mu.Unlock() // two pools could wait for each other
		c.pool.bound.free()
		c.pool.mu.Lock()
	}
	n := c.pool.of(k, now)
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
	replaces := p.recent.Len() > 0 && (p.recent.Len() >= p.most || p.bound.full() && p.bound.enough(p))
	n := &count{key: k, begun: now}
	p.counts[k] = p.recent.PushFront(n)
	p.bound.add(p)
	if replaces {
		p.forget()
	}
	return n
}

// forget lets go of the count used least recently. p.mu is held.
func (p *Pool) forget() {
	last := p.recent.Remove(p.recent.Back()).(*count) //nolint:errcheck // the list holds nothing else
	delete(p.counts, last.key)
	p.bound.remove(p)
}
