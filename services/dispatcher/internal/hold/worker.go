package hold

import (
	"context"
	"math/rand/v2"
	"sync/atomic"
	"time"

	"waybill.dev/services/dispatcher/internal/admission"
	"waybill.dev/services/dispatcher/internal/deliver"
	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signal"
)

const (
	// lookInterval is how often a hold queue that can't be drained is checked for deliveries that are
	// past the retention.
	lookInterval = 10 * time.Minute
	// idleFor is how long a worker stays with an empty hold queue.
	idleFor = 2 * time.Second
	// endTogether is how many deliveries are ended at once at most: one look into the log for all of them.
	endTogether = 64
	// endAfter is the least time between two ends of deliveries in a hold queue, so that there are
	// several to end together. So a delivery ends late by at most twice that time.
	endAfter = 2 * time.Second
	// maxEnding is how many hold queues end deliveries at a time. When many hold queues were filled at
	// once, their deliveries also become due at once, and each takes a dozen requests: 100 hold queues
	// took both cores for 100 ms, and events waited that long to be accepted.
	maxEnding = 2
)

// worker works one hold queue.
type worker struct {
	m     *Manager
	id    domain.WebhookID
	stop  context.CancelFunc
	woken signal.Signal
	// gentle: the receiver was down or the webhook inactive, so the drain begins with one delivery
	// at a time. A hold queue that only holds an overflow is not drained gently.
	gentle atomic.Bool
	// head is the hold queue's first delivery when it was last read, without its body; nil: not
	// known. It only tells when there is something to do. Before a worker acts on it, it reads the
	// hold queue again, because the bus may have been lost since.
	head *domain.Task
	// progress of the draining; nil: it has not begun.
	progress *progress
}

// queueState is what a worker has found: whether the hold queue is empty, and how long there is nothing to do.
type queueState struct {
	empty bool // the hold queue holds nothing
	pause time.Duration
}

// emptyState is the state of a hold queue that holds nothing.
func emptyState() queueState { return queueState{empty: true, pause: idleFor} }

// run works until the hold queue is empty or ctx is done.
func (w *worker) run(ctx context.Context) {
	hook := w.findWebhook(ctx)
	failures := 0
	for ctx.Err() == nil {
		var found queueState
		var err error
		switch {
		case hook == nil || hook.Config().Deleted:
			w.progress = nil
			found, err = w.endAll(ctx, domain.ChangeDeleted)
		case hook.Config().Delivery == domain.DeliveryPull:
			w.stopDraining(hook)
			found, err = w.endAll(ctx, domain.ChangePull)
		case hook.Inactive():
			w.stopDraining(hook)
			found, err = w.park(ctx, hook)
		default:
			if open, _ := w.m.options.Deliverer.Circuit(hook); open {
				w.stopDraining(hook)
				found, err = w.probe(ctx, hook)
			} else {
				found, err = w.drain(ctx, hook)
			}
		}
		if err != nil {
			failures++
			found = queueState{pause: min(time.Duration(failures)*200*time.Millisecond, 5*time.Second)}
			w.m.options.Logger.Debug("a hold queue can't be drained or read", "webhook", w.id, "error", err)
		} else {
			failures = 0
		}
		if woken := w.pause(ctx, found.pause); found.empty && !woken && w.m.removeWorker(w, false) {
			return
		}
	}
	if hook != nil {
		w.stopDraining(hook)
	}
	w.m.removeWorker(w, true)
}

