package accept

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"waybill.dev/shared/domain"
)

const (
	// lastMoment is how long a caller is kept after its time is over, if a commit has its events: the caller then
	// learns their result. With the 1.8 s of a request, this stays below 2 s.
	lastMoment = 150 * time.Millisecond
	// complainEvery is the shortest time between two log lines about callers that were turned away.
	complainEvery = 10 * time.Second
)

// BusyError refuses events at once, because too many wait for the store. It is a
// domain.ErrUnavailable.
type BusyError struct {
	// Wait is the time after which the store may have come to the events that wait now.
	Wait time.Duration
}

func (*BusyError) Error() string { return "more events wait than the store takes in time" }

func (*BusyError) Unwrap() error { return domain.ErrUnavailable }

// tooBusy reports whether the store would not come to a submission before its deadline, and returns how long
// the store would take. A submission that would wait alone is never refused: so one always finds out
// when the store is quick again. Called under mu.
func (a *Accepter) tooBusy(ctx context.Context, sub *submission) (wait time.Duration, busy bool) {
	if len(a.queue) == 0 {
		return 0, false
	}
	wait = a.wait()
	if a.queuedBytes+sub.bytes > maxQueuedBytes {
		return wait, true
	}
	deadline, ok := ctx.Deadline()
	return wait, ok && wait > time.Until(deadline)
}

// wait estimates how long an event that is queued now waits until the commit with the event has ended. Before that
// commit come the running commits and those for the events queued earlier. Each is taken to last as long as the last
// commit, or as the running one has lasted already if that is longer.
func (a *Accepter) wait() time.Duration {
	usual, left := a.usual, time.Duration(0)
	if a.running >= a.committers {
		took := time.Since(a.began)
		usual, left = max(usual, took), max(usual-took, 0)
	}
	ahead := max(len(a.queue)/maxBatchSubmissions, a.queuedEvents/maxBatchEvents, a.queuedBytes/maxBatchBytes)
	return left + usual*time.Duration(1+ahead/a.committers)
}

// Reasons for an answer that events were not accepted although the store was there.
const (
	atOnce          = "busy"       // refused at once
	whileQueued     = "queued"     // the time was over before a commit took the events: they are not accepted
	whileCommitting = "committing" // the time was over before the commit ended: the events may be accepted
)

// refusals counts and logs the callers that were turned away because the store is too slow.
type refusals struct {
	log     *slog.Logger
	metrics *metrics

	mu     sync.Mutex
	counts map[string]int // since the last log line
	told   time.Time
}

func newRefusals(log *slog.Logger, m *metrics) *refusals {
	return &refusals{log: log, metrics: m, counts: map[string]int{}}
}

func (r *refusals) busy() { r.count(atOnce) }

// late counts a caller whose time was over. A caller that left earlier says nothing about the store.
func (r *refusals) late(ctx context.Context, reason string) {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		r.count(reason)
	}
}

func (r *refusals) count(reason string) {
	r.metrics.refused.WithLabelValues(reason).Inc()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[reason]++
	if time.Since(r.told) < complainEvery {
		return
	}
	r.log.Warn("publishers were answered 503: the store does not take their events in time",
		atOnce, r.counts[atOnce], whileQueued, r.counts[whileQueued], whileCommitting, r.counts[whileCommitting])
	clear(r.counts)
	r.told = time.Now()
}
