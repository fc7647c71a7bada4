package policy

import (
	"container/list"
	"sync"
	"time"
)

// maxCallers is how many callers one limit counts at a time. Beyond it, who has called
// least recently is forgotten.
const maxCallers = 65_536

// Counters counts for rate limits, for each by its policy's name. It is filled while a table
// of routes is built, by one goroutine.
type Counters struct {
	limits map[string]*limit
	before map[string]*limit
}

// NewCounters returns counters that have counted nothing.
func NewCounters() *Counters { return &Counters{limits: make(map[string]*limit)} }

// Next returns the counters of a table that may take the place of c's: policies that are
// the same in both share their counts. Nothing of it changes c.
func (c *Counters) Next() *Counters {
	return &Counters{limits: make(map[string]*limit), before: c.limits}
}

// limit returns the count of the policy called name; it begins anew when what is allowed
// has changed.
func (c *Counters) limit(name string, allowed int, window time.Duration) *limit {
	c.carry(name, allowed, window)
	l := c.limits[name]
	if !l.is(allowed, window) {
		l = &limit{allowed: allowed, window: window, callers: make(map[string]*list.Element), recent: list.New()}
		c.limits[name] = l
	}
	return l
}

// carry takes over the count of a policy that has not changed, whether a route uses it at
// present or not.
func (c *Counters) carry(name string, allowed int, window time.Duration) {
	if l := c.before[name]; c.limits[name] == nil && l.is(allowed, window) {
		c.limits[name] = l
	}
}

// Keep lets go of the counts that c does not share with those that were before it.
func (c *Counters) Keep() { c.before = nil }

// limit counts the requests of each caller in windows of time, which begin with a
// caller's first request after the last window.
type limit struct {
	allowed int
	window  time.Duration

	mu      sync.Mutex
	callers map[string]*list.Element
	recent  *list.List // of *count, most recent first
}

func (l *limit) is(allowed int, window time.Duration) bool {
	return l != nil && l.allowed == allowed && l.window == window
}

type count struct {
	caller string
	begun  time.Time
	used   int
}

// take counts one request. It returns how long the caller has to wait; 0: it may go on.
func (l *limit) take(caller string, now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.of(caller, now)
	if since := now.Sub(c.begun); since >= l.window || since < 0 {
		c.begun, c.used = now, 0
	}
	if c.used < l.allowed {
		c.used++
		return 0
	}
	return l.window - now.Sub(c.begun)
}

func (l *limit) of(caller string, now time.Time) *count {
	if element := l.callers[caller]; element != nil {
		l.recent.MoveToFront(element)
		return element.Value.(*count) //nolint:errcheck // the list holds nothing else
	}
	if l.recent.Len() >= maxCallers {
		last := l.recent.Remove(l.recent.Back()).(*count) //nolint:errcheck // likewise
		delete(l.callers, last.caller)
	}
	c := &count{caller: caller, begun: now}
	l.callers[caller] = l.recent.PushFront(c)
	return c
}
