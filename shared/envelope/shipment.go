package envelope

import (
	"context"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

// Shipment returns the key under which an account's event is found by its shipment, given
// the event's payload, which has been checked; nil: it has no data.shipmentId. It reads no
// further than there.
func Shipment(account string, payload []byte) *int64 {
	s := jsonscan.New(context.Background(), payload, jsonscan.Options{})
	defer s.Free()
	if !find(s, "data") || !find(s, "shipmentId") {
		return nil
	}
	value, err := s.Value()
	if err != nil {
		return nil
	}
	text, ok := jsonscan.Value(value).Text()
	if !ok {
		return nil
	}
	key := domain.ShipmentKey(account, text)
	return &key
}

// find goes into the object that is next, to the value of the member of that name.
func find(s *jsonscan.Scanner, name string) bool {
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
