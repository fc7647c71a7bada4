package store

import (
	"encoding/base64"
	"encoding/json"
	"fmt"
	"time"

	"waybill.dev/shared/domain"
)

// cursor is where a page of a list ended: opaque to callers, of use for the same list
// of the same account alone.
type cursor struct {
	List    string `json:"l"`
	Account string `json:"a"`
	At      int64  `json:"t,omitempty"` // Unix ms, of events
	ID      string `json:"i"`
}

// Lists that have cursors.
const (
	listEvents     = "e"
	listDeliveries = "d"
)

func (c cursor) encode() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // can't be: strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(text)
}

// decodeCursor returns nil for no cursor, and ErrCursor for one of something else.
func decodeCursor(text, list, account string) (*cursor, error) {
	if text == "" {
		return nil, nil // the first page
	}
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil {
		return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	var c cursor
	if err := json.Unmarshal(raw, &c); err != nil || c.List != list || c.Account != account || c.ID == "" {
		return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	if list == listDeliveries {
		if _, ok := domain.DeliveryID(c.ID).ReceivedAt(); !ok {
			return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
		}
	}
	return &c, nil
}

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
