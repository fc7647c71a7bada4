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

// tailMargin is how much older than the last look at the streams the state of a delivery may
// be that is brought back after a restart of the server: what is stored is on the disk
// within the server's sync interval, and marks are set once a second.
const tailMargin = 5 * time.Second

// tailClocks is by how much the clock of a dispatcher may be ahead of this one's, besides
// the time that the server was away: what reached its state later than that after the
// restart was found is on the restarted server. After a long outage that is what filled
// the lanes at once; given back, it would be sent twice.
const tailClocks = time.Second

// loss is what a bus that lost something is being given back.
type loss struct {
	created  map[string]time.Time // of the streams that have lost what they held
	tail     time.Time            // others may have lost what was stored since; zero: no
	found    time.Time
	seed     maphash.Seed
	begun    bool             // the first pass is done
	restored map[uint64]int64 // deliveries that were given back, each with its revision
}

// gaveBack tells whether the state of a delivery was given back already. One that was
// recorded between the passes and reached before the loss is missing, too: of the older one
// that was given back nothing may come, for the log is ahead of it. What was reached
// since is on the new streams.
func (l *loss) gaveBack(item *store.RestoreItem) bool {
	rev, ok := l.restored[l.hash(item)]
	return ok && (rev >= item.Task.Rev || item.UpdatedAt.After(l.found.Add(settle)))
}

// inTail tells whether the state of a delivery may have been among what a restarted
// server stored last.
func (l *loss) inTail(item *store.RestoreItem) bool {
	return !l.tail.IsZero() && !item.UpdatedAt.Before(l.tail) && !item.UpdatedAt.After(l.found.Add(tailClocks))
}

func (l *loss) hash(item *store.RestoreItem) uint64 {
	return maphash.String(l.seed, string(item.Task.Delivery))
}

func (l *loss) lost(streams ...string) bool {
	for _, name := range streams {
		if _, ok := l.created[name]; ok {
			return true
		}
	}
	return false
}

// waits tells whether deliveries that wait are to be restored.
func (l *loss) waits() bool {
	return l.lost(bus.StreamRetries, bus.StreamHold, bus.StreamRecords) || !l.tail.IsZero()
}

// checkStreams compares the streams with their marks. What a stream has lost is brought
// back from the database, at once; when only the server was restarted, what was stored
// shortly before. The marks move on only when all of it is there.
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
	lost := make(map[string]time.Time)
	restarted := false
	for name, state := range states {
		if l.loss != nil {
			if being, ok := l.loss.created[name]; ok && being.Equal(state.Created) {
				continue
			}
		}
		mark := known[name]
		switch {
		case state.Lost(mark):
			lost[name] = state.Created
		case state.Server != mark.Server:
			restarted = true
		}
	}
	var tail time.Time
	if restarted {
		tail = lastLook(known).Add(-tailMargin)
	}
	if len(lost) > 0 || (l.loss == nil && !tail.IsZero()) {
		l.lost(lost, tail, states)
	}
	if l.loss == nil {
		return l.mark(ctx, states, known)
	}
	if l.loss.begun {
		return nil
	}
	if err := l.restore(ctx, l.loss); err != nil {
		return err
	}
	l.loss.begun = true
	return nil
}

// lastLook returns when the streams were last known to be as far as their marks say. All of
// them are looked at each time, and only the marks of those that went on are set anew: one
// that is idle for days has an old mark, and nothing to lose since.
func lastLook(known map[string]domain.StreamMark) time.Time {
	var last time.Time
	for _, mark := range known {
		if mark.SeenAt.After(last) {
			last = mark.SeenAt
		}
	}
	return last
}

// lost begins to restore streams. What is lost while an earlier loss is being restored
// makes one loss with it, from the start.
func (l *leader) lost(streams map[string]time.Time, tail time.Time, states map[string]bus.StreamState) {
	if l.loss != nil {
		for name, at := range l.loss.created {
			if _, again := streams[name]; !again && states[name].Created.Equal(at) {
				streams[name] = at
			}
		}
		if tail.IsZero() || (!l.loss.tail.IsZero() && l.loss.tail.Before(tail)) {
			tail = l.loss.tail
		}
	}
	l.loss = &loss{created: streams, tail: tail, found: time.Now(), seed: maphash.MakeSeed(), restored: make(map[uint64]int64)}
	if len(streams) == 0 {
		l.loss.begun = true // the records are waited for: most likely nothing is missing
		l.log.Info("the bus was restarted; its last messages are compared with the database")
		return
	}
	l.log.Warn("the bus has lost streams; they are restored from the database", "streams", len(streams))
	l.metrics.losses.Inc()
}

// restore is the first pass.
func (l *leader) restore(ctx context.Context, lost *loss) error {
	var errs []error
	if lost.waits() {
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
// when the first one read the database, also those of which it read an older state. Then the streams are put on record.
func (l *leader) continueRestoring(ctx context.Context, backlog bus.Backlog) error {
	if l.loss == nil || time.Since(l.loss.found) < settle {
		return nil
	}
	if !backlog.OldestRecord.IsZero() && backlog.OldestRecord.Before(l.loss.found.Add(settle)) {
		return nil // outcomes from before the loss are still to be written
	}
	if l.loss.waits() {
		if err := errors.Join(l.requests(ctx, l.loss.found), l.deliveries(ctx, l.loss)); err != nil {
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
	l.log.Info("the lost messages are on the bus again", "streams", len(l.loss.created), "deliveries", len(l.loss.restored))
	l.loss = nil
	return nil
}

// deliveries gives the bus its schedules and lanes back. When RECORDS was lost, what the
// database knows may be behind the other two streams: both are restored then, and the
// dispatchers drop what is outdated.
func (l *leader) deliveries(ctx context.Context, lost *loss) error {
	schedules := lost.lost(bus.StreamRetries, bus.StreamRecords)
	lanes := lost.lost(bus.StreamHold, bus.StreamRecords)
	var since time.Time
	if !schedules && !lanes {
		since = lost.tail
	}
	var stuck error
	after := domain.DeliveryID("")
	for {
		page, err := l.restorable(ctx, since, after)
		if err != nil || len(page) == 0 {
			return errors.Join(stuck, err)
		}
		var items []*store.RestoreItem
		for i := range page {
			item := &page[i]
			missing := schedules
			if inLane(item) {
				missing = lanes
			}
			if !lost.gaveBack(item) && (missing || lost.inTail(item)) {
				items = append(items, item)
			}
		}
		now := time.Now()
		sent, failure := l.publish(ctx, len(items), func(i int, done func(error)) { l.bring(items[i], now, done) })
		for _, i := range sent {
			lost.restored[lost.hash(items[i])] = items[i].Task.Rev
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

// streams asks how far the streams are. One that is missing is made, and counts as lost.
func (l *leader) streams(ctx context.Context) (map[string]bus.StreamState, error) {
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

// mark notes how far the streams are, where that is not known yet.
func (l *leader) mark(ctx context.Context, states map[string]bus.StreamState, known map[string]domain.StreamMark) error {
	marks := make(map[string]domain.StreamMark, len(states))
	for name, state := range states {
		old := known[name]
		if old.LastSeq != state.LastSeq || old.Server != state.Server || !old.Created.Equal(state.Created) {
			marks[name] = state.StreamMark
		}
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.MarkBusStreams(ctx, marks)
}

func (l *leader) restorable(ctx context.Context, since time.Time, after domain.DeliveryID) ([]store.RestoreItem, error) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	return l.store.Restorable(ctx, since, after, pageSize)
}
