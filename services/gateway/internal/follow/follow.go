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
	// Every is the time between two questions to the database, besides nudges. A change is to be everywhere within 5 s
	// without the bus; the fifth second is for the work that follows from the change.
	Every = 4 * time.Second
	// staleAfter is the age at which a complete list is read instead of changes. The database keeps what was removed
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
	Fails  string // what is logged at the first of several failures
}

// Run follows until ctx ends. It fails if the bus takes no subscription.
func (f Follower) Run(ctx context.Context) error {
	reconnects, stop := f.Bus.Reconnects()
	defer stop()
	unlisten, err := f.Bus.Listen(bus.SubjectGateway, func([]byte) { f.Nudges.Give() })
	if err != nil {
		return fmt.Errorf("hear of changes: %w", err)
	}
	defer unlisten()
	// Nudges come from here on; what was changed before is found by reading. Without the bus the ticks are enough.
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

// Place is how far a list of the database was read. It is for one goroutine at a time.
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
// without the database, and when the database came from a backup. Read is given the version to begin after, 0 for the
// complete list, and returns the version of the list. After an error the place is as it was.
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
