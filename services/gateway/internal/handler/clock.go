package handler

import (
	"sync"
	"time"
)

// clock measures the remaining time of a call. It is stopped while it is held: that is while the
// gateway waits for the client to send its body or to take the answer.
type clock struct {
	mu        sync.Mutex
	timer     *time.Timer
	limit     time.Duration
	holds     int
	since     time.Time     // when it was last started
	remaining time.Duration // remaining time at since
}

// startClock calls expired once the limit is over.
func startClock(limit time.Duration, expired func()) *clock {
	return &clock{timer: time.AfterFunc(limit, expired), limit: limit, since: time.Now(), remaining: limit}
}

// hold stops the clock until the holder releases it.
func (c *clock) hold() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds++
	if c.holds == 1 {
		c.timer.Stop()
		c.remaining -= time.Since(c.since)
	}
}

// renew gives the call all of its time again. The caller holds the clock.
func (c *clock) renew() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.remaining = c.limit
}

func (c *clock) release() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.holds--
	if c.holds == 0 {
		c.since = time.Now()
		c.timer.Reset(c.remaining)
	}
}
