// Package ratelimit counts the requests of callers for the limits that policies set.
package ratelimit

import (
	"container/list"
	"slices"
	"sync"
	"time"
)

// maxCallers is how many callers one limit counts at a time. Beyond it, who has called
// least recently is forgotten.
const maxCallers = 65_536

// Limit is what a policy allows each caller. Policies that are equal in all of this share a
// count; one that is changed begins anew.
type Limit struct {
	Policy  string // its name
	Allowed int    // requests in a window
	Window  time.Duration
}

// Counters counts for limits. They outlive the routes that name them.
type Counters struct {
	mu     sync.RWMutex
	counts map[Limit]*counter
}

// New returns counters that have counted nothing.
func New() *Counters { return &Counters{counts: make(map[Limit]*counter)} }

// Take counts one request of a caller. It returns how long the caller has to wait; 0: it
// may go on.
func (c *Counters) Take(l Limit, caller string) time.Duration {
	return c.of(l).take(l, caller, time.Now())
}

// Keep lets go of all counts but those of limits.
func (c *Counters) Keep(limits []Limit) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.counts {
		if !slices.Contains(limits, l) {
			delete(c.counts, l)
		}
	}
}

func (c *Counters) of(l Limit) *counter {
	c.mu.RLock()
	n := c.counts[l]
	c.mu.RUnlock()
	if n != nil {
		return n
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.counts[l] == nil {
		c.counts[l] = &counter{callers: make(map[string]*list.Element), recent: list.New()}
	}
	return c.counts[l]
}

// counter counts the requests of each caller in windows of time, which begin with a
// caller's first request after the last window.
type counter struct {
	mu      sync.Mutex
	callers map[string]*list.Element
	recent  *list.List // of *count, most recent first
}

type count struct {
	caller string
	begun  time.Time
	used   int
}

func (n *counter) take(l Limit, caller string, now time.Time) time.Duration {
	n.mu.Lock()
	defer n.mu.Unlock()
	c := n.by(caller, now)
	if since := now.Sub(c.begun); since >= l.Window || since < 0 {
		c.begun, c.used = now, 0
	}
	if c.used < l.Allowed {
		c.used++
		return 0
	}
	return l.Window - now.Sub(c.begun)
}

func (n *counter) by(caller string, now time.Time) *count {
	if element := n.callers[caller]; element != nil {
		n.recent.MoveToFront(element)
		return element.Value.(*count) //nolint:errcheck // the list holds nothing else
	}
	if n.recent.Len() >= maxCallers {
		last := n.recent.Remove(n.recent.Back()).(*count) //nolint:errcheck // likewise
		delete(n.callers, last.caller)
	}
	c := &count{caller: caller, begun: now}
	n.callers[caller] = n.recent.PushFront(c)
	return c
}
