// Package deliver sends deliveries to their receivers: it keeps each webhook within its
// in-flight cap and rate, signs and posts, classifies the answer, and has the outcome
// stored before whoever brought the delivery may forget it.
package deliver

import (
	"sync/atomic"
	"time"

	"waybill.dev/shared/domain"
)

// Origin is who brought a job and holds it until its outcome is stored.
type Origin interface {
	// Emitting is called once, when the outcome is about to be recorded. The event that it
	// returns is recorded together with the outcome; nil: none.
	Emitting() *domain.Event
	// Stored is called once the outcome is stored durably: recorded, scheduled or held.
	Stored()
	// Abandoned is called instead of both when nothing was done: the delivery stays
	// where it came from.
	Abandoned()
}

// Job is a delivery that somebody has brought.
type Job struct {
	Task   *domain.Task
	Origin Origin
	// FromHold marks a job that a hold queue's drain brings: it waits for a slot as long as
	// need be, as it is in the hold queue already.
	FromHold bool
	// Wide marks one of very many of an event: it lets others pass; see WideFrom.
	Wide bool
	// Probe marks the one delivery that is sent through an open circuit.
	Probe bool

	noted    atomic.Bool // its log begins with the note that it takes long
	queuedAt time.Time
	fresh    atomic.Bool // it is counted; see Deliverer.Room
}

// yields tells whether a job lets others pass where places are short: one of very many of
// an event, and what a hold queue brings, which is late already.
func (j *Job) yields() bool { return j.Wide || j.FromHold && !j.Probe }

// attempt is one that is under way, or waits for the process to have room for it.
type attempt struct {
	ep      *endpoint
	job     *Job
	free    bool         // needs no place: others to the same webhook hang
	placed  bool         // has a place; the limiter's lock guards it
	slow    bool         // for more than a second; the endpoint's lock guards it
	started atomic.Int64 // nanoseconds since the deliverer was made; 0: it waits
}

// begin notes that an attempt is under way.
func (a *attempt) begin() { a.started.Store(max(1, int64(time.Since(a.ep.d.made)))) }

// took is for how long an attempt has been under way; 0: it waits.
func (a *attempt) took(now time.Time) time.Duration {
	started := a.started.Load()
	if started == 0 {
		return 0
	}
	return now.Sub(a.ep.d.made) - time.Duration(started)
}
