package deliver

import (
	"math"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
)

const (
	// slowAfter is how long an attempt takes until it hangs, and the longest that a job waits
	// in the short queue.
	slowAfter = time.Second
	// The short queue of a slow webhook may hold queueFactor times its limit of attempts, and that
	// of a fast one at least as many.
	queueFactor = 4
	// A webhook that takes fastRate deliveries a second from all dispatchers together may slow
	// down the reading of events: its short queue may hold what goes out in fastWait. A slower one
	// overflows to its hold queue.
	fastRate = 1000
	fastWait = 500 * time.Millisecond
	// During overload, overloadRate and overloadWait are used instead.
	overloadRate = 50
	overloadWait = 2 * time.Second
	// tellEvery is the shortest time between two announcements that a failing receiver answers again.
	tellEvery = time.Second
)

// endpoint is what this process knows of a webhook: what is in flight to it, what waits,
// its rate and its circuit.
type endpoint struct {
	d    *Deliverer
	hook *index.Hook

	mu       sync.Mutex
	queue    []*Job
	attempts map[*attempt]struct{}
	bytes    int64 // of the bodies in flight
	slow     int
	circuit  circuit
	rates    *rate.Limiter // nil: no limit
	timer    bool          // a pump is due when the rate allows the next
	taken    float64       // seconds that an attempt takes, a moving average; 0: unknown
	toldOK   time.Time     // when the other dispatchers last heard that an attempt succeeded
	// serial: its hold queue begins to drain, one at a time; what is new goes to the hold queue.
	serial bool
	busy   bool // it is in the deliverer's list of those
}

// verdict is what becomes of a job that is offered.
type verdict int

const (
	start verdict = iota
	enqueue
	hold // to the hold queue
	back // to the hold queue where it came from
)

// offer takes a job, or tells why it is for the hold queue; it never waits.
func (ep *endpoint) offer(job *Job) (verdict, domain.Change) {
	now := time.Now()
	ep.mu.Lock()
	defer ep.mu.Unlock()
	v, why := ep.admit(job, now)
	if v == start || v == enqueue {
		if !job.FromHold && ep.fast() {
			ep.d.take(job)
		}
	}
	switch v {
	case start:
		ep.launch(job)
	case enqueue:
		ep.rouse()
		job.queuedAt = now
		ep.queue = append(ep.queue, job)
		ep.d.queued.Add(1)
		ep.schedulePump()
	}
	return v, why
}

// admit decides; ep.mu is held.
func (ep *endpoint) admit(job *Job, now time.Time) (verdict, domain.Change) {
	if job.Probe {
		return start, 0
	}
	if ep.circuit.open && !ep.d.owns(ep.hook) && ep.circuit.stale(now) {
		ep.circuit.succeeded()
		ep.d.metrics.circuits.Dec()
	}
	if ep.circuit.open {
		if job.FromHold {
			return back, domain.ChangeCircuit
		}
		if ep.d.owns(ep.hook) && ep.circuit.tryProbe(now) {
			job.Probe = true
			return start, 0
		}
		return hold, domain.ChangeCircuit
	}
	// A test never goes to the hold queue: if the webhook is inactive, it would stay there.
	if ep.serial && !job.FromHold && !job.Task.Test {
		return hold, domain.ChangeOverflow
	}
	limit := ep.cap()
	if len(ep.queue) == 0 && len(ep.attempts) < limit && ep.fits(job) && ep.allow(now) {
		return start, 0
	}
	if job.FromHold || len(ep.queue) < ep.room(limit) {
		return enqueue, 0
	}
	return hold, domain.ChangeOverflow
}

// cap is how many attempts may be in flight: this process's share of the webhook's
// maxInFlight. While the whole process is under pressure a hanging webhook gets one.
func (ep *endpoint) cap() int {
	limit := max(1, ep.hook.Config().MaxInFlight/max(1, ep.d.live()))
	if ep.slow > 0 && ep.d.pressed() {
		return 1
	}
	return limit
}

// fits tells whether a job's body may be in flight beside the others.
func (ep *endpoint) fits(job *Job) bool {
	most := ep.d.options.WebhookBytes
	return most == 0 || len(ep.attempts) == 0 || ep.bytes+int64(len(job.Task.Body)) <= most
}

