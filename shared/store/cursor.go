package store

import (
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"hash/crc32"
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

// encode writes a cursor with a checksum, so that a damaged one is known for what it is and
// leads to no other place. It keeps no secret, and who makes one up can name only a place
// in a list of their own.
func (c cursor) encode() string {
	text, err := json.Marshal(c)
	if err != nil {
		return "" // can't be: strings and a number
	}
	return base64.RawURLEncoding.EncodeToString(binary.BigEndian.AppendUint32(text, crc32.ChecksumIEEE(text)))
}

// maxCursor bounds the text of a cursor: those that are given have names and ids in them.
const maxCursor = 1 << 10

// decodeCursor returns nil for no cursor, and ErrCursor for one of something else.
func decodeCursor(text, list, account string) (*cursor, error) {
	if text == "" {
		return nil, nil // the first page
	}
	if len(text) > maxCursor {
		return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	var c cursor
	raw, err := base64.RawURLEncoding.DecodeString(text)
	if err == nil && len(raw) > crc32.Size {
		err = json.Unmarshal(raw[:len(raw)-crc32.Size], &c)
	}
	if err != nil || c.encode() != text || c.List != list || c.Account != account || !c.leads() {
		return nil, fmt.Errorf("decode cursor: %w", ErrCursor)
	}
	return &c, nil
}

// leads tells whether the cursor names a place that both databases can look for.
func (c cursor) leads() bool {
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
