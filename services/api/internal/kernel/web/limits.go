package web

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"
)

// limits bounds the requests of each account; a batch counts by its events. An account may save up
// the requests of one second. Publishing has an allowance of its own, so that a stream of events
// does not prevent the revocation of the key that sends it. There are few accounts, and only known
// ones get here.
type limits struct {
	perSecond  float64
	burst      float64
	mu         sync.Mutex
	allowances map[allowanceOf]*allowance
}

// allowanceOf names an allowance.
type allowanceOf struct {
	account    string
	publishing bool
}

// rounding is the error of floating point arithmetic that is ignored.
const rounding = 1e-9

// allowance is the number of requests that an account may still make.
type allowance struct {
	left float64
	at   time.Time
}

func newLimits(perSecond float64) *limits {
	return &limits{perSecond: perSecond, burst: max(1, math.Floor(perSecond)), allowances: make(map[allowanceOf]*allowance)}
}

// quota is what an account is told about its limit.
type quota struct {
	limit, remaining int
	reset            time.Duration // time until the whole allowance is available
	wait             time.Duration // time until the request may be tried again; 0: it was granted
	never            bool          // the request is larger than the whole allowance
}

// take grants n more requests, or none of them. before is how many requests of the same batch were
// granted already; they are given back if the rest is refused.
func (l *limits) take(of allowanceOf, n, before int, now time.Time) quota {
	l.mu.Lock()
	defer l.mu.Unlock()
	a := l.allowances[of]
	if a == nil {
		a = &allowance{left: l.burst, at: now}
		l.allowances[of] = a
	}
	if since := now.Sub(a.at); since > 0 {
		a.left = min(l.burst, a.left+since.Seconds()*l.perSecond)
		a.at = now
	}
	q := quota{limit: int(l.burst), never: float64(n+before) > l.burst}
	if !q.never && a.left+rounding >= float64(n) {
		a.left -= float64(n)
	} else {
		a.left = min(l.burst, a.left+float64(before)) // the whole batch is refused
		q.wait = max(time.Second, l.until(min(float64(n+before), l.burst), a.left))
	}
	q.remaining = int(max(0, math.Floor(a.left+rounding)))
	q.reset = l.until(l.burst, a.left)
	return q
}

// until returns how long the allowance takes to grow from left to wanted.
func (l *limits) until(wanted, left float64) time.Duration {
	seconds := max(0, wanted-left) / l.perSecond
	return time.Duration(min(seconds*float64(time.Second), math.MaxInt64/2))
}

// charge charges n requests to the caller's account, see take, and sets the headers with the
// remaining allowance.
func (c *Call) charge(n, before int) error {
	if c.kernel.limits.perSecond <= 0 || n <= 0 {
		return nil
	}
	of := allowanceOf{c.Principal.Account, c.route.Publishing}
	q := c.kernel.limits.take(of, n, before, time.Now())
	header := c.Writer.Header()
	header.Set("RateLimit-Limit", strconv.Itoa(q.limit))
	header.Set("RateLimit-Remaining", strconv.Itoa(q.remaining))
	header.Set("RateLimit-Reset", wholeSeconds(q.reset))
	switch {
	case q.never:
		return TooMany(q.wait, fmt.Sprintf("The batch has %d events, but the account's rate limit allows at most %d at once. Send smaller batches.", n+before, q.limit))
	case q.wait > 0:
		return TooMany(q.wait, "Too many requests of this account.")
	}
	return nil
}

// ChargeBatch charges the events of a batch; the request itself was charged for the first.
func (c *Call) ChargeBatch(events int) error { return c.charge(events-1, 1) }

func wholeSeconds(d time.Duration) string {
	return strconv.FormatInt(int64((d+time.Second-1)/time.Second), 10)
}
