// Package ratelimit counts the requests of callers for the limits that policies set.
package ratelimit

import (
	"cmp"
	"container/list"
	"crypto/sha256"
	"sync"
	"sync/atomic"
	"time"
)

// maxCallers is how many counts a Pool without a given bound holds.
const maxCallers = 65_536

const (
	// BytesOfCount is about how much memory one count takes, with the name of its caller.
	BytesOfCount = 256
	// maxName is the length in bytes from which a name is stored as its hash: subjects of tokens may have thousands
	// of bytes.
	maxName = 64
)

// Limit is what a policy allows each caller. Policies with equal Limits share a count; a changed Limit starts a new
// one.
type Limit struct {
	Policy  string // name of the policy
	Allowed int    // requests in a window
	Window  time.Duration
}

// Pool holds counts. When it is full, the counts of the callers that have called least recently are dropped. It may
// be used by several goroutines.
type Pool struct {
	most  int
	bound *Bound // nil: no common bound
	held  atomic.Int64

	mu     sync.Mutex
	counts map[key]*list.Element
	recent list.List // elements are *count, most recent first
}

// key identifies a count.
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

// NewPool returns an empty pool for at most so many counts; 0: 65,536. When the counts of all pools reach the bound,
// a new count replaces one in a pool that has more than its part. A nil bound means no bound.
func NewPool(most int, bound *Bound) *Pool {
	most = cmp.Or(most, maxCallers)
	return &Pool{most: most, bound: bound, counts: make(map[key]*list.Element)}
}

// Of returns the counters of an owner. Owners never share counts, even if their limits have the same name. Later
// calls with the same owner continue the same counts.
func (p *Pool) Of(owner string) Counters { return Counters{p, owner} }

// Counters count for the limits of one owner.
type Counters struct {
	pool  *Pool
	owner string
}

// Take counts one request of a caller. It returns how long the caller has to wait; 0: the request is allowed. When a
// window has ended, the caller's next request begins a new one.
func (c Counters) Take(l Limit, caller string) time.Duration {
	if len(caller) > maxName {
		sum := sha256.Sum256([]byte(caller))
		caller = string(sum[:])
	}
	k, now := key{c.owner, l, caller}, time.Now()
	c.pool.mu.Lock()
	defer c.pool.mu.Unlock()
	if c.pool.counts[k] == nil && c.pool.bound.full() && !c.pool.bound.hasPart(c.pool) {
		c.pool.mu.Unlock() // two pools could wait for each other
		c.pool.bound.free()
		c.pool.mu.Lock()
	}
	n := c.pool.countOf(k, now)
	if since := now.Sub(n.begun); since >= l.Window || since < 0 {
		n.begun, n.used = now, 0
	}
	if n.used < l.Allowed {
		n.used++
		return 0
	}
	return l.Window - now.Sub(n.begun)
}

// countOf returns the count of a key. A new one replaces the count used least recently if there is no room. p.mu is held.
func (p *Pool) countOf(k key, now time.Time) *count {
	if element := p.counts[k]; element != nil {
		p.recent.MoveToFront(element)
		return element.Value.(*count) //nolint:errcheck // the list holds nothing else
	}
	replaces := p.recent.Len() > 0 && (p.recent.Len() >= p.most || p.bound.full() && p.bound.hasPart(p))
	n := &count{key: k, begun: now}
	p.counts[k] = p.recent.PushFront(n)
	p.bound.add(p)
	if replaces {
		p.dropOldest()
	}
	return n
}

// dropOldest drops the count used least recently. p.mu is held.
func (p *Pool) dropOldest() {
	last := p.recent.Remove(p.recent.Back()).(*count) //nolint:errcheck // the list holds nothing else
	delete(p.counts, last.key)
	p.bound.remove(p)
}
