package metering

import (
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/store/metering"
)

// allowance is the part of one feature in a consumer's plan, with its known usage.
type allowance struct {
	domain.Grant

	start, end time.Time // the period; zero: there is no meter
	base       int64     // usage according to the database
}

// unknownStatus stands for the status of a request that is in flight.
const unknownStatus = "?"

// value returns how much an event of an hour adds to the usage.
func (a *allowance) value(e event, hour time.Time, n metering.Count) int64 {
	if a.Meter == nil || a.Meter.EventType != e.kind || hour.Before(a.start) || hour.Before(a.Meter.EventFrom) {
		return 0
	}
	if len(a.Filters) > 0 {
		dims := e.dims
		if dims.Status == unknownStatus { // the request may get a status that counts
			dims.Status = a.Filters["$.status"]
		}
		if !dims.Matches(a.Filters) {
			return 0
		}
	}
	return n.Value(a.Meter.Aggregation)
}

// event is the key by which events of one hour are counted.
type event struct {
	kind string
	dims metering.Dims
}

// unwritten is a count of this process that the database may not have yet.
type unwritten struct {
	batch int64
	hour  time.Time
	event event
	n     metering.Count
}

// consumer is the knowledge about one consumer.
type consumer struct {
	id, bucket string
	reading    chan struct{} // has room for one: held by the goroutine that reads
	failed     atomic.Bool   // the last reading failed

	mu           sync.Mutex
	known        bool // was read at least once
	readAt       time.Time
	ends         time.Time // the first end of a period; zero: there is none
	entitlements *metering.Entitlements
	allowances   []allowance
	closed       closedHours
	unwritten    []unwritten
	inFlight     map[event]metering.Count
}

// age returns how old the knowledge is, and whether a period has ended since.
func (c *consumer) age(now time.Time) (age time.Duration, ended bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.readAt), !c.ends.IsZero() && !now.Before(c.ends)
}

func (c *consumer) idle(now time.Time) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return now.Sub(c.readAt) > forgetAfter && len(c.inFlight) == 0
}

func (c *consumer) closedSums() closedHours {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closed
}

// noteFailure notes that reading has failed, so that it is not tried again at each request.
func (c *consumer) noteFailure(at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readAt = at
	if !c.ends.IsZero() && !at.Before(c.ends) {
		c.beginPeriods(at)
	}
}

// beginPeriods begins new periods without the database: only the counts of this process are known for them.
// c.mu is held.
func (c *consumer) beginPeriods(at time.Time) {
	c.ends = time.Time{}
	for i := range c.allowances {
		a := &c.allowances[i]
		if a.Meter == nil {
			continue
		}
		if !at.Before(a.end) {
			a.start, a.end = a.Period.Period(c.entitlements.Anchor, at)
			a.base = 0
		}
		c.endsWith(a.end)
	}
}

func (c *consumer) endsWith(end time.Time) {
	if c.ends.IsZero() || end.Before(c.ends) {
		c.ends = end
	}
}

// apply applies a reading. Counts that the database has by now are removed from the unwritten ones.
func (c *consumer) apply(r *consumerState, at time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.known, c.readAt, c.ends = true, at, time.Time{}
	c.entitlements, c.allowances, c.closed = r.entitlements, r.allowances, r.closed
	for i := range c.allowances {
		if c.allowances[i].Meter != nil {
			c.endsWith(c.allowances[i].end)
		}
	}
	if r.entitlements == nil {
		return // batch was not read
	}
	left := c.unwritten[:0]
	for _, u := range c.unwritten {
		if u.batch > r.batch {
			left = append(left, u)
		}
	}
	c.unwritten = left
}

// use is one event that a request makes.
type use struct {
	event event
	n     metering.Count
	free  bool // checked but not counted
}

// begin checks a request and, if it is allowed, counts it as in flight. Known: the database could be
// read.
func (c *consumer) begin(wanted []route.Use, dims route.Dims, now time.Time, known bool) ([]use, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.entitlements == nil {
		if c.known || known {
			return nil, errNoPlan
		}
		return nil, nil // nothing is known about the consumer
	}
	at := metering.Dims{Deployment: dims.Deployment, Route: dims.Route, Method: dims.Method, Status: unknownStatus}
	taken := make([]use, 0, len(wanted))
	for _, w := range wanted {
		u, err := c.check(w, at, now)
		if err != nil {
			return nil, err
		}
		taken = append(taken, u)
	}
	for _, u := range taken {
		if !u.free {
			c.addInFlight(u, 1)
		}
	}
	return taken, nil
}

// check reports whether a request may use so much of a meter. c.mu is held.
func (c *consumer) check(w route.Use, dims metering.Dims, now time.Time) (use, error) {
	var u use
	found := false
	hour := now.UTC().Truncate(time.Hour)
	for i := range c.allowances {
		a := &c.allowances[i]
		if a.Meter == nil || a.Meter.Slug != w.Meter {
			continue
		}
		found = true
		u = use{event{a.Meter.EventType, dims}, metering.Count{Events: 1, Total: w.Amount}, a.Meter.EventType == domain.EventDeliveries}
		wants := a.value(u.event, hour, u.n)
		if !a.Entitlement.Hard() || wants == 0 && !u.free {
			continue
		}
		if c.used(a, hour)+max(wants, 1) > a.Entitlement.IssueAfterReset {
			p := problem.New(problem.QuotaExceeded, "The quota of this period is used up.")
			p.RetryAfter = a.end.Sub(now)
			return u, p
		}
	}
	if !found {
		return u, errNoFeature
	}
	return u, nil
}

// errNoFeature is never changed.
var errNoFeature = problem.New(problem.Forbidden, "The consumer's plan does not include this.")

// used returns the usage of an allowance, including requests in flight. c.mu is held.
func (c *consumer) used(a *allowance, hour time.Time) int64 {
	used := a.base
	for i := range c.unwritten {
		used += a.value(c.unwritten[i].event, c.unwritten[i].hour, c.unwritten[i].n)
	}
	for e, n := range c.inFlight {
		used += a.value(e, hour, n)
	}
	return used
}

// addInFlight adds a use to those in flight, or removes it. c.mu is held.
func (c *consumer) addInFlight(u use, sign int64) {
	n := c.inFlight[u.event]
	n.Events += sign * u.n.Events
	n.Total += sign * u.n.Total
	if n.Events == 0 {
		delete(c.inFlight, u.event)
		return
	}
	c.inFlight[u.event] = n
}

// end ends requests in flight: it counts them if counts is true, otherwise it drops them.
func (c *consumer) end(m *Meters, taken []use, counts bool, status string) {
	now := m.options.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, u := range taken {
		if u.free {
			continue
		}
		c.addInFlight(u, -1)
		if !counts {
			continue
		}
		u.event.dims.Status = status
		key := metering.HourKey{Bucket: c.bucket, Consumer: c.id, EventType: u.event.kind, Hour: metering.HourOf(now), Dims: u.event.dims}
		c.add(unwritten{m.options.Counts.Meter(key, u.n), key.Start(), u.event, u.n})
	}
}

func (c *consumer) add(u unwritten) {
	for i := range c.unwritten {
		if known := &c.unwritten[i]; known.batch == u.batch && known.event == u.event && known.hour.Equal(u.hour) {
			known.n.Events += u.n.Events
			known.n.Total += u.n.Total
			return
		}
	}
	c.unwritten = append(c.unwritten, u)
}