// pause pauses until the time is over or something changes; true: something changed.
func (w *worker) pause(ctx context.Context, pause time.Duration) bool {
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

// findWebhook returns the hold queue's webhook; nil: the database has no webhook with this id, or ctx is done.
func (w *worker) findWebhook(ctx context.Context) *index.Hook {
	found := make(chan *index.Hook, 1)
	w.m.options.Index.Find(w.id, func(hook *index.Hook, err error) {
		if err == nil {
			found <- hook
		}
	})
	select {
	case hook := <-found:
		return hook
	case <-ctx.Done():
		return nil
	}
}

// park works on the hold queue of an inactive webhook: it sends nothing, but ends the deliveries
// that are past the retention.
func (w *worker) park(ctx context.Context, hook *index.Hook) (queueState, error) {
	w.gentle.Store(true)
	head, err := w.endExpired(ctx, hook, false)
	if err != nil || head == nil {
		return emptyState(), err
	}
	return queueState{pause: lookInterval}, nil
}

// probe works on the hold queue of a webhook with an open circuit: it ends exhausted deliveries,
// and when a probe is due it sends the head of the hold queue.
func (w *worker) probe(ctx context.Context, hook *index.Hook) (queueState, error) {
	w.gentle.Store(true)
	head, err := w.endExpired(ctx, hook, true)
	if err != nil || head == nil {
		return emptyState(), err
	}
	open, nextProbe := w.m.options.Deliverer.Circuit(hook)
	if !open {
		return queueState{}, nil
	}
	pause := time.Until(nextProbe)
	if pause <= 0 {
		return w.sendProbe(ctx, hook)
	}
	if at, ok := deliver.Deadline(head, hook.Config().Schedule(w.m.options.Schedule)); ok {
		pause = min(pause, max(time.Until(at), endAfter)+rand.N(endAfter)) //nolint:gosec // spreads hold queues, which needs no secrecy
	}
	return queueState{pause: max(pause, 10*time.Millisecond)}, nil
}

// sendProbe sends the head of the hold queue as a probe, unless the log has a later state of that delivery.
func (w *worker) sendProbe(ctx context.Context, hook *index.Hook) (queueState, error) {
	w.head = nil
	head, give, err := w.readHead(ctx)
	defer give()
	if err != nil || head == nil {
		return emptyState(), err
	}
	if _, ended := w.expired(hook, head.task, true); ended {
		return queueState{}, nil
	}
	if fresh := w.latestTasks(ctx, []*domain.Task{head.task}); !fresh[head.task.Delivery] {
		return queueState{}, w.m.reader.remove(ctx, head.sequence)
	}
	if !w.m.options.Deliverer.TryProbe(hook) {
		return queueState{pause: time.Second}, nil // another probe is in flight
	}
	w.m.probes.Inc()
	return queueState{}, w.sendHead(ctx, hook, head)
}

// headTask returns the head of the hold queue, and reads it if it is not known; nil: the hold queue is empty.
func (w *worker) headTask(ctx context.Context) (*domain.Task, error) {
	if w.head != nil {
		return w.head, nil
	}
	head, give, err := w.readHead(ctx)
	defer give()
	if err != nil || head == nil {
		return nil, err
	}
	w.keepHead(head.task)
	return w.head, nil
}

// readHead reads the head of the hold queue; nil: the hold queue is empty. Because thousands of hold queues may be
// read at once, the head takes room until give is called.
func (w *worker) readHead(ctx context.Context) (head *delivery, give func(), err error) {
	room := w.m.options.ProbeRoom
	taken, err := room.Reserve(ctx, admission.LargestTask, admission.LargestTask)
	give = func() { room.Give(taken) }
	if err != nil {
		return nil, give, err //nolint:wrapcheck // told to stop
	}
	held, err := w.m.reader.read(ctx, w.id, 0, 1, nil)
	if err != nil || len(held) == 0 {
		return nil, give, err
	}
	rest := taken - int64(len(held[0].task.Body))
	taken -= rest
	room.Give(rest)
	return &held[0], give, nil
}

// keepHead keeps a hold queue's first delivery.
func (w *worker) keepHead(task *domain.Task) {
	head := *task
	head.Body = nil
	w.head = &head
}

// sendHead sends the head of the hold queue as a probe, and waits until the attempt has ended.
func (w *worker) sendHead(ctx context.Context, hook *index.Hook, head *delivery) error {
	ended := make(chan bool, 1)
	w.m.options.Deliverer.Offer(hook, &deliver.Job{
		Task: head.task, Lane: deliver.Drained, Probe: true, Origin: singleOrigin{ended: ended},
	})
	select {
	case stored := <-ended:
		if !stored {
			w.m.options.Deliverer.DropProbe(hook)
			return nil
		}
	case <-ctx.Done():
		// The attempt goes on; the next owner of the hold queue may send the event once more.
		if !<-ended {
			return nil
		}
	}
	w.m.drained.Inc()
	return w.m.reader.remove(context.WithoutCancel(ctx), head.sequence)
}

// endExpired ends the deliveries at the head of the hold queue that are past the retention or, if
// running, exhausted. It returns the first delivery that is neither.
func (w *worker) endExpired(ctx context.Context, hook *index.Hook, running bool) (*domain.Task, error) {
	expired := func(task *domain.Task) (domain.Change, bool) { return w.expired(hook, task, running) }
	for ctx.Err() == nil {
		head, err := w.headTask(ctx)
		if err != nil || head == nil {
			return nil, err
		}
		if _, ended := expired(head); !ended {
			return head, nil
		}
		if _, err := w.endHead(ctx, expired); err != nil {
			return nil, err
		}
	}
	return nil, ctx.Err()
}

func (w *worker) expired(hook *index.Hook, task *domain.Task, running bool) (how domain.Change, ended bool) {
	now := time.Now()
	if now.Sub(task.ReceivedAt) > w.m.options.Retention {
		return domain.ChangeRetention, true
	}
	config := hook.Config()
	at, ok := deliver.Deadline(w.resume(hook, task), config.Schedule(w.m.options.Schedule))
	return domain.ChangeExhausted, running && ok && now.After(at)
}

// resume returns task with its schedule's clock set forward by the time for which the webhook was
// inactive while the task was in the hold queue: the clock stood still in that time.
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

// latestTasks returns the deliveries for which a task is the latest state. The others went on from another
// copy, or a later run of them was asked for. While the log can't be asked, fresh returns all.
func (w *worker) latestTasks(ctx context.Context, tasks []*domain.Task) map[domain.DeliveryID]bool {
	keep := make(map[domain.DeliveryID]bool, len(tasks))
	if len(tasks) == 0 {
		return keep
	}
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	ids := make([]domain.DeliveryID, len(tasks))
	for i, task := range tasks {
		ids[i] = task.Delivery
	}
	revs, err := w.m.options.Log.Revs(ctx, tasks[0].Account, ids) // all tasks of a webhook are of one account
	for _, task := range tasks {
		if err != nil || !task.Rev.WentOn(revs[task.Delivery]) {
			keep[task.Delivery] = true
		}
	}
	return keep
}

// endAll ends everything in the hold queue.
func (w *worker) endAll(ctx context.Context, how domain.Change) (queueState, error) {
	for ctx.Err() == nil {
		n, err := w.endHead(ctx, func(*domain.Task) (domain.Change, bool) { return how, true })
		if err != nil || n == 0 {
			return emptyState(), err
		}
	}
	return queueState{}, ctx.Err()
}

// endHead ends the deliveries at the head of the hold queue for which ends says how, several at a time.
// It returns how many left the hold queue.
func (w *worker) endHead(ctx context.Context, ends func(*domain.Task) (domain.Change, bool)) (int, error) {
	select {
	case w.m.ending <- struct{}{}:
		defer func() { <-w.m.ending }()
	case <-ctx.Done():
		return 0, ctx.Err()
	}
	w.head = nil
	// Only the first delivery that stays is read: most deliveries of a hold queue that is checked every two
	// seconds stay, and each read costs a request.
	has := func(task *domain.Task) bool {
		_, ended := ends(task)
		return ended
	}
	held, err := w.m.reader.read(ctx, w.id, 0, endTogether, has)
	if err != nil {
		return 0, err
	}
	var sequences []uint64
	var tasks []*domain.Task
	var next *domain.Task
	for _, h := range held {
		if !has(h.task) {
			next = h.task
			break
		}
		sequences, tasks = append(sequences, h.sequence), append(tasks, h.task)
	}
	if len(tasks) == 0 {
		if next != nil {
			w.keepHead(next)
		}
		return 0, nil
	}
	fresh := w.latestTasks(ctx, tasks)
	ended := make(chan bool, len(tasks))
	for _, task := range tasks {
		if !fresh[task.Delivery] {
			ended <- true
			continue
		}
		how, _ := ends(task)
		w.m.options.Deliverer.End(&deliver.Job{Task: task, Lane: deliver.Drained, Origin: singleOrigin{ended: ended}}, how)
	}
	for range tasks {
		select {
		case <-ended:
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
	w.m.drained.Add(float64(len(tasks)))
	if err := w.m.reader.remove(ctx, sequences...); err != nil {
		return 0, err
	}
	if next != nil {
		w.keepHead(next)
	}
	return len(tasks), nil
}

// singleOrigin sends once whether the outcome of a job was stored.
type singleOrigin struct {
	deliver.SettledOrigin

	ended chan bool
}

// Stored implements deliver.Origin.
func (s singleOrigin) Stored() { s.ended <- true }

// Abandoned implements deliver.Origin.
func (s singleOrigin) Abandoned() { s.ended <- false }
