// Package follow keeps what a gateway knows in step with the database.
package follow

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/signal"
)

const (
	// Every is the time between two questions to the database, when no nudge comes. Without the bus, a change must
	// reach every gateway within 5 s; the fifth second is for the work that follows from the change.
	Every = 4 * time.Second
	// staleAfter is the age at which the complete list is read instead of changes. The database keeps removed entries
	// for a day only.
	staleAfter = 12 * time.Hour
)

// Bus has the nudges.
type Bus interface {
	Listen(subject string, handle func(body []byte)) (stop func(), err error)
	Reconnects() (c <-chan struct{}, stop func())
	Sync(ctx context.Context) error
}

// Follower calls Update at once, after each nudge of the bus or of this process, when the bus is back, and Every.
type Follower struct {
	Bus    Bus
	Nudges signal.Signal
	Update func(ctx context.Context) error
	Logger *slog.Logger
	Fails  string // logged at the first of several failures
}

// Run follows until ctx ends. It fails if the bus refuses the subscription.
func (f Follower) Run(ctx context.Context) error {
	reconnects, stop := f.Bus.Reconnects()
	defer stop()
	unlisten, err := f.Bus.Listen(bus.SubjectGateway, func([]byte) { f.Nudges.Give() })
	if err != nil {
		return fmt.Errorf("hear of changes: %w", err)
	}
	defer unlisten()
	// From here on nudges arrive; earlier changes are found by reading. Without the bus the ticks are enough.
	_ = f.Bus.Sync(ctx)
	tick := time.NewTicker(Every)
	defer tick.Stop()
	for failing := false; ; {
		err := f.Update(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !failing {
			f.Logger.Error(f.Fails, "error", err) //nolint:sloglint // the callers have constants
		}
		failing = err != nil
		select {
		case <-ctx.Done():
			return nil
		case <-f.Nudges:
		case <-reconnects:
		case <-tick.C:
		}
	}
}

// Place says how far a list of the database was read. It is for one goroutine at a time.
type Place struct {
	version int64
	readAt  time.Time
}

// At reports whether the list was read up to a version, and not too long ago for that to be all. If so, the
// list counts as read now.
func (p *Place) At(version int64) bool {
	if version != p.version || p.stale() {
		return false
	}
	p.readAt = time.Now()
	return true
}

// Version is how far the list was read; 0: not at all.
func (p *Place) Version() int64 { return p.version }

func (p *Place) stale() bool { return time.Since(p.readAt) >= staleAfter }

// Read reads what has changed since the last call, or the complete list if all is true: at first, after a long time
// without the database, and when the database was restored from a backup. The function read gets the version to begin
// after, 0 for the complete list, and returns the version of the list. An error leaves the place unchanged.
func Read[Changes any](ctx context.Context, p *Place, read func(ctx context.Context, since int64) (Changes, int64, error)) (changes Changes, all bool, err error) {
	since := p.version
	if p.stale() {
		since = 0
	}
	changes, version, err := read(ctx, since)
	if err == nil && version < since { // versions go back when the database comes from a backup
		since = 0
		changes, version, err = read(ctx, 0)
	}
	if err != nil {
		return changes, false, err
	}
	p.version, p.readAt = version, time.Now()
	return changes, since == 0, nil
}
