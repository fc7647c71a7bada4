package deliver

import (
	"sync"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

// announceOKInterval is the shortest time between two announcements that a failing receiver answers again.
const announceOKInterval = time.Second

// endpoint is the state of a webhook in this process: its attempts in flight, the deliveries that
// wait, the limits of both, and its circuit.
type endpoint struct {
	d    *Deliverer
	hook *index.Hook

	mu            sync.Mutex
	queue         []*Job
	attempts      map[*attempt]struct{}
	limits        admission.Webhook
	circuit       circuit
	timer         bool      // a pump is scheduled for when the rate allows the next attempt
	announcedOKAt time.Time // when the other dispatchers last heard that an attempt succeeded
	// serial: the webhook's hold queue begins to drain, one delivery at a time; new deliveries go to the hold queue.
	serial bool
	busy   bool // the endpoint is in the deliverer's list of busy endpoints
	// circuitChanged: the endpoint is in the deliverer's list of endpoints with a circuit to be recorded.
	circuitChanged bool
	okAt           time.Time      // when an attempt last succeeded here
	lastAnswer     *domain.Answer // to the last failed attempt, until it is recorded
	// turns has the circuit of each time the webhook began to fail or recovered since the last
	// record, so that the record misses none.
	turns []domain.Circuit
}

// verdict is the answer when a job is offered.
type verdict int

const (
	start verdict = iota
	enqueue
	hold     // to the hold queue
	giveBack // to the hold queue where it came from
)

// offer takes a job, or returns why it must go to the hold queue; it never waits.
func (ep *endpoint) offer(job *Job) (verdict, domain.Change) {
	now := time.Now()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	share := ep.share()
	v, why := ep.admit(job, share, now)
	if v == start || v == enqueue {
		if !job.kept() && ep.limits.Fast(share) {
			ep.d.countJob(job)
		}
	}
	switch v {
	case start:
		ep.launch(job)
	case enqueue:
		ep.markBusy()
		job.queuedAt = now
		ep.queue = append(ep.queue, job)
		ep.d.process.Queue(1)
		ep.schedulePump()
	}
	return v, why
}

// admit decides what happens to a job; ep.mu is held.
func (ep *endpoint) admit(job *Job, share admission.Share, now time.Time) (verdict, domain.Change) {
	if job.Probe {
		return start, 0
	}
	if ep.circuit.open && !ep.d.owns(ep.hook) && ep.circuit.stale(now) {
		ep.circuit.noteSuccess()
		ep.d.metrics.circuits.Dec()
	}
	if ep.circuit.open {
		if job.kept() {
			return giveBack, domain.ChangeCircuit
		}
		if ep.d.owns(ep.hook) && ep.circuit.tryProbe(now) {
			job.Probe = true
			return start, 0
		}
		return hold, domain.ChangeCircuit
	}
	// A test never goes to the hold queue: if the webhook is inactive, it would stay there.
	if ep.serial && !job.kept() && !job.Task.Test {
		return hold, domain.ChangeOverflow
	}
	if len(ep.queue) == 0 && ep.limits.Fits(share, len(job.Task.Body)) && ep.limits.Allow(share, now) {
		return start, 0
	}
	if job.kept() || len(ep.queue) < ep.limits.Room(share) {
		return enqueue, 0
	}
	return hold, domain.ChangeOverflow
}

// share returns the webhook's limits and the number of dispatchers that divide them now.
func (ep *endpoint) share() admission.Share {
	config := ep.hook.Config()
	live := ep.d.liveDispatchers()
	if config.Ordering == domain.OrderingShipment && ep.d.owns(ep.hook) {
		live = 1 // only the owner makes attempts in order
	}
	return admission.Share{MaxInFlight: config.MaxInFlight, PerSecond: config.RatePerSecond, Live: live}
}

// failing reports whether the last attempt failed.
func (ep *endpoint) failing() bool {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.circuit.open || ep.circuit.failures > 0
}

// launch starts an attempt, now or when the process has room for it; ep.mu is held.
func (ep *endpoint) launch(job *Job) {
	ep.d.limiter.Launch(ep.attempt(job))
}

// markBusy puts the webhook among those that are checked regularly; ep.mu is held.
func (ep *endpoint) markBusy() {
	if !ep.busy {
		ep.busy = true
		ep.d.busy.add(ep)
	}
}

// attempt makes the attempt of a job and counts it as in flight; ep.mu is held.
func (ep *endpoint) attempt(job *Job) *attempt {
	ep.markBusy()
	a := &attempt{ep: ep, job: job, place: admission.Place{Yields: job.yields(), Free: ep.limits.Hangs()}}
	ep.attempts[a] = struct{}{}
	ep.limits.Begin(a.size())
	return a
}

// finish ends an attempt and returns the webhook's next one; nil: there is none.
func (ep *endpoint) finish(a *attempt, result result) *attempt {
	now := time.Now()
	ep.mu.Lock()
	ep.uncount(a)
	var opened, closed, recovered, still bool
	switch result {
	case resultOK:
		ep.limits.NoteDuration(a.took(now))
		ep.okAt = now
		if ep.circuit.failures > 0 || ep.circuit.open {
			ep.queueCircuit()
		}
		if ep.circuit.mayAlert() {
			ep.noteTurn(domain.Circuit{SaidAt: now.UTC()})
		}
		// Other dispatchers may see nothing but failures, because only the owner makes retries.
		if ep.circuit.failures > 0 && now.Sub(ep.announcedOKAt) > announceOKInterval {
			ep.announcedOKAt, recovered = now, true
		}
		closed = ep.circuit.noteSuccess()
	case resultFailed:
		ep.limits.NoteDuration(a.took(now))
		was := ep.circuit.mayAlert()
		opened = ep.circuit.noteFailure(now, a.job.Probe, a.job.Task.EventType.Alert())
		ep.queueCircuit()
		if !was && ep.circuit.mayAlert() {
			ep.noteTurn(ep.circuit.state(now))
		}
		still = ep.circuit.open && !opened && a.job.Probe
	case resultNone: // the circuit learns nothing
	}
	var next *attempt
	if job := ep.pop(now); job != nil {
		next = ep.attempt(job)
	}
	var overflow []*Job
	if opened {
		overflow = ep.clear()
	}
	ep.mu.Unlock()
	switch {
	case opened || closed:
		ep.d.circuitChanged(ep, opened)
	case (recovered || still) && ep.d.liveDispatchers() > 1:
		// An open circuit is announced again after each failed probe, because a dispatcher that hears nothing takes
		// the circuit for closed.
		ep.d.options.Notices.CircuitChanged(ep.hook.ID, still)
	}
	ep.d.unqueue(ep, overflow, domain.ChangeCircuit)
	return next
}

// pop removes and returns the next queued job that may start now; ep.mu is held.
func (ep *endpoint) pop(now time.Time) *Job {
	if len(ep.queue) == 0 || ep.circuit.open {
		return nil
	}
	share := ep.share()
	if !ep.limits.Fits(share, len(ep.queue[0].Task.Body)) {
		return nil
	}
	if !ep.limits.Allow(share, now) {
		ep.schedulePump()
		return nil
	}
	job := ep.queue[0]
	ep.queue[0] = nil
	ep.queue = ep.queue[1:]
	if len(ep.queue) == 0 {
		ep.queue = nil
	}
	ep.d.process.Queue(-1)
	return job
}

// withdraw takes back an attempt that waits until the process has room for it.
func (ep *endpoint) withdraw(a *attempt) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.uncount(a)
}

