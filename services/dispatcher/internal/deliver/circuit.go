package deliver

import (
	"time"

	"waybill.dev/shared/domain"
)

// A circuit opens after circuitFailures in a row over at least circuitSpan. Then only
// probes are sent, at first probeFirst apart, later up to probeLongest.
const (
	circuitFailures = 20
	circuitSpan     = 10 * time.Second
	probeFirst      = 5 * time.Second
	probeLongest    = 5 * time.Minute
	// staleAfter is how long a circuit counts as open without any news, when another dispatcher
	// sends the probes. Each failed probe is announced, and the announcement of a success may be lost.
	staleAfter = probeLongest + time.Minute
)

// circuit is a webhook's circuit breaker. It counts failures in a row and over a span of time, which the
// circuit breakers of libraries don't do. It is not safe for
// concurrent use; its endpoint's lock guards it.
type circuit struct {
	failures  int
	ofEvents  int       // how many of them were not of alerts
	since     time.Time // of the first failure of the row
	open      bool
	opened    time.Time // when it opened, as far as this process knows
	probing   bool
	wait      time.Duration
	nextProbe time.Time
	told      time.Time // when it was last known to be open
}

// failed notes a failed attempt and reports whether it opened the circuit. alert: it was to
// deliver an alert.
func (c *circuit) failed(now time.Time, probe, alert bool) (opened bool) {
	if !alert {
		c.ofEvents++
	}
	if c.open {
		c.failures++
		if probe {
			c.probing = false
			c.wait = min(2*c.wait, probeLongest)
			c.nextProbe, c.told = now.Add(c.wait), now
		}
		return false
	}
	if c.failures == 0 {
		c.since = now
	}
	c.failures++
	if c.failures < circuitFailures || now.Sub(c.since) < circuitSpan {
		return false
	}
	c.trip(now)
	return true
}

// trip opens the circuit, here or because another dispatcher has seen as many failures.
func (c *circuit) trip(now time.Time) {
	c.open, c.probing, c.wait = true, false, probeFirst
	c.nextProbe, c.told, c.opened = now.Add(probeFirst), now, now
	c.failures = max(c.failures, circuitFailures)
	if c.since.IsZero() {
		c.since = now
	}
}

// state is the circuit as it is told to the API.
func (c *circuit) state(now time.Time) domain.Circuit {
	s := domain.Circuit{Failures: c.failures, SaidAt: now.UTC(), Alarming: c.alarming()}
	if c.failures > 0 {
		s.FailingSince = c.since.UTC()
	}
	if c.open {
		s.OpenSince, s.NextProbeAt = c.opened.UTC(), c.nextProbe.UTC()
	}
	return s
}

// alarming reports whether an alert may tell of the row of failures: those of alerts don't count,
// or two receivers that fail now and then could have alerts about each other for ever.
func (c *circuit) alarming() bool { return c.ofEvents >= domain.FailingFrom }

// resume takes over the row of failures that another dispatcher has reported, unless the one known here is longer. This
// dispatcher knows by itself whether the circuit is open.
func (c *circuit) resume(said domain.Circuit) {
	if !c.open && c.failures < said.Failures {
		c.failures, c.since = said.Failures, said.FailingSince
		c.ofEvents = max(c.ofEvents, said.Failures) // it is not said of what they were
	}
}

// stale reports whether there was no news of an open circuit for so long that it may be closed.
func (c *circuit) stale(now time.Time) bool { return now.Sub(c.told) > staleAfter }

// succeeded notes a successful attempt and reports whether it closed the circuit.
func (c *circuit) succeeded() (closed bool) {
	closed = c.open
	*c = circuit{}
	return closed
}

// tryProbe takes the right to send the next probe, when it is due.
func (c *circuit) tryProbe(now time.Time) bool {
	if !c.open || c.probing || now.Before(c.nextProbe) {
		return false
	}
	c.probing = true
	return true
}

// dropProbe gives the right to send a probe back unused.
func (c *circuit) dropProbe() { c.probing = false }
