package envelope

import (
	"context"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

// Shipment returns the key of an account's shipment by which an event is found, from the event's
// checked payload; nil: it has no data.shipmentId. It reads the payload only up to there.
func Shipment(account string, payload []byte) *int64 {
	text, ok := dataText(payload, "shipmentId")
	if !ok {
		return nil
	}
	key := domain.ShipmentKey(account, text)
	return &key
}

// Webhook returns the webhook that an alert is about, from the alert's
// payload; empty: the payload names none.
func Webhook(payload []byte) domain.WebhookID {
	text, _ := dataText(payload, "webhookId")
	return domain.WebhookID(text)
}

// dataText returns a text in an event's data; false: it has no text with that name.
func dataText(payload []byte, name string) (text string, ok bool) {
	s := jsonscan.New(context.Background(), payload, jsonscan.Options{})
	defer s.Free()
	if !findMember(s, "data") || !findMember(s, name) {
		return "", false
	}
	value, err := s.Value()
	if err != nil {
		return "", false
	}
	return jsonscan.Value(value).Text()
}

// findMember enters the next object and goes to the value of its member with a name.
func findMember(s *jsonscan.Scanner, name string) bool {
	if s.Kind() != '{' {
		return false
	}
	if deep, err := s.Open(); deep || err != nil {
		return false
	}
	for {
		found, more, err := s.Member()
		if err != nil || !more {
			return false
		}
		if string(found) == name {
			return true
		}
		if s.Skip() != nil {
			return false
		}
	}
}
