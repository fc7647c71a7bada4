package deliver

import (
	"time"

	"waybill.dev/shared/domain"
)

// A circuit opens after circuitFailures in a row over at least circuitSpan. Then only probes are
// sent, at first every probeFirst, later up to probeLongest apart.
const (
	circuitFailures = 20
	circuitSpan     = 10 * time.Second
	probeFirst      = 5 * time.Second
	probeLongest    = 5 * time.Minute
	// staleAfter is how long a circuit counts as open without news of it, while another dispatcher
	// sends the probes. That dispatcher announces each failed probe; the announcement of a success
	// may be lost.
	staleAfter = probeLongest + time.Minute
)

// circuit is a webhook's circuit breaker. It counts failures in a row and over a span of time, which the
// circuit breakers of libraries don't do. It is not safe for concurrent use; its endpoint's lock guards it.
type circuit struct {
	failures      int
	eventFailures int       // how many of the failures were of attempts to deliver other events than alerts
	since         time.Time // of the first failure in the row
	open          bool
	opened        time.Time // when it opened, as far as this process knows
	probing       bool
	wait          time.Duration
	nextProbe     time.Time
	knownOpenAt   time.Time // when it was last known to be open
}

// noteFailure notes a failed attempt and reports whether the failure opened the circuit. alert: the
// attempt was to deliver an alert.
func (c *circuit) noteFailure(now time.Time, probe, alert bool) (opened bool) {
	if !alert {
		c.eventFailures++
	}
	if c.open {
		c.failures++
		if probe {
			c.probing = false
			c.wait = min(2*c.wait, probeLongest)
			c.nextProbe, c.knownOpenAt = now.Add(c.wait), now
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

// trip opens the circuit, because of failures here or because another dispatcher has announced that it is open.
func (c *circuit) trip(now time.Time) {
	c.open, c.probing, c.wait = true, false, probeFirst
	c.nextProbe, c.knownOpenAt, c.opened = now.Add(probeFirst), now, now
	c.failures = max(c.failures, circuitFailures)
	if c.since.IsZero() {
		c.since = now
	}
}

// state returns the circuit as the API gets it.
func (c *circuit) state(now time.Time) domain.Circuit {
	s := domain.Circuit{Failures: c.failures, SaidAt: now.UTC(), Alarming: c.mayAlert()}
	if c.failures > 0 {
		s.FailingSince = c.since.UTC()
	}
	if c.open {
		s.OpenSince, s.NextProbeAt = c.opened.UTC(), c.nextProbe.UTC()
	}
	return s
}

// mayAlert reports whether there may be an alert about the row of failures. Failed deliveries of
// alerts don't count: otherwise two receivers that fail now and then could have alerts about each
// other for ever.
func (c *circuit) mayAlert() bool { return c.eventFailures >= domain.FailingFrom }

// resume takes over the row of failures that another dispatcher has reported, unless the one known here is longer. This
// dispatcher knows by itself whether the circuit is open.
func (c *circuit) resume(reported domain.Circuit) {
	if !c.open && c.failures < reported.Failures {
		c.failures, c.since = reported.Failures, reported.FailingSince
		c.eventFailures = max(c.eventFailures, reported.Failures) // the other dispatcher does not say which events failed
	}
}

// stale reports whether there was no news of an open circuit for so long that it may be closed.
func (c *circuit) stale(now time.Time) bool { return now.Sub(c.knownOpenAt) > staleAfter }

// noteSuccess notes a successful attempt and reports whether it closed the circuit.
func (c *circuit) noteSuccess() (closed bool) {
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
