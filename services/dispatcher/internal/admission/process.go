package admission

import (
	"context"
	"sync/atomic"
	"time"

	"waybill.dev/shared/signal"
)

// Options of a Process.
type Options struct {
	// Full reports whether outcomes can't be stored. While it does, no attempt begins. nil: never.
	Full func() bool
	// Tight reports whether memory is short. nil: never.
	Tight func() bool
	// WebhookBytes bounds the bodies in flight to one webhook; one body may always be in flight.
	// Without it, receivers that hang would hold the memory that all others need. 0: no bound.
	WebhookBytes int64
}

// Process counts what a dispatcher has taken on. It may be used concurrently.
type Process struct {
	Overload *Overload
	options  Options

	fast     atomic.Int64 // deliveries, without those of wide events
	wide     atomic.Int64
	queued   atomic.Int64  // in the short queues
	attempts atomic.Int64  // that may start or have started
	waiting  atomic.Int64  // attempts that wait for the limiter
	hanging  atomic.Int64  // attempts without an answer for HangAfter
	limit    int64         // of attempts in flight at once
	room     signal.Signal // gets a value when fast or wide falls below its limit
}

// NewProcess returns a process that has taken on nothing.
func NewProcess(options Options) *Process {
	never := func() bool { return false }
	if options.Full == nil {
		options.Full = never
	}
	if options.Tight == nil {
		options.Tight = never
	}
	return &Process{Overload: newOverload(), options: options, limit: attemptsLimit(), room: signal.New()}
}

// Room waits until another event may be taken. Its error is ctx's.
func (p *Process) Room(ctx context.Context) error {
	for p.fast.Load() >= maxFast || p.wide.Load() >= maxAttempts {
		select {
		case <-p.room:
		case <-time.After(50 * time.Millisecond):
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	return nil
}

// Take counts a delivery until Release. Room waits while too many are counted. wide reports whether
// the delivery's event is wide.
func (p *Process) Take(wide bool) {
	count, _ := p.counter(wide)
	count.Add(1)
}

// Release ends the count of a delivery that Take began.
func (p *Process) Release(wide bool) {
	if count, limit := p.counter(wide); count.Add(-1) == limit-1 {
		p.room.Give()
	}
}

// counter returns the counter for a delivery, and its limit.
func (p *Process) counter(wide bool) (*atomic.Int64, int64) {
	if wide {
		return &p.wide, maxAttempts
	}
	return &p.fast, maxFast
}

// Queue adds n to the number of deliveries in the short queues; n may be negative.
func (p *Process) Queue(n int) { p.queued.Add(int64(n)) }

// Attempts is the number of attempts that may start or have started.
func (p *Process) Attempts() int64 { return p.attempts.Load() }

// InFlight is the number of attempts in flight.
func (p *Process) InFlight() int64 { return p.attempts.Load() - p.waiting.Load() }

// Hanging is the number of attempts that hang.
func (p *Process) Hanging() int64 { return p.hanging.Load() }

// Waiting is the number of deliveries that wait for a place of their webhook or of the process.
func (p *Process) Waiting() int64 { return p.queued.Load() + p.waiting.Load() }

// underPressure reports whether a webhook with hanging attempts may have only one.
func (p *Process) underPressure() bool { return p.InFlight() > pressure || p.options.Tight() }

// Bound is a limit, and how much of it is used.
type Bound struct {
	What                string // the label of the metrics waybill_bounded…
	Used, Most, Waiting int64
}

// Bounds returns all limits of the process.
func (p *Process) Bounds() []Bound {
	return []Bound{
		{"fast", p.fast.Load(), maxFast, 0},
		{"wide", p.wide.Load(), maxAttempts, 0},
		{"queued", p.queued.Load(), maxAttempts, 0},
		{"attempts", p.InFlight(), p.limit, p.waiting.Load()},
	}
}
