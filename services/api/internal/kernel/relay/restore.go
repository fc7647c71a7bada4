package relay

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waybill.dev/services/api/internal/kernel/loss"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// checkStreams compares the streams with their marks. It restores the content of a lost stream from the
// database at once; when only the server was restarted, it restores what was stored shortly before. The
// marks advance only when everything is restored.
func (l *leader) checkStreams(ctx context.Context) error {
	states, err := l.streams(ctx)
	if err != nil {
		return err
	}
	known, err := l.knownStreams(ctx)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return l.mark(ctx, states, known) // a new installation
	}
	found := loss.Compare(states, known, l.lost)
	if len(found.Streams) > 0 || (l.lost == nil && !found.Tail.IsZero()) {
		l.begin(found, states)
	}
	if l.lost == nil {
		return l.mark(ctx, states, known)
	}
	if l.lost.Begun() {
		return nil
	}
	if err := l.restore(ctx); err != nil {
		return err
	}
	l.lost.SetBegun()
	return nil
}

// begin begins to restore the content of streams that was found lost.
func (l *leader) begin(found loss.Found, states map[string]loss.State) {
	l.lost = loss.Begin(found, states, l.lost, time.Now())
	if l.lost.Begun() { // waits for the records: most likely nothing is missing
		l.log.Info("the bus was restarted; its last messages are compared with the database")
		return
	}
	l.log.Warn("the bus has lost streams; they are restored from the database", "streams", len(l.lost.Streams))
	l.metrics.losses.Inc()
}

// restore does the first pass.
func (l *leader) restore(ctx context.Context) error {
	var errs []error
	if l.lost.Deliveries() {
		errs = append(errs, l.requests(ctx, l.lost.At), l.deliveries(ctx))
	}
	if made, lost := l.lost.Events(); lost {
		// Events accepted since the stream was made were published to it, or are found by the ordinary
		// rounds.
		errs = append(errs, l.events(ctx, made))
	}
	return errors.Join(errs...)
}

// continueRestoring does the second pass: it restores deliveries whose outcome was still in RECORDS when the
// first pass read the database, including those of which the first pass read an older state. Then it stores
// the marks of the streams.
func (l *leader) continueRestoring(ctx context.Context, backlog Backlog) error {
	if l.lost == nil || !l.lost.Ready(time.Now(), backlog.OldestRecord) {
		return nil
	}
	if l.lost.Deliveries() {
		if err := errors.Join(l.requests(ctx, l.lost.At), l.deliveries(ctx)); err != nil {
			return err
		}
	}
	states, err := l.streams(ctx)
	if err != nil {
		return err
	}
	if err := l.mark(ctx, states, nil); err != nil {
		return err
	}
	l.log.Info("the lost messages are on the bus again", "streams", len(l.lost.Streams), "deliveries", l.lost.Restored())
	l.lost = nil
	return nil
}

// deliveries gives the bus its schedules and hold queues back.
func (l *leader) deliveries(ctx context.Context) error {
	var stuck error
	after := domain.DeliveryID("")
	for {
		page, next, err := l.restorable(ctx, l.lost.Since(), after)
		if err != nil {
			return errors.Join(stuck, err)
		}
		var items []*pipeline.RestoreItem
		for i := range page {
			item := &page[i]
			if l.lost.Missing(loss.Waiting{Delivery: item.Task.Delivery, Revision: item.Task.Rev, Held: held(item), Ordered: item.Ordered, UpdatedAt: item.UpdatedAt}) {
				items = append(items, item)
			}
		}
		now := time.Now()
		sent, failure := l.publish(ctx, len(items), func(i int, done func(error)) { l.bring(items[i], now, done) })
		ordered := map[string]bool{}
		for _, i := range sent {
			l.lost.GaveBack(items[i].Task.Delivery, items[i].Task.Rev)
			if items[i].Ordered {
				ordered[items[i].Task.Account] = true
			}
		}
		for account := range ordered {
			l.bus.AnnounceRestored(account)
		}
		l.metrics.restored.Add(float64(len(sent)))
		if failure != nil {
			stuck = fmt.Errorf("restore deliveries: %w", failure)
			if !l.goesOn(len(sent), now) {
				return stuck
			}
		}
		if after = next; after == "" {
			return stuck
		}
	}
}

// held reports whether a delivery waits in a hold queue.
func held(item *pipeline.RestoreItem) bool { return item.InLane || item.Status == domain.StatusHeld }

func (l *leader) bring(item *pipeline.RestoreItem, now time.Time, done func(error)) {
	if item.Ordered {
		// The log does not say whether the delivery before this one arrived: no gap is reported, but its
		// sequence shows one.
		position := bus.OrderPosition{Sequence: item.Task.Sequence, ShipmentKey: item.Task.Shipment, Due: item.NextAttemptAt}
		l.bus.RestoreOrdered(&item.Task, position, done)
		return
	}
	if held(item) {
		if item.Task.HeldAt.IsZero() {
			item.Task.HeldAt = now
		}
		l.bus.Hold(&item.Task, done)
		return
	}
	due := item.NextAttemptAt
	if due.Before(now) {
		due = now
	}
	l.bus.Schedule(&item.Task, due, done)
}

// streams returns the state of the streams. A missing stream is made, and counts as lost.
func (l *leader) streams(ctx context.Context) (map[string]loss.State, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	states, err := l.bus.Streams(ctx)
	if err == nil {
		return states, nil
	}
	if err := l.bus.Ensure(ctx); err != nil {
		return nil, err
	}
	return l.bus.Streams(ctx)
}

func (l *leader) knownStreams(ctx context.Context) (map[string]domain.StreamMark, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.BusStreams(ctx)
}

// mark stores the state of the streams, if the database does not have it yet.
func (l *leader) mark(ctx context.Context, states map[string]loss.State, known map[string]domain.StreamMark) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.MarkBusStreams(ctx, loss.Marks(states, known))
}

func (l *leader) restorable(ctx context.Context, since time.Time, after domain.DeliveryID) ([]pipeline.RestoreItem, domain.DeliveryID, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Restorable(ctx, since, after, pageSize)
}
