package accept

import (
	"encoding/hex"
	"fmt"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// NewEvent makes an event of account from a published one, and fills in the fields that were left out.
func NewEvent(account string, e envelope.Event, now time.Time) (domain.Event, error) {
	if e.ID == "" {
		id, err := newEventID()
		if err != nil {
			return domain.Event{}, err
		}
		e.ID = id
	}
	if e.Timestamp == "" {
		e.Timestamp = now.UTC().Format("2006-01-02T15:04:05.000Z07:00")
	}
	return domain.Event{Account: account, ID: e.ID, Type: e.Type, Timestamp: e.Timestamp, Payload: e.Payload()}, nil
}

// newEventID returns evt_ and the 32 hexadecimal digits of a UUID of version 7.
func newEventID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make event id: %w", err)
	}
	return "evt_" + hex.EncodeToString(id[:]), nil
}
