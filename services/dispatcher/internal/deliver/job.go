// Package deliver sends deliveries to their receivers. It keeps each webhook within its limit of
// attempts in flight and its rate, signs and posts, classifies the answer, and stores the outcome
// before the delivery's origin may forget the delivery.
package deliver

import (
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/domain"
)

// Origin is where a job came from. It holds the job until the job's outcome is stored.
type Origin interface {
	// Emitting is called once, before the outcome is recorded. It returns the event that is
	// recorded together with the outcome; nil: none.
	Emitting() *domain.Event
	// SettlingEvent returns the event that is settled after its last outcomes; nil: none.
	SettlingEvent() record.SettlingEvent
	// Stored is called once the job's outcome is stored durably: recorded, scheduled or held.
	Stored()
	// Abandoned is called instead of Emitting and Stored when no attempt was made: the delivery
	// stays where it came from.
	Abandoned()
}

// SettledOrigin has the methods of an Origin whose event is in the database and settled.
type SettledOrigin struct{}

// Emitting implements Origin.
func (SettledOrigin) Emitting() *domain.Event { return nil }

// SettlingEvent implements Origin.
func (SettledOrigin) SettlingEvent() record.SettlingEvent { return nil }

// Lane is the way on which a delivery comes to be attempted. It decides what the deliverer does when the delivery
// can't start at once.
type Lane int

// The lanes.
const (
	Fresh   Lane = iota // from EVENTS
	Wide                // from EVENTS, of a wide event
	Due                 // from RETRIES
	Drained             // from the webhook's hold queue
	Ordered             // in its turn among those of its webhook and shipment
	lanes
)

// LaneOf returns the lane of the deliveries of an event, by their number.
func LaneOf(deliveries int) Lane {
	if deliveries >= admission.WideFrom {
		return Wide
	}
	return Fresh
}

// laneProperties of a lane.
type laneProperties struct {
	// kept: a queue on the bus has the delivery until its outcome is stored. The delivery waits for
	// a free place as long as needed, and is given back when it can't get a place. It counts
	// towards no limit of Deliverer.Room.
	kept bool
	// yields: the delivery lets others pass when places are short; see admission.Limiter. A probe never yields.
	yields bool
	// logged: the delivery log has the delivery. A note that its attempt takes long would hide from the relay where
	// the delivery is.
	logged bool
}

func (l Lane) properties() laneProperties {
	return [lanes]laneProperties{
		Fresh:   {},
		Wide:    {yields: true},
		Due:     {logged: true},
		Drained: {logged: true, kept: true, yields: true},
		Ordered: {logged: true, kept: true},
	}[l]
}

// Job is a delivery that the deliverer works on.
type Job struct {
	Task   *domain.Task
	Origin Origin
	Lane   Lane
	// Probe: it is the one delivery that is sent while the circuit is open.
	Probe bool
	// Keeper stores an ordered delivery that has to wait. Other deliveries are stored by the deliverer's Keeper.
	Keeper Keeper

	status       domain.Status // the status that the delivery has reached; see Status
	pendingNoted atomic.Bool   // the log has a note that its first attempt takes long
	queuedAt     time.Time
	counted      atomic.Bool // the job counts towards the limit of Deliverer.Room
}

func (j *Job) kept() bool { return j.Lane.properties().kept }

// yields reports whether a job lets others pass when places are short.
func (j *Job) yields() bool { return j.Lane.properties().yields && !j.Probe }

// Status returns the status that the delivery has reached. Call it after Stored.
func (j *Job) Status() domain.Status { return j.status }

// attempt is an attempt that is in flight, or waits for a place in the concurrency limiter.
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
func (a *attempt) Begin() { a.started.Store(max(1, int64(time.Since(a.ep.d.startedAt)))) }

// size returns the length of the body that the attempt sends.
func (a *attempt) size() int { return len(a.job.Task.Body) }

// took returns how long the attempt has been in flight; 0: it still waits.
func (a *attempt) took(now time.Time) time.Duration {
	started := a.started.Load()
	if started == 0 {
		return 0
	}
	return now.Sub(a.ep.d.startedAt) - time.Duration(started)
}
