package relay

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// settle is how long after streams were made anew their restoration is completed by a
// second pass: by then every outcome that took effect on the lost streams has been
// published to RECORDS, whose content the second pass waits for.
const settle = 10 * time.Second

// loss is what a bus that lost streams is being given back.
type loss struct {
	created  map[string]time.Time // of the streams that were made anew
	found    time.Time
	seed     maphash.Seed
	begun    bool                // the first pass is done
	restored map[uint64]struct{} // deliveries that were given back
}

func (l *loss) remade(streams ...string) bool {
	for _, name := range streams {
		if _, ok := l.created[name]; ok {
			return true
		}
	}
	return false
}

// checkStreams compares the streams with those on record. A stream that was made at
// another time is another stream: what the old one held is brought back from the
// database, at once. The record changes only when all of it is there.
func (l *leader) checkStreams(ctx context.Context) error {
	created, err := l.created(ctx)
	if err != nil {
		return err
	}
	known, err := l.knownStreams(ctx)
	if err != nil {
		return err
	}
	if len(known) == 0 {
		return l.setStreams(ctx, created) // a new installation
	}
	remade := make(map[string]time.Time)
	for name, at := range created {
		if l.loss != nil {
			if being, ok := l.loss.created[name]; ok && being.Equal(at) {
				continue
			}
		}
		if !known[name].Equal(at) {
			remade[name] = at
		}
	}
	if len(remade) > 0 {
		l.lost(remade, created)
	}
	if l.loss == nil || l.loss.begun {
		return nil
	}
	if err := l.restore(ctx, l.loss); err != nil {
		return err
	}
	l.loss.begun = true
	return nil
}

// lost begins to restore streams. What is lost while an earlier loss is being restored
// makes one loss with it, from the start.
func (l *leader) lost(remade, created map[string]time.Time) {
	if l.loss != nil {
		for name, at := range l.loss.created {
			if _, again := remade[name]; !again && created[name].Equal(at) {
				remade[name] = at
			}
		}
	}
	l.loss = &loss{created: remade, found: time.Now(), seed: maphash.MakeSeed(), restored: make(map[uint64]struct{})}
	l.log.Warn("the bus has lost streams; what they held is restored from the database", "streams", len(remade))
	l.metrics.losses.Inc()
}

// restore is the first pass.
func (l *leader) restore(ctx context.Context, lost *loss) error {
	var errs []error
	if lost.remade(bus.StreamRetries, bus.StreamHold, bus.StreamRecords) {
		errs = append(errs, l.requests(ctx, lost.found), l.deliveries(ctx, lost))
	}
	if at, ok := lost.created[bus.StreamEvents]; ok {
		// What was accepted since the stream exists was published to it, or is found by the
		// ordinary rounds.
		errs = append(errs, l.events(ctx, at))
	}
	return errors.Join(errs...)
}

// continueRestoring is the second pass: deliveries whose outcome was still in RECORDS
// when the first one read the database. Then the streams are put on record.
func (l *leader) continueRestoring(ctx context.Context, backlog bus.Backlog) error {
	if l.loss == nil || time.Since(l.loss.found) < settle {
		return nil
	}
	for _, at := range l.loss.created {
		if !backlog.OldestRecord.IsZero() && backlog.OldestRecord.Before(at.Add(settle)) {
			return nil // outcomes from before the loss are still to be written
		}
	}
	if l.loss.remade(bus.StreamRetries, bus.StreamHold, bus.StreamRecords) {
		if err := l.deliveries(ctx, l.loss); err != nil {
			return err
		}
	}
	if err := l.setStreams(ctx, l.loss.created); err != nil {
		return err
	}
	l.log.Info("what the bus had lost is restored", "streams", len(l.loss.created), "deliveries", len(l.loss.restored))
	l.loss = nil
	return nil
}

// deliveries gives the bus its schedules and lanes back. When RECORDS was lost, what the
// database knows may be behind the other two streams: both are restored then, and the
// dispatchers drop what is outdated.
func (l *leader) deliveries(ctx context.Context, lost *loss) error {
	schedules := lost.remade(bus.StreamRetries, bus.StreamRecords)
	lanes := lost.remade(bus.StreamHold, bus.StreamRecords)
	var stuck error
	after := domain.DeliveryID("")
	for {
		page, err := l.restorable(ctx, after)
		if err != nil || len(page) == 0 {
			return errors.Join(stuck, err)
		}
		var items []*store.RestoreItem
		for i := range page {
			item := &page[i]
			_, done := lost.restored[maphash.String(lost.seed, string(item.Task.Delivery))]
			if inLane(item) && lanes && !done || !inLane(item) && schedules && !done {
				items = append(items, item)
			}
		}
		now := time.Now()
		sent, failure := l.publish(ctx, len(items), func(i int, done func(error)) { l.bring(items[i], now, done) })
		for _, i := range sent {
			lost.restored[maphash.String(lost.seed, string(items[i].Task.Delivery))] = struct{}{}
		}
		l.metrics.restored.Add(float64(len(sent)))
		if failure != nil {
			stuck = fmt.Errorf("restore deliveries: %w", failure)
			if !l.goesOn(len(sent), now) {
				return stuck
			}
		}
		after = page[len(page)-1].Task.Delivery
	}
}

func inLane(item *store.RestoreItem) bool { return item.InLane || item.Status == domain.StatusHeld }

func (l *leader) bring(item *store.RestoreItem, now time.Time, done func(error)) {
	if inLane(item) {
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

// created asks for the streams' times. A stream that is missing is made, and counts as
// made anew.
func (l *leader) created(ctx context.Context) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	created, err := l.bus.Created(ctx)
	if err == nil {
		return created, nil
	}
	if err := l.bus.Ensure(ctx); err != nil {
		return nil, err
	}
	return l.bus.Created(ctx)
}

func (l *leader) knownStreams(ctx context.Context) (map[string]time.Time, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.BusStreams(ctx)
}

func (l *leader) setStreams(ctx context.Context, created map[string]time.Time) error {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	for name, at := range created {
		if err := l.store.SetBusStream(ctx, name, at); err != nil {
			return err
		}
	}
	return nil
}

func (l *leader) restorable(ctx context.Context, after domain.DeliveryID) ([]store.RestoreItem, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Restorable(ctx, after, pageSize)
}
