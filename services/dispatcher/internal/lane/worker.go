package lane

import (
	"context"
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

const (
	// lookAgain is how often a lane that can't be drained is looked at for deliveries
	// that are past the retention.
	lookAgain = 10 * time.Minute
	// unknownFor is how long a lane waits for a webhook that the index doesn't know.
	unknownFor = 15 * time.Second
	// idleFor is how long a worker stays with an empty lane.
	idleFor = 2 * time.Second
)

// worker works one lane.
type worker struct {
	m     *Manager
	id    domain.WebhookID
	stop  context.CancelFunc
	woken chan struct{}
	// gentle: the receiver was down or the webhook inactive, so the drain begins with
	// one at a time. A lane that only holds what was too much for a moment does not.
	gentle atomic.Bool
}

func (w *worker) poke() {
	select {
	case w.woken <- struct{}{}:
	default:
	}
}

// run works until the lane is empty or ctx is done.
func (w *worker) run(ctx context.Context) {
	hook := w.awaitHook(ctx)
	failures := 0
	for ctx.Err() == nil {
		var pause time.Duration
		var err error
		switch {
		case hook == nil || hook.Config().Deleted:
			pause, err = w.endAll(ctx, domain.ReasonWebhookDeleted)
		case hook.Inactive():
			pause, err = w.park(ctx, hook)
		default:
			if open, _ := w.m.options.Deliverer.Circuit(hook); open {
				pause, err = w.probe(ctx, hook)
			} else {
				pause, err = w.drain(ctx, hook)
			}
		}
		if err != nil {
			failures++
			pause = min(time.Duration(failures)*200*time.Millisecond, 5*time.Second)
			w.m.options.Logger.Debug("lane can't be worked", "webhook", w.id, "error", err)
		} else {
			failures = 0
		}
		woken := w.wait(ctx, pause)
		if err == nil && pause == idleFor && !woken && w.m.leave(w, false) {
			return
		}
	}
	w.m.leave(w, true)
}

// wait pauses, until something changes; true: something did.
func (w *worker) wait(ctx context.Context, pause time.Duration) bool {
	if pause <= 0 {
		return true
	}
	timer := time.NewTimer(pause)
	defer timer.Stop()
	select {
	case <-ctx.Done():
	case <-timer.C:
	case <-w.woken:
		return true
	}
	return false
}

func (w *worker) awaitHook(ctx context.Context) *index.Hook {
	deadline := time.Now().Add(unknownFor)
	for {
		if hook, ok := w.m.options.Index.Hook(w.id); ok {
			return hook
		}
		if ctx.Err() != nil || time.Now().After(deadline) {
			return nil
		}
		w.wait(ctx, 200*time.Millisecond)
	}
}

// park looks after the lane of an inactive webhook: nothing is sent, but what is past
// the retention ends.
func (w *worker) park(ctx context.Context, hook *index.Hook) (time.Duration, error) {
	w.gentle.Store(true)
	head, err := w.endExpired(ctx, hook, false)
	if err != nil || head == nil {
		return idleFor, err
	}
	return lookAgain, nil
}

// probe looks after the lane of a webhook with an open circuit: what is exhausted
// meanwhile ends, and when a probe is due the head of the lane is it.
func (w *worker) probe(ctx context.Context, hook *index.Hook) (time.Duration, error) {
	w.gentle.Store(true)
	head, err := w.endExpired(ctx, hook, true)
	if err != nil || head == nil {
		return idleFor, err
	}
	open, nextProbe := w.m.options.Deliverer.Circuit(hook)
	if !open {
		return 0, nil
	}
	pause := time.Until(nextProbe)
	if pause <= 0 {
		if !w.m.options.Deliverer.TryProbe(hook) {
			return time.Second, nil // another probe is under way
		}
		w.m.probes.Inc()
		return 0, w.send(ctx, hook, head)
	}
	if at, ok := deliver.Deadline(head.Task, hook.Config().Schedule(w.m.options.Schedule)); ok {
		pause = min(pause, max(time.Until(at), 50*time.Millisecond))
	}
	return max(pause, 10*time.Millisecond), nil
}

// send has the head of the lane attempted as a probe, and waits for its end.
func (w *worker) send(ctx context.Context, hook *index.Hook, head *bus.Held) error {
	ended := make(chan bool, 1)
	w.m.options.Deliverer.Offer(hook, &deliver.Job{
		Task: head.Task, FromLane: true, Probe: true, Origin: single{ended},
	})
	select {
	case stored := <-ended:
		if !stored {
			w.m.options.Deliverer.DropProbe(hook)
			return nil
		}
	case <-ctx.Done():
		// The attempt goes on; whoever owns the lane then may send it once more.
		if !<-ended {
			return nil
		}
	}
	w.m.drained.Inc()
	return w.m.options.Bus.LaneDelete(context.WithoutCancel(ctx), head.Sequence)
}

// endExpired ends the deliveries at the head of the lane that are past the retention,
// stale, or (when the schedules run on) exhausted. It returns the first one that is not.
func (w *worker) endExpired(ctx context.Context, hook *index.Hook, running bool) (*bus.Held, error) {
	for ctx.Err() == nil {
		head, err := w.m.options.Bus.LaneHead(ctx, w.id, 0)
		if err != nil || head == nil {
			return nil, err
		}
		reason, ended := w.expired(hook, head.Task, running)
		if !ended && w.stale(ctx, head.Task) {
			if err := w.m.options.Bus.LaneDelete(ctx, head.Sequence); err != nil {
				return nil, err
			}
			continue
		}
		if !ended {
			return head, nil
		}
		if err := w.end(ctx, head, reason); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

func (w *worker) expired(hook *index.Hook, task *domain.Task, running bool) (reason string, ended bool) {
	now := time.Now()
	if now.Sub(task.ReceivedAt) > w.m.options.Retention {
		return domain.ReasonRetention, true
	}
	config := hook.Config()
	at, ok := deliver.Deadline(w.resume(hook, task), config.Schedule(w.m.options.Schedule))
	return domain.ReasonExhausted, running && ok && now.After(at)
}

// resume returns task with its schedule's clock moved on by the time for which the
// webhook was inactive while the task was in the lane: the clock stood still then.
func (w *worker) resume(hook *index.Hook, task *domain.Task) *domain.Task {
	config := hook.Config()
	since, until := config.InactiveSince(hook.Health()), config.ActivatedAt
	if task.RunStartedAt.IsZero() || task.HeldAt.IsZero() || since.IsZero() || !until.After(since) {
		return task
	}
	if task.HeldAt.After(since) {
		since = task.HeldAt
	}
	still := until.Sub(since)
	if still <= 0 {
		return task
	}
	moved := *task
	moved.RunStartedAt = moved.RunStartedAt.Add(still)
	moved.HeldAt = until
	return &moved
}

// stale tells whether the delivery has gone on since task was held: it was sent from
// another copy of it, or a later run was asked for.
func (w *worker) stale(ctx context.Context, task *domain.Task) bool {
	return len(w.fresh(ctx, []*domain.Task{task})) == 0
}

// fresh returns the tasks that are the latest state of their deliveries. While the log
// can't be asked, all are.
func (w *worker) fresh(ctx context.Context, tasks []*domain.Task) map[domain.DeliveryID]bool {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids := make([]domain.DeliveryID, len(tasks))
	for i, task := range tasks {
		ids[i] = task.Delivery
	}
	revs, err := w.m.options.Log.Revs(ctx, ids)
	keep := make(map[domain.DeliveryID]bool, len(tasks))
	for _, task := range tasks {
		// One above is the note that the attempt takes long; two above is its outcome.
		if err != nil || revs[task.Delivery] < task.Rev+2 {
			keep[task.Delivery] = true
		}
	}
	return keep
}

// endAll ends everything in the lane.
func (w *worker) endAll(ctx context.Context, reason string) (time.Duration, error) {
	for ctx.Err() == nil {
		head, err := w.m.options.Bus.LaneHead(ctx, w.id, 0)
		if err != nil || head == nil {
			return idleFor, err
		}
		if err := w.end(ctx, head, reason); err != nil {
			return 0, err
		}
	}
	return 0, ctx.Err()
}

func (w *worker) end(ctx context.Context, head *bus.Held, reason string) error {
	ended := make(chan bool, 1)
	w.m.options.Deliverer.End(&deliver.Job{Task: head.Task, FromLane: true, Origin: single{ended}}, reason)
	select {
	case <-ended:
	case <-ctx.Done():
		return ctx.Err()
	}
	w.m.drained.Inc()
	return w.m.options.Bus.LaneDelete(ctx, head.Sequence)
}

// single tells once whether a job's outcome was stored.
type single struct{ ended chan bool }

// Emitting implements deliver.Origin.
func (s single) Emitting() (*domain.Event, *domain.EventKey) { return nil, nil }

// Stored implements deliver.Origin.
func (s single) Stored() { s.ended <- true }

// Abandoned implements deliver.Origin.
func (s single) Abandoned() { s.ended <- false }
