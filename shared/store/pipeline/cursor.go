package pipeline

import (
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// Lists that have cursors.
const (
	listEvents     = "e"
	listDeliveries = "d"
)

// leads tells whether the cursor names a place that both databases can look for.
func leads(c store.Cursor) bool {
	switch c.List {
	case listEvents:
		at := time.UnixMilli(c.At).UTC()
		return domain.ValidEventID(c.ID) && c.At >= 0 && at.Year() <= lastYear
	case listDeliveries:
		at, ok := domain.DeliveryID(c.ID).ReceivedAt()
		return ok && c.At == 0 && at.Year() <= lastYear
	}
	return false
}

// lastYear is the last one that a time in RFC 3339 has.
const lastYear = 9999

// ceilMillisecond rounds up, as acceptance times have milliseconds: an event received
// at or after t is one received at or after the result.
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