// room is how long the queue may become; none when the attempts in flight hang.
func (ep *endpoint) room(limit int) int {
	if ep.slow > 0 && 2*ep.slow >= limit {
		return 0
	}
	takes := ep.takes(limit)
	switch {
	case math.IsInf(takes, 1):
		return maxFast
	case ep.fastFor(takes):
		return max(queueFactor*limit, int(takes*ep.patience().Seconds()))
	case ep.d.queued.Load() > maxQueued:
		return 0
	}
	return min(queueFactor*limit, int(takes*slowAfter.Seconds())+1)
}

// takes is how many deliveries a second the webhook is expected to take.
func (ep *endpoint) takes(limit int) float64 {
	takes := math.Inf(1)
	if ep.taken > 0 {
		takes = float64(limit) / ep.taken
	}
	if ep.rates != nil {
		takes = min(takes, float64(ep.rates.Limit()))
	}
	return takes
}

// failing tells whether the last attempt failed.
func (ep *endpoint) failing() bool {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	return ep.circuit.open || ep.circuit.failures > 0
}

func (ep *endpoint) fast() bool { return ep.fastFor(ep.takes(ep.cap())) }

// fastFor tells whether a webhook that takes so many a second of this process is worth
// holding the bus back for. It gets the others' share of its events from the others.
func (ep *endpoint) fastFor(takes float64) bool {
	takes *= float64(max(1, ep.d.live()))
	return takes >= fastRate || takes >= overloadRate && ep.d.overload.now.Load()
}

// patience is how long the queue of a fast webhook may take to go out.
func (ep *endpoint) patience() time.Duration {
	if ep.d.overload.now.Load() {
		return overloadWait
	}
	return fastWait
}

// took notes how long an attempt took.
func (ep *endpoint) took(d time.Duration) {
	const weight = 1.0 / 8
	seconds := max(d.Seconds(), 1e-6)
	if ep.taken == 0 {
		ep.taken = seconds
		return
	}
	ep.taken += (seconds - ep.taken) * weight
}

// allow takes a token of the rate limit.
func (ep *endpoint) allow(now time.Time) bool {
	ep.setRate()
	return ep.rates == nil || ep.rates.AllowN(now, 1)
}

// wait is how long it takes until the rate allows the next attempt; ep.mu is held.
func (ep *endpoint) wait(now time.Time) time.Duration {
	ep.setRate()
	if ep.rates == nil {
		return 0
	}
	missing := 1 - ep.rates.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(ep.rates.Limit()) * float64(time.Second))
}

func (ep *endpoint) setRate() {
	per := ep.hook.Config().RatePerSecond
	if per == nil {
		ep.rates = nil
		return
	}
	limit := rate.Limit(*per / float64(max(1, ep.d.live())))
	burst := max(1, int(float64(limit)/10))
	switch {
	case ep.rates == nil:
		ep.rates = rate.NewLimiter(limit, burst)
	case ep.rates.Limit() != limit:
		ep.rates.SetLimit(limit)
		ep.rates.SetBurst(burst)
	}
}

// launch starts an attempt, or has it wait until the process has room for it; ep.mu is
// held.
func (ep *endpoint) launch(job *Job) {
	a := ep.attempt(job)
	if a.free && !ep.d.limiter.shut() || ep.d.limiter.enter(a) {
		a.begin()
		go ep.d.run(a)
	}
}

// rouse has the webhook looked at regularly; ep.mu is held.
func (ep *endpoint) rouse() {
	if !ep.busy {
		ep.busy = true
		ep.d.busy.add(ep)
	}
}

// attempt counts a job as in flight; ep.mu is held.
func (ep *endpoint) attempt(job *Job) *attempt {
	ep.rouse()
	a := &attempt{ep: ep, job: job, free: ep.slow > 0}
	ep.attempts[a] = struct{}{}
	ep.bytes += int64(len(job.Task.Body))
	ep.d.attempts.Add(1)
	return a
}

