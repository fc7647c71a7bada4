// Package accept commits events to the database and then publishes them on the bus.
//
// Submissions that arrive while a commit is running share the next commit, so that one flush of the database's log
// serves many callers; an idle committer starts at once without waiting for more. A caller is answered when its events
// are committed. The bus comes after that and may be down: the relay publishes the events that do not reach it.
package accept

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/signal"
	"waybill.dev/shared/store/pipeline"
)

// Bounds of one commit. A single submission may be larger than all of them.
const (
	maxBatchEvents      = 4096
	maxBatchBytes       = 8 << 20
	maxBatchSubmissions = 512
	// maxQueuedBytes bounds the events that wait for a commit; beyond it callers are told that the store is too slow.
	maxQueuedBytes = 256 << 20
	// crowd is how many submissions must wait during a running commit before another commit begins: a commit costs some
	// 0.8 ms of processor time whatever its size, so sequential commits cost less and are larger.
	crowd = maxBatchSubmissions / 2
	// stuck is how long a running commit may take before another one begins beside it.
	stuck = 200 * time.Millisecond
	// commitTimeout ends a commit that hangs. Callers have given up long before.
	commitTimeout = 5 * time.Second
)

// Store commits submissions, all of them in one transaction.
type Store interface {
	Accept(ctx context.Context, subs []pipeline.Submission) ([]pipeline.Receipt, error)
}

// Bus publishes events that are committed.
type Bus interface {
	PublishEvent(a bus.AcceptedEvent, round int, done func(duplicate bool, err error))
}

// News notifies the watchers of an account of its events.
type News interface {
	Note(account string, kind news.Kind, id string)
}

// Options of an Accepter; all but Committers are required.
type Options struct {
	Store      Store
	Bus        Bus
	News       News
	Logger     *slog.Logger
	Registerer prometheus.Registerer
	// Committers is how many commits run at a time at most, while many submissions wait;
	// 0: 1. More than one helps only on a database that has more than one writer.
	Committers int
}

// Accepter accepts events into the database. Submit works only while Run runs.
type Accepter struct {
	store      Store
	news       News
	committers int
	publisher  *publisher
	metrics    *metrics
	refusals   *refusals

	mu           sync.Mutex
	queue        []*submission
	queuedBytes  int
	queuedEvents int
	running      int           // number of commits
	began        time.Time     // start of the last of them
	usual        time.Duration // recent duration of a commit
	closed       bool
	wake         signal.Signal // holds a token for each committer that should look
}

type submission struct {
	pipeline.Submission
	trace string
	bytes int
	done  chan struct{} // closed when receipt and err are set

	receipt pipeline.Receipt
	err     error
	left    bool // under mu: the caller has gone before a committer took the submission
	taken   bool // under mu
}

// New returns an Accepter.
func New(options Options) *Accepter {
	m := newMetrics(options.Registerer)
	n := max(options.Committers, 1)
	return &Accepter{
		store: options.Store, news: options.News, committers: n, metrics: m,
		publisher: newPublisher(options.Bus, options.Logger, m), refusals: newRefusals(options.Logger, m),
		wake: make(signal.Signal, n),
	}
}

// Run commits submissions until ctx ends; then it commits the waiting ones and waits a moment for the acknowledgements
// of the bus.
func (a *Accepter) Run(ctx context.Context) error {
	publishing := make(chan struct{})
	stopPublisher := make(chan struct{})
	go func() { defer close(publishing); a.publisher.run(stopPublisher) }()
	var committing sync.WaitGroup
	for range a.committers {
		committing.Go(func() { a.commitLoop(ctx) })
	}
	committing.Wait()
	close(stopPublisher)
	<-publishing
	return nil
}

// Submit waits until the events of s are committed and returns their results. An error wraps domain.ErrUnavailable when
// the store can't take the events now, or not before ctx ends. In that case they may be committed nevertheless: a
// repeat with the same ids does no harm. A BusyError among its causes says that they are not committed: at the recent
// rate the store would not reach them before ctx ends, so they were refused at once. traceParent is the W3C trace
// context of the events; empty: none.
func (a *Accepter) Submit(ctx context.Context, s pipeline.Submission, traceParent string) (pipeline.Receipt, error) {
	sub := &submission{Submission: s, trace: traceParent, done: make(chan struct{})}
	for _, e := range s.Events {
		sub.bytes += len(e.Payload)
	}
	if err := a.enqueue(ctx, sub); err != nil {
		return pipeline.Receipt{}, err
	}
	select {
	case <-sub.done:
		return sub.receipt, sub.err
	case <-ctx.Done():
	}
	if a.leave(sub) {
		select { // their result will be known very soon
		case <-sub.done:
			return sub.receipt, sub.err
		case <-time.After(lastMoment):
		}
		a.refusals.late(ctx, whileCommitting)
	} else {
		a.refusals.late(ctx, whileQueued)
	}
	return pipeline.Receipt{}, fmt.Errorf("accept events: %w", errors.Join(domain.ErrUnavailable, ctx.Err()))
}

