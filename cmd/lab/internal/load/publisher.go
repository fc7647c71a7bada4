package load

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"waybill.dev/cmd/lab/internal/meter"
	"waybill.dev/shared/domain"
)

// The ways to publish.
const (
	WayREST  = "rest"  // one event a request
	WayBatch = "batch" // many events a request
	WayNATS  = "nats"  // on the bus
)

// Job is what a publisher publishes.
type Job struct {
	Way string `json:"way"`
	// Address is host:port of the API, NATSURL the bus.
	Address string `json:"address"`
	NATSURL string `json:"natsUrl"`
	// Keys are the API keys of accounts that events are published to in turn. On the bus
	// there is the default account alone.
	Keys []string         `json:"keys"`
	Type domain.EventType `json:"type"`
	Size int              `json:"size"` // bytes of an event
	// First is the number of the first event. At most Events are published, for at most
	// For (0: as long as it takes).
	First  int64         `json:"first"`
	Events int           `json:"events"`
	For    time.Duration `json:"for"`
	// Rate is in events a second, at regular times: an event is sent at its time or, when
	// all connections are busy, late, and counts from its time. 0: as fast as it goes.
	Rate float64 `json:"rate"`
	// Connections are kept open, each with one request at a time; on the bus it is one
	// connection, with up to Pending messages that are not acknowledged yet.
	Connections int `json:"connections"`
	Batch       int `json:"batch"` // events a request
	Pending     int `json:"pending"`
}

// Published is what became of a job.
type Published struct {
	// Events were accepted: those of the numbers from the job's first on, less those that
	// were refused.
	Events  int64           `json:"events"`
	Refused int64           `json:"refused"`
	Fault   string          `json:"fault"` // the first refusal
	Seconds float64         `json:"seconds"`
	Latency meter.Quantiles `json:"latency"` // until an event's answer
}

// PerSecond is the rate at which events were accepted.
func (p Published) PerSecond() float64 {
	if p.Seconds <= 0 {
		return 0
	}
	return float64(p.Events) / p.Seconds
}

// Publish has a publisher do a job to its end.
func (c *Child) Publish(job Job) (Published, error) {
	var p Published
	err := c.call(job, &p)
	return p, err
}

// work is a job under way.
type work struct {
	Job
	template template
	source   schedule
	accepted atomic.Int64
	refused  atomic.Int64
	latency  meter.Histogram
	faults   faults
}

func publish(ctx context.Context, job Job) (Published, error) {
	w := &work{Job: job, template: newTemplate(job.Type, job.Size)}
	if job.Way != WayBatch {
		w.Batch = 1
	}
	w.source = newSource(job)
	var do func(context.Context) error
	switch job.Way {
	case WayREST, WayBatch:
		do = w.rest
	case WayNATS:
		do = w.bus
	default:
		return Published{}, fmt.Errorf("there is no way %q to publish", job.Way)
	}
	if err := do(ctx); err != nil {
		return Published{}, err
	}
	return w.published(), nil
}

// published is what became of the work until now.
func (w *work) published() Published {
	p := Published{
		Events: w.accepted.Load(), Refused: w.refused.Load(),
		Seconds: time.Since(w.source.start).Seconds(), Latency: w.latency.Quantiles(),
	}
	_, p.Fault = w.faults.read()
	return p
}

// schedule hands out the numbers of events, each with the time at which it is due.
type schedule struct {
	start     time.Time
	end       time.Time     // zero: none
	perSecond float64       // 0: as fast as possible
	total     int64         // how many numbers are handed out at most
	handedOut *atomic.Int64 // so far
}

func newSource(job Job) schedule {
	s := schedule{start: time.Now(), perSecond: job.Rate, total: int64(job.Events), handedOut: new(atomic.Int64)}
	if job.For > 0 {
		s.end = s.start.Add(job.For)
	}
	return s
}

// take hands out up to n events that follow each other, and waits until the first of them
// is due. None is left when count is 0. What it was to do when the time is over it does
// not take, so that the numbers taken have no gap.
func (s *schedule) take(ctx context.Context, n int) (offset, count int64, due time.Time) {
	if !s.end.IsZero() && !time.Now().Before(s.end) {
		return 0, 0, due
	}
	offset = s.handedOut.Add(int64(n)) - int64(n)
	count = min(int64(n), s.total-offset)
	if count <= 0 || ctx.Err() != nil {
		return 0, 0, due
	}
	if s.perSecond == 0 {
		return offset, count, time.Now()
	}
	due = s.start.Add(time.Duration(float64(offset) / s.perSecond * float64(time.Second)))
	time.Sleep(time.Until(due))
	return offset, count, due
}

// each calls one in so many goroutines until they return, and returns the first error.
func each(n int, one func(i int) error) error {
	var group sync.WaitGroup
	var first error
	var once sync.Once
	for i := range n {
		group.Go(func() {
			if err := one(i); err != nil {
				once.Do(func() { first = err })
			}
		})
	}
	group.Wait()
	return first
}
