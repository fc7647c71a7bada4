package pipeline

import (
	"fmt"
	"hash/fnv"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Lists that have cursors.
const (
	listEvents     = "e"
	listDeliveries = "d"
	listJobs       = "j"
)

// isUsable reports whether the cursor names a place that both databases can look for.
func isUsable(c store.Cursor) bool {
	switch c.List {
	case listEvents:
		at := time.UnixMilli(c.At).UTC()
		return domain.ValidEventID(c.ID) && c.At >= 0 && at.Year() <= lastYear
	case listDeliveries:
		at, ok := domain.DeliveryID(c.ID).ReceivedAt()
		return ok && c.At == 0 && at.Year() <= lastYear
	case listJobs:
		_, err := domain.ParseJobID(c.ID)
		return err == nil && c.At == 0
	}
	return false
}

// leadsWith returns a function that reports the same, and whether the cursor has this filter.
func leadsWith(filter uint64) func(store.Cursor) bool {
	return func(c store.Cursor) bool { return c.Filter == filter && isUsable(c) }
}

// digest returns a number that differs for filters with different values.
func digest(values ...any) uint64 {
	h := fnv.New64a()
	fmt.Fprintf(h, "%#v", values)
	return h.Sum64()
}

// lastYear is the last year of times in RFC 3339.
const lastYear = 9999

// ceilMillisecond rounds up to milliseconds, which acceptance times have: an event was received at
// or after t exactly if it was received at or after the result.
func ceilMillisecond(t time.Time) time.Time {
	if epoch := time.UnixMilli(0); t.Before(epoch) {
		return epoch.UTC()
	}
	floor := t.UTC().Truncate(time.Millisecond)
	if floor.Before(t) {
		return floor.Add(time.Millisecond)
	}
	return floor
}