// finish ends an attempt and returns the webhook's next one, nil: none.
func (ep *endpoint) finish(a *attempt, result result) *attempt {
	now := time.Now()
	ep.mu.Lock()
	ep.leave(a)
	var opened, closed, recovered, still bool
	switch result {
	case resultOK:
		ep.took(a.took(now))
		// Others may see nothing but failures: retries are made by the owner alone.
		if ep.circuit.failures > 0 && now.Sub(ep.toldOK) > tellEvery {
			ep.toldOK, recovered = now, true
		}
		closed = ep.circuit.succeeded()
	case resultFailed:
		ep.took(a.took(now))
		opened = ep.circuit.failed(now, a.job.Probe)
		still = ep.circuit.open && !opened && a.job.Probe
	case resultNone:
		if a.job.Probe {
			ep.circuit.dropProbe()
		}
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
	case (recovered || still) && ep.d.live() > 1:
		// That it is still open is told, too: who hears nothing takes it for closed.
		ep.d.options.Notices.CircuitChanged(ep.hook.ID, still)
	}
	ep.d.unqueue(ep, overflow, domain.ChangeCircuit)
	return next
}

// pop takes the next queued job that may start now; ep.mu is held.
func (ep *endpoint) pop(now time.Time) *Job {
	if len(ep.queue) == 0 || len(ep.attempts) >= ep.cap() || ep.circuit.open || !ep.fits(ep.queue[0]) {
		return nil
	}
	if !ep.allow(now) {
		ep.schedulePump()
		return nil
	}
	job := ep.queue[0]
	ep.queue[0] = nil
	ep.queue = ep.queue[1:]
	if len(ep.queue) == 0 {
		ep.queue = nil
	}
	ep.d.queued.Add(-1)
	return job
}

// withdraw takes a job back that waits for the process to have room for it.
func (ep *endpoint) withdraw(a *attempt) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.leave(a)
}

// leave counts an attempt out; ep.mu is held.
func (ep *endpoint) leave(a *attempt) {
	delete(ep.attempts, a)
	ep.bytes -= int64(len(a.job.Task.Body))
	if a.slow {
		ep.slow--
	}
	ep.d.attempts.Add(-1)
	ep.d.release(a.job)
}

// clear empties the queue; ep.mu is held. What leaves the queue other than by pop, or what
// is in flight, is counted out where it leaves: no caller can forget it.
func (ep *endpoint) clear() []*Job {
	jobs := ep.queue
	ep.queue = nil
	ep.d.queued.Add(-int64(len(jobs)))
	for _, job := range jobs {
		ep.d.release(job)
	}
	return jobs
}

// recall takes what the hold queue brought out of the queue; ep.mu is held.
func (ep *endpoint) recall() []*Job {
	var jobs []*Job
	keep := ep.queue[:0]
	for _, job := range ep.queue {
		if job.FromHold {
			jobs = append(jobs, job)
		} else {
			keep = append(keep, job)
		}
	}
	clear(ep.queue[len(keep):])
	ep.queue = keep
	ep.d.queued.Add(-int64(len(jobs)))
	return jobs
}

// schedulePump has the queue looked at when the rate allows the next attempt; without a
// rate limit the end of an attempt does that. ep.mu is held.
func (ep *endpoint) schedulePump() {
	if ep.rates == nil || ep.timer {
		return
	}
	ep.timer = true
	time.AfterFunc(time.Duration(float64(time.Second)/float64(ep.rates.Limit())), ep.pump)
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

// tick looks after what takes long: attempts older than a second count as slow and no
// longer counted, and what waited a second goes to the hold queue. While there is something
// under way or waiting the webhook stays among the busy ones, out of which it was taken.
func (ep *endpoint) tick(now time.Time) (nowSlow []*attempt, overflow []*Job) {
	ep.mu.Lock()
	defer ep.mu.Unlock()
	ep.busy = len(ep.attempts) > 0 || len(ep.queue) > 0
	if !ep.busy {
		return nil, nil
	}
	ep.d.busy.add(ep)
	for a := range ep.attempts {
		if !a.slow && a.took(now) > slowAfter {
			a.slow = true
			ep.slow++
			ep.d.release(a.job)
			nowSlow = append(nowSlow, a)
		}
	}
	keep := ep.queue[:0]
	longest := slowAfter
	if ep.fast() {
		longest = max(longest, ep.patience())
	}
	for _, job := range ep.queue {
		if !job.FromHold && now.Sub(job.queuedAt) > longest {
			ep.d.release(job)
			overflow = append(overflow, job)
			continue
		}
		keep = append(keep, job)
	}
	if len(overflow) > 0 {
		clear(ep.queue[len(keep):])
		ep.queue = keep
		ep.d.queued.Add(-int64(len(overflow)))
	}
	for job := ep.pop(now); job != nil; job = ep.pop(now) {
		ep.launch(job)
	}
	return nowSlow, overflow
}