// uncount ends the count of an attempt; ep.mu is held.
func (ep *endpoint) uncount(a *attempt) {
	delete(ep.attempts, a)
	ep.limits.End(a.size(), a.slow)
	ep.d.uncountJob(a.job)
}

// clear empties the queue and ends the count of each job; ep.mu is held. Since every way out of the queue except pop
// ends the count itself, no caller can forget it.
func (ep *endpoint) clear() []*Job {
	jobs := ep.queue
	ep.queue = nil
	ep.d.process.Queue(-len(jobs))
	for _, job := range jobs {
		ep.d.uncountJob(job)
	}
	return jobs
}

// recall removes and returns the jobs of the queue that came from the hold queue; ep.mu is held.
func (ep *endpoint) recall() []*Job {
	var jobs []*Job
	keep := ep.queue[:0]
	for _, job := range ep.queue {
		if job.kept() {
			jobs = append(jobs, job)
		} else {
			keep = append(keep, job)
		}
	}
	clear(ep.queue[len(keep):])
	ep.queue = keep
	ep.d.process.Queue(-len(jobs))
	return jobs
}

// schedulePump makes a timer look at the queue when the rate allows the next attempt; ep.mu is held. Without a rate
// limit, the end of an attempt looks at the queue.
func (ep *endpoint) schedulePump() {
	every := ep.limits.RateInterval()
	if every == 0 || ep.timer {
		return
	}
	ep.timer = true
	time.AfterFunc(every, ep.pump)
}

func (ep *endpoint) pump() {
	now := time.Now()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.timer = false
	for job := ep.pop(now); job != nil; job = ep.pop(now) {
		ep.launch(job)
	}
	if len(ep.queue) > 0 {
		ep.schedulePump()
	}
}

// tick handles attempts and jobs that take long. Attempts older than a second begin to hang and no
// longer count towards Deliverer.Room; jobs that waited longer than Patience go to the hold queue.
// While attempts are in flight or jobs wait, tick puts the webhook back into the list of busy
// endpoints, from which the caller has taken it.
func (ep *endpoint) tick(now time.Time) (nowSlow []*attempt, overflow []*Job) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.busy = len(ep.attempts) > 0 || len(ep.queue) > 0
	if !ep.busy {
		return nil, nil
	}
	ep.d.busy.add(ep)
	for a := range ep.attempts {
		if !a.slow && a.took(now) > admission.HangAfter {
			a.slow = true
			ep.limits.Hang()
			ep.d.uncountJob(a.job)
			nowSlow = append(nowSlow, a)
		}
	}
	keep := ep.queue[:0]
	longest := ep.limits.Patience(ep.share())
	for _, job := range ep.queue {
		if !job.kept() && now.Sub(job.queuedAt) > longest {
			ep.d.uncountJob(job)
			overflow = append(overflow, job)
			continue
		}
		keep = append(keep, job)
	}
	if len(overflow) > 0 {
		clear(ep.queue[len(keep):])
		ep.queue = keep
		ep.d.process.Queue(-len(overflow))
	}
	for job := ep.pop(now); job != nil; job = ep.pop(now) {
		ep.launch(job)
	}
	return nowSlow, overflow
}
