package admission

import (
	"math"
	"time"

	"golang.org/x/time/rate"
)

// Share is what a webhook's owner allows, and the number of dispatchers that divide it.
type Share struct {
	MaxInFlight int      // attempts at once, of all dispatchers together
	PerSecond   *float64 // attempts a second, of all dispatchers together; nil: any number
	Live        int      // dispatchers
}

// inFlight is this dispatcher's part of MaxInFlight.
func (s Share) inFlight() int { return max(1, s.MaxInFlight/s.dispatchers()) }

func (s Share) dispatchers() int { return max(1, s.Live) }

// Webhook tracks one webhook's attempts in flight in this dispatcher, the bytes of their bodies, and the webhook's rate
// limit. Webhook is not safe for concurrent use.
type Webhook struct {
	process *Process

	inFlight       int
	hanging        int           // of inFlight
	bytes          int64         // of the bodies in flight
	rates          *rate.Limiter // nil: no limit
	attemptSeconds float64       // seconds that an attempt takes, a moving average; 0: unknown
}

// Webhook returns the empty state of a webhook.
func (p *Process) Webhook() Webhook { return Webhook{process: p} }

// Begin counts an attempt with a body of size bytes, until End.
func (w *Webhook) Begin(size int) {
	w.inFlight++
	w.bytes += int64(size)
	w.process.attempts.Add(1)
}

// Hang notes that one of the attempts hangs.
func (w *Webhook) Hang() {
	w.hanging++
	w.process.hanging.Add(1)
}

// End ends the count of an attempt. hung reports whether Hang was called for the attempt.
func (w *Webhook) End(size int, hung bool) {
	w.inFlight--
	w.bytes -= int64(size)
	w.process.attempts.Add(-1)
	if hung {
		w.hanging--
		w.process.hanging.Add(-1)
	}
}

// Hangs reports whether any attempt hangs.
func (w *Webhook) Hangs() bool { return w.hanging > 0 }

// NoteDuration notes how long an attempt took.
func (w *Webhook) NoteDuration(d time.Duration) {
	seconds := max(d.Seconds(), 1e-6)
	if w.attemptSeconds == 0 {
		w.attemptSeconds = seconds
		return
	}
	w.attemptSeconds += (seconds - w.attemptSeconds) * durationWeight
}

// Cap returns how many attempts may be in flight. While the whole process is under pressure, a
// webhook with hanging attempts gets one.
func (w *Webhook) Cap(s Share) int {
	if w.Hangs() && w.process.underPressure() {
		return 1
	}
	return s.inFlight()
}

// Fits reports whether an attempt with a body of size bytes may be in flight with the others.
func (w *Webhook) Fits(s Share, size int) bool {
	if w.inFlight >= w.Cap(s) {
		return false
	}
	limit := w.process.options.WebhookBytes
	return limit == 0 || w.inFlight == 0 || w.bytes+int64(size) <= limit
}

// Allow reports whether the rate lets an attempt begin now. If so, it counts the attempt.
func (w *Webhook) Allow(s Share, now time.Time) bool {
	w.setRate(s)
	return w.rates == nil || w.rates.AllowN(now, 1)
}

// Wait returns how long it takes until the rate lets the next attempt begin.
func (w *Webhook) Wait(s Share, now time.Time) time.Duration {
	w.setRate(s)
	if w.rates == nil {
		return 0
	}
	missing := 1 - w.rates.TokensAt(now)
	if missing <= 0 {
		return 0
	}
	return time.Duration(missing / float64(w.rates.Limit()) * float64(time.Second))
}

// RateInterval returns the time between two attempts at the rate limit; 0: there is no limit.
func (w *Webhook) RateInterval() time.Duration {
	if w.rates == nil {
		return 0
	}
	return time.Duration(float64(time.Second) / float64(w.rates.Limit()))
}

func (w *Webhook) setRate(s Share) {
	if s.PerSecond == nil {
		w.rates = nil
		return
	}
	limit := rate.Limit(*s.PerSecond / float64(s.dispatchers()))
	burst := max(1, int(float64(limit)/10))
	switch {
	case w.rates == nil:
		w.rates = rate.NewLimiter(limit, burst)
	case w.rates.Limit() != limit:
		w.rates.SetLimit(limit)
		w.rates.SetBurst(burst)
	}
}

// Room returns how many deliveries the webhook's short queue may hold; 0 when half of its attempts hang.
func (w *Webhook) Room(s Share) int {
	limit := w.Cap(s)
	if w.hanging > 0 && 2*w.hanging >= limit {
		return 0
	}
	takes := w.expectedRate(limit)
	switch {
	case math.IsInf(takes, 1):
		return maxFast
	case w.fast(s, takes):
		return max(queueFactor*limit, int(takes*w.process.patience().Seconds()))
	case w.process.queued.Load() > maxAttempts:
		return 0
	}
	return min(queueFactor*limit, int(takes*HangAfter.Seconds())+1)
}

// Fast reports whether the webhook is fast: whether it may slow down the reading of events from the bus.
func (w *Webhook) Fast(s Share) bool { return w.fast(s, w.expectedRate(w.Cap(s))) }

// Patience returns how long a delivery may wait in the webhook's short queue.
func (w *Webhook) Patience(s Share) time.Duration {
	if w.Fast(s) {
		return max(HangAfter, w.process.patience())
	}
	return HangAfter
}

// expectedRate returns how many deliveries a second this dispatcher is expected to send to the webhook.
func (w *Webhook) expectedRate(limit int) float64 {
	takes := math.Inf(1)
	if w.attemptSeconds > 0 {
		takes = float64(limit) / w.attemptSeconds
	}
	if w.rates != nil {
		takes = min(takes, float64(w.rates.Limit()))
	}
	return takes
}

// fast reports whether a webhook is fast that takes this many deliveries a second from this dispatcher. The other
// dispatchers have their shares of its events.
func (w *Webhook) fast(s Share, takes float64) bool {
	takes *= float64(s.dispatchers())
	return takes >= fastRate || takes >= overloadRate && w.process.Overload.Now()
}

// patience returns how long it may take until the short queue of a fast webhook is sent.
func (p *Process) patience() time.Duration {
	if p.Overload.Now() {
		return overloadWait
	}
	return fastWait
}
