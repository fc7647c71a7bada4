package deliver

import (
	"time"

	"github.com/cenkalti/backoff/v4"

	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// conclude stores the outcome of an attempt: first in the schedule or hold queue that takes the
// delivery over, if any, then in the record. Only then is the job's origin told.
func (d *Deliverer) conclude(job *Job, attempt *domain.Attempt, decided decision, now time.Time) {
	next := *job.Task
	next.Attempts++
	next.RunAttempts++
	next.Rev = next.Rev.Next()
	next.Request = ""
	next.HeldAt, next.Overflowed = time.Time{}, false
	if next.RunStartedAt.IsZero() {
		next.RunStartedAt = attempt.StartedAt
	}
	outcome := outcomeOf(&next, decided.change, now)
	outcome.Request = job.Task.Request
	outcome.Attempt = attempt
	if job.Task.Forge != "" {
		outcome.Reason = string(job.Task.Forge)
	}
	d.metrics.countOutcome(outcome.Status)
	switch outcome.Status {
	case domain.StatusRetrying:
		at := now.Add(decided.wait)
		outcome.NextAttemptAt = at.UTC()
		d.keepOnBus(job, func(done func(error)) { d.keeper(job).Schedule(&next, at, done) }, func() { d.emit(job, outcome) })
	case domain.StatusHeld:
		next.HeldAt = now.UTC()
		outcome.InLane = true
		d.keepOnBus(job, func(done func(error)) { d.keeper(job).Hold(&next, done) }, func() {
			d.emit(job, outcome)
			if job.Lane != Ordered {
				d.options.Notices.DeliveryHeld(next.Webhook, outcome.Reason)
			}
		})
	default:
		d.emit(job, outcome)
	}
}

// keeper returns the Keeper that stores a job that has to wait.
func (d *Deliverer) keeper(job *Job) Keeper {
	if job.Lane == Ordered {
		return job.Keeper
	}
	return d.options.Keeper
}

// putOff puts a job into its webhook's hold queue without an attempt. The job's schedule runs on
// while the circuit is open, so the job may be exhausted already; then putOff ends it.
func (d *Deliverer) putOff(ep *endpoint, job *Job, why domain.Change) {
	switch {
	case why == domain.ChangeCircuit:
		schedule := ep.hook.Config().Schedule(d.options.Schedule)
		if at, ok := Deadline(job.Task, schedule); ok && time.Now().After(at) {
			d.End(job, domain.ChangeExhausted)
			return
		}
	case job.Task.Attempts > 0:
		why = domain.ChangePutOff
	}
	d.hold(job, why)
}

// hold puts a job into its webhook's hold queue and records why.
func (d *Deliverer) hold(job *Job, why domain.Change) {
	now := time.Now().UTC()
	next := *job.Task
	next.Rev = next.Rev.Next()
	next.HeldAt = now
	next.Overflowed = why == domain.ChangeOverflow || why == domain.ChangePutOff
	if why == domain.ChangeCircuit && next.RunStartedAt.IsZero() {
		next.RunStartedAt = now
	}
	outcome := outcomeOf(&next, why, now)
	outcome.InLane = true
	outcome.Request = job.Task.Request
	next.Request = ""
	d.metrics.held.WithLabelValues(outcome.Reason).Inc()
	d.keepOnBus(job, func(done func(error)) { d.options.Keeper.Hold(&next, done) }, func() {
		d.emit(job, outcome)
		d.options.Notices.DeliveryHeld(next.Webhook, outcome.Reason)
	})
}

// End gives a delivery up for good, without another attempt.
func (d *Deliverer) End(job *Job, how domain.Change) {
	now := time.Now()
	next := *job.Task
	next.Rev = next.Rev.Next()
	outcome := outcomeOf(&next, how, now)
	outcome.Request = job.Task.Request
	d.metrics.ended.WithLabelValues(outcome.Reason).Inc()
	d.metrics.countOutcome(outcome.Status)
	d.emit(job, outcome)
}

// notePending records a delivery whose first attempt takes long, so that the log shows the delivery
// before the attempt ends.
func (d *Deliverer) notePending(job *Job) {
	task := *job.Task
	task.Rev = task.Rev.Noted()
	job.pendingNoted.Store(true)
	outcome := outcomeOf(&task, domain.ChangeAccepted, time.Now())
	d.options.Emitter.Emit(record.Item{Outcome: &outcome})
}

// RecordWaiting records that a delivery waits for its turn. next is the state in which the delivery was kept.
func (d *Deliverer) RecordWaiting(job *Job, next *domain.Task, why domain.Change) {
	outcome := outcomeOf(next, why, time.Now())
	outcome.InLane = true
	d.metrics.held.WithLabelValues(outcome.Reason).Inc()
	d.emit(job, outcome)
}

// outcomeOf returns the state of a delivery after a change.
func outcomeOf(task *domain.Task, change domain.Change, now time.Time) domain.Outcome {
	return domain.Outcome{
		Delivery: task.Delivery, Account: task.Account, Webhook: task.Webhook,
		EventID: task.EventID, EventType: task.EventType, EventSeq: task.EventSeq,
		Status: change.To(), Rev: task.Rev, Attempts: task.Attempts, RunAttempts: task.RunAttempts,
		RunStartedAt: task.RunStartedAt, Reason: change.Reason(), UpdatedAt: now.UTC(), Test: task.Test,
		Sequence: task.Sequence, Shipment: task.Shipment,
	}
}

// emit records an outcome and tells the job's origin once it is stored.
func (d *Deliverer) emit(job *Job, outcome domain.Outcome) {
	outcome.Noted = job.pendingNoted.Load()
	job.status = outcome.Status
	d.options.Emitter.Emit(record.Item{Outcome: &outcome, Event: job.Origin.Emitting(), OutcomeEvent: job.Origin.SettlingEvent(), Done: job.Origin.Stored})
}

// keepOnBus stores a delivery on the bus, and tries for ever if needed. Until the bus has the delivery,
// the job's origin holds it. After Close the delivery stays with the origin.
func (d *Deliverer) keepOnBus(job *Job, put func(done func(error)), then func()) {
	var wait *backoff.ExponentialBackOff
	var try func()
	try = func() {
		put(func(err error) {
			if err == nil {
				then()
				return
			}
			if wait == nil {
				wait = backoff.NewExponentialBackOff(backoff.WithInitialInterval(50*time.Millisecond),
					backoff.WithMaxInterval(2*time.Second), backoff.WithMaxElapsedTime(0))
				d.warnNotKept(err)
			}
			select {
			case <-d.stop:
				job.Origin.Abandoned()
			default:
				time.AfterFunc(wait.NextBackOff(), try)
			}
		})
	}
	try()
}

// warnNotKept warns that deliveries can't be stored on the bus, at most once in warnInterval, because
// thousands of deliveries may fail at once.
func (d *Deliverer) warnNotKept(err error) {
	now, last := int64(time.Since(d.startedAt)), d.warnedAt.Load()
	if (last == 0 || now-last > int64(warnInterval)) && d.warnedAt.CompareAndSwap(last, max(1, now)) {
		d.options.Logger.Warn("deliveries can't be stored on the bus; trying again", "error", err)
	}
}