// leave takes a submission out of the queue; taken: a commit has the submission already.
func (a *Accepter) leave(sub *submission) (taken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	sub.left = true
	if !sub.taken {
		// The queue keeps the entry until a committer comes by, but not its content.
		a.queuedEvents -= len(sub.Events)
		a.queuedBytes -= sub.bytes
		sub.Submission = pipeline.Submission{}
		sub.bytes = 0
	}
	return sub.taken
}

func (a *Accepter) enqueue(ctx context.Context, sub *submission) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return fmt.Errorf("accept events while stopping: %w", domain.ErrUnavailable)
	}
	if wait, busy := a.tooBusy(ctx, sub); busy {
		a.refusals.busy()
		return fmt.Errorf("accept events: %w", &BusyError{Wait: wait})
	}
	a.queue = append(a.queue, sub)
	a.queuedEvents += len(sub.Events)
	a.queuedBytes += sub.bytes
	if a.running == 0 || len(a.queue) == 1 || len(a.queue) >= crowd {
		a.wake.Give()
	}
	return nil
}

func (a *Accepter) commitLoop(ctx context.Context) {
	for {
		batch, wait := a.take()
		if len(batch) > 0 {
			began := time.Now()
			a.commit(ctx, batch)
			a.mu.Lock()
			a.usual = (a.usual + time.Since(began)) / 2
			a.running-- // the committer looks again: submissions that arrived in between have woken no committer
			a.mu.Unlock()
			continue
		}
		var late <-chan time.Time
		if wait > 0 {
			late = time.After(wait)
		}
		select {
		case <-a.wake:
		case <-late:
		case <-ctx.Done():
			a.mu.Lock()
			a.closed = true
			empty := len(a.queue) == 0
			a.mu.Unlock()
			if empty {
				return
			}
		}
	}
}

// take returns the submissions of the next commit, in their order of arrival. If a running commit's committer should
// take them instead, take returns none, and wait is the time until the next look; 0: nothing waits.
func (a *Accepter) take() (batch []*submission, wait time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if len(a.queue) == 0 {
		return nil, 0
	}
	if a.running > 0 && len(a.queue) < crowd && !a.closed {
		if wait = stuck - time.Since(a.began); wait > 0 {
			return nil, wait
		}
	}
	events, bytes, n := 0, 0, 0
	for _, sub := range a.queue {
		full := len(batch) == maxBatchSubmissions || events+len(sub.Events) > maxBatchEvents || bytes+sub.bytes > maxBatchBytes
		if full && len(batch) > 0 {
			break
		}
		n++
		a.queuedEvents -= len(sub.Events)
		a.queuedBytes -= sub.bytes
		if sub.left {
			continue
		}
		sub.taken = true
		events, bytes = events+len(sub.Events), bytes+sub.bytes
		batch = append(batch, sub)
	}
	clear(a.queue[:n])
	a.queue = a.queue[n:]
	if len(batch) > 0 {
		a.running++
		a.began = time.Now()
	}
	if len(a.queue) == 0 {
		a.queue = nil
	} else {
		a.wake.Give() // another committer may take the rest
	}
	return batch, 0
}

// commit commits a batch and gives every caller its result. When the transaction fails for another reason than the
// store being away, each submission is tried alone, so that one that the store refuses does not affect the others.
func (a *Accepter) commit(ctx context.Context, batch []*submission) {
	subs := make([]pipeline.Submission, len(batch))
	events := 0
	for i, sub := range batch {
		subs[i] = sub.Submission
		events += len(sub.Events)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), commitTimeout)
	defer cancel()
	started := time.Now()
	receipts, err := a.store.Accept(ctx, subs)
	a.metrics.commit(time.Since(started), events, err)
	if err == nil && len(receipts) != len(batch) {
		err = fmt.Errorf("accept events: %d receipts for %d submissions", len(receipts), len(batch))
	}
	if err != nil {
		if len(batch) > 1 && !errors.Is(err, domain.ErrUnavailable) && ctx.Err() == nil {
			for _, sub := range batch {
				a.commit(ctx, []*submission{sub})
			}
			return
		}
		for _, sub := range batch {
			sub.err = err
			close(sub.done)
		}
		return
	}
	for i, sub := range batch {
		// The events are queued for the bus before their caller can publish more, so that the events of one caller keep
		// their order.
		if receipts[i].Err == nil && receipts[i].Replay == nil {
			a.publish(sub, receipts[i])
		}
		sub.receipt, sub.err = receipts[i], receipts[i].Err
		close(sub.done)
	}
}

func (a *Accepter) publish(sub *submission, receipt pipeline.Receipt) {
	for i, accepted := range receipt.Events {
		if accepted.Duplicate {
			a.metrics.duplicates.Inc()
			continue
		}
		event := sub.Events[i]
		event.ReceivedAt = accepted.ReceivedAt
		a.metrics.accepted.Inc()
		a.news.Note(event.Account, news.Event, event.ID)
		a.publisher.add(bus.AcceptedEvent{Event: event, Version: receipt.Version, Place: accepted.Place, TraceParent: sub.trace})
	}
}
