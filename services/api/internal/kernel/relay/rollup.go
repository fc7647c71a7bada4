package relay

import (
	"context"
	"time"

	"waybill.dev/shared/store/rollup"
)

// Rollups merges the counts of statistics.
type Rollups interface {
	Backlog(ctx context.Context) (rollup.Backlog, error)
	Merge(ctx context.Context) (merged int, more bool, err error)
}

// Counts are merged when the oldest have waited for rollupAfter, or when there are so many that
// readers, which add them up, would become slow. Rare merges cost less: all counts of one webhook
// and minute become one change.
const (
	rollupLook   = 5 * time.Second
	rollupAfter  = time.Minute
	rollupDeltas = 20_000
	rollupBytes  = 2 << 20
)

// rollUp merges counts while this process leads.
func (r *Relay) rollUp(ctx context.Context) {
	r.every(ctx, rollupLook, "counts can't be merged into rollups; statistics are right, and become slower", func() error { return r.rollUpOnce(ctx) })
}

func (r *Relay) rollUpOnce(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, maintainTimeout)
	defer cancel()
	backlog, err := r.store.Backlog(ctx)
	if err != nil {
		return err
	}
	age := time.Duration(0)
	if !backlog.Oldest.IsZero() {
		age = max(time.Since(backlog.Oldest), 0)
	}
	r.metrics.rollupLag.Set(age.Seconds())
	if age < rollupAfter && backlog.Deltas < rollupDeltas && backlog.Bytes < rollupBytes {
		return nil
	}
	for more := true; more; {
		if _, more, err = r.store.Merge(ctx); err != nil {
			return err
		}
	}
	return nil
}
