// Package deliver sends deliveries to their receivers. It keeps each webhook within its
// limit of attempts in flight and its rate, signs and posts, classifies the answer, and stores the
// outcome before the delivery's origin may forget it.
package deliver

import (
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// Origin brought a job, and holds it until the job's outcome is stored.
type Origin interface {
	// Emitting is called once, before the outcome is recorded. The event that it
	// returns is recorded together with the outcome; nil: none.
	Emitting() *domain.Event
	// Settler returns what is settled with the last outcomes; nil: nothing is.
	Settler() record.Settler
	// Stored is called once the outcome is stored durably: recorded, scheduled or held.
	Stored()
	// Abandoned is called instead of both when nothing was done: the delivery stays
	// where it came from.
	Abandoned()
}

// Job is a delivery that the deliverer works on.
type Job struct {
	Task   *domain.Task
	Origin Origin
	// FromHold marks a job that comes from the webhook's hold queue. It waits for a free place as
	// long as needed, because the hold queue has it already.
	FromHold bool
	// Wide marks a delivery of an event that goes to very many webhooks. It lets others pass; see admission.WideFrom.
	Wide bool
	// Probe marks the one delivery that is sent while the circuit is open.
	Probe bool
	// Keeper stores the delivery when it has to wait; nil: the deliverer's. A job that has one of its
	// own is one of an ordered webhook, in its turn: it does not let others pass.
	Keeper Keeper

	status   domain.Status // that it has reached; see Status
	noted    atomic.Bool   // the log has a note that its first attempt takes long
	queuedAt time.Time
	fresh    atomic.Bool // counts towards the limit of Deliverer.Room
}

// yields tells whether a job lets others pass when places are short: a delivery of a wide
// event, or one from a hold queue, which is late already.
func (j *Job) yields() bool { return j.Wide || j.FromHold && !j.Probe && j.Keeper == nil }

// Status returns which status the delivery has reached, once its origin is told that it is stored.
func (j *Job) Status() domain.Status { return j.status }

// attempt is one that is in flight, or waits for a place in the concurrency limiter.
type attempt struct {
	ep      *endpoint
	job     *Job
	place   admission.Place
	slow    bool         // hangs: no answer for more than a second; the endpoint's lock guards it
	started atomic.Int64 // nanoseconds since the deliverer was made; 0: it still waits
}

// Place implements admission.Attempt.
func (a *attempt) Place() *admission.Place { return &a.place }

// Begin implements admission.Attempt: it notes that the attempt has started.
func (a *attempt) Begin() { a.started.Store(max(1, int64(time.Since(a.ep.d.made)))) }

// size is that of its body.
func (a *attempt) size() int { return len(a.job.Task.Body) }

// took is how long the attempt has been in flight; 0: it still waits.
func (a *attempt) took(now time.Time) time.Duration {
	started := a.started.Load()
	if started == 0 {
		return 0
	}
	return now.Sub(a.ep.d.made) - time.Duration(started)
}
