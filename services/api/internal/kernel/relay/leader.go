package relay

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// leader is the state of the relay while it leads; the next leader can't use it.
type leader struct {
	*Relay
	trouble trouble
	lost    *loss.Restoration // the restoration in progress; nil: nothing is lost
	horizon loss.Horizon
	// quiet: the last round found nothing that waits. Poke announces later requests.
	quiet bool
}

// round does all work of the leader once. Requests come first, because people wait for them.
func (l *leader) round(ctx context.Context) error {
	l.quiet = false
	unsettled, err := l.measure(ctx)
	if err != nil {
		return err
	}
	if err := l.bus.Ready(); err != nil {
		return err
	}
	// A failure of one of these steps must not delay the others.
	restoring := l.checkStreams(ctx)
	requests := errors.Join(l.alerts(ctx), l.requests(ctx, time.Time{}))
	asked := time.Now()
	backlog, err := l.backlog(ctx)
	if err != nil {
		return errors.Join(restoring, requests, err)
	}
	if restoring == nil {
		restoring = l.continueRestoring(ctx, backlog)
	}
	l.quiet = !unsettled && backlog.OldestEvent.IsZero() && backlog.OldestRecord.IsZero() && l.lost == nil
	before, ok := l.horizon.Gone(asked, backlog.OldestEvent, backlog.OldestRecord)
	if !ok {
		return errors.Join(requests, restoring)
	}
	return errors.Join(requests, restoring, l.events(ctx, before))
}

// measure sets the age of the oldest event that is not settled, and reports whether there is one.
func (l *leader) measure(ctx context.Context) (unsettled bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	oldest, unsettled, err := l.store.OldestUnsettled(ctx)
	if err != nil {
		return false, err
	}
	age := 0.0
	if unsettled {
		age = max(time.Since(oldest).Seconds(), 0)
	}
	l.metrics.unsettledAge.Set(age)
	return unsettled, nil
}

func (l *leader) backlog(ctx context.Context) (Backlog, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	backlog, err := l.bus.Backlog(ctx)
	if err == nil {
		l.metrics.backlog(backlog)
	}
	return backlog, err
}

// requests makes every open request due now that was not sent out yet, or was sent out
// before the given time. A schedule replaces an outstanding one of the same delivery.
func (l *leader) requests(ctx context.Context, before time.Time) error {
	var stuck error
	after := ""
	for {
		tasks, err := l.openRequests(ctx, before, after)
		if err != nil || len(tasks) == 0 {
			return errors.Join(stuck, err)
		}
		now := time.Now()
		sent, failure := l.publish(ctx, len(tasks), func(i int, done func(error)) {
			l.bus.Schedule(&tasks[i], now, done)
		})
		ids := make([]string, 0, len(sent))
		for _, i := range sent {
			ids = append(ids, tasks[i].Request)
		}
		if len(ids) > 0 {
			if err := l.markRequests(ctx, ids, now); err != nil {
				return err
			}
			l.metrics.requests.Add(float64(len(ids)))
		}
		if failure != nil {
			stuck = fmt.Errorf("send out requests: %w", failure)
			if !l.goesOn(len(sent), now) {
				return stuck
			}
		}
		after = tasks[len(tasks)-1].Request
	}
}

func (l *leader) openRequests(ctx context.Context, before time.Time, after string) ([]domain.Task, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.OpenRequests(ctx, before, after, pageSize)
}

func (l *leader) markRequests(ctx context.Context, ids []string, at time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.MarkRequestsRelayed(ctx, ids, at)
}

// events publishes unsettled events again that were accepted, or last relayed, before the given
// time. As this may take minutes, open requests are sent between the pages.
func (l *leader) events(ctx context.Context, before time.Time) error {
	var stuck error
	var after pipeline.OutboxCursor
	requestsAt := time.Now()
	for {
		rows, next, err := l.unsettled(ctx, before, after)
		if err != nil || len(rows) == 0 {
			return errors.Join(stuck, err)
		}
		started := time.Now()
		sent, failure := l.republish(ctx, rows)
		if failure != nil {
			stuck = fmt.Errorf("publish events again: %w", failure)
			if !l.goesOn(sent, started) {
				return stuck
			}
		}
		after = next
		if time.Since(requestsAt) > interval {
			if err := l.requests(ctx, time.Time{}); err != nil {
				return errors.Join(stuck, err)
			}
			requestsAt = time.Now()
		}
	}
}

// republish publishes events again and notes that. It returns how many the bus has accepted; the
// error is about the others.
func (l *leader) republish(ctx context.Context, rows []pipeline.OutboxEvent) (int, error) {
	sent, failure := l.publish(ctx, len(rows), func(i int, done func(error)) {
		row := &rows[i]
		// A repeat on a later round comes from this relay, from a round that it could not note.
		l.bus.PublishEvent(bus.AcceptedEvent{Event: row.Event, Version: row.Version, Place: row.Place}, row.Relayed+1,
			func(_ bool, err error) { done(err) })
	})
	if len(sent) == 0 {
		return 0, failure
	}
	keys := make([]domain.EventKey, 0, len(sent))
	for _, i := range sent {
		keys = append(keys, rows[i].Event.Key())
	}
	if err := l.markEvents(ctx, keys); err != nil {
		return 0, errors.Join(failure, err)
	}
	l.metrics.republished.Add(float64(len(keys)))
	return len(sent), failure
}

func (l *leader) unsettled(ctx context.Context, before time.Time, after pipeline.OutboxCursor) ([]pipeline.OutboxEvent, pipeline.OutboxCursor, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Unsettled(ctx, before, after, pageSize)
}

func (l *leader) markEvents(ctx context.Context, keys []domain.EventKey) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.MarkRelayed(ctx, keys, time.Now())
}

// goesOn reports whether to try the next page after the bus refused a part of one: the bus accepts
// others, or refuses them at once without being away.
func (l *leader) goesOn(sent int, started time.Time) bool {
	return sent > 0 || l.bus.Ready() == nil && time.Since(started) < interval
}

// publish starts n publications and waits for their acknowledgements. It returns the indices of
// those that the bus has accepted; the error is about the others.
func (l *leader) publish(ctx context.Context, n int, start func(i int, done func(error))) ([]int, error) {
	if n == 0 {
		return nil, nil
	}
	var mu sync.Mutex
	var sent []int // not a result by name: acknowledgements may come after the return
	var failed []error
	left := n
	all := make(chan struct{})
	for i := range n {
		start(i, func(err error) {
			mu.Lock()
			defer mu.Unlock()
			if err == nil {
				sent = append(sent, i)
			} else {
				failed = append(failed, err)
			}
			left--
			if left == 0 {
				close(all)
			}
		})
	}
	select {
	case <-all:
		if len(failed) > 0 {
			return sent, errNotAll(len(failed), failed[0])
		}
		return sent, nil
	case <-ctx.Done():
		// The next leader publishes again what the bus accepts from here on.
		return nil, errors.Join(domain.ErrUnavailable, ctx.Err())
	}
}
