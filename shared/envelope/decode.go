package envelope

import (
	"bytes"
	"context"
	"fmt"
	"strconv"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

const (
	detailType    = "must be one of shipment.created, shipment.in_transit, shipment.delivered, shipment.exception"
	detailID      = "must be 1 to 64 characters of A-Z a-z 0-9 _ -"
	detailTime    = "must be an RFC 3339 time"
	detailObject  = "must be an object"
	detailUnknown = "is not a known member"
)

// Decode reads one event. If it is too large, nothing else is checked.
func Decode(body []byte) (Event, Faults) {
	if isOversized(body) {
		return Event{}, Faults{tooLarge("")}
	}
	var event Event
	faults := scanNow(body, bodySource{}, func(s *scanner) (err error) {
		event, err = s.event("")
		return err
	})
	return event, faults
}

// isOversized reports whether the body of one event is too large, without parsing it.
func isOversized(body []byte) bool {
	return len(body) > MaxEventSize && len(bytes.Trim(body, " \t\r\n")) > MaxEventSize
}

// DecodeBatch reads an array of 1 to MaxBatch events. Pointers begin with the index. When ctx ends,
// it returns ctx's error.
func DecodeBatch(ctx context.Context, body []byte) ([]Event, Faults, error) {
	var batch []Event
	faults, err := scan(ctx, body, bodySource{depthAround: 1}, func(s *scanner) (err error) {
		batch, err = s.batch()
		return err
	})
	return batch, faults, err
}

// DecodeAny reads one event or an array of events; batch reports which it was. When ctx ends, it
// returns ctx's error.
func DecodeAny(ctx context.Context, body []byte) (events []Event, batch bool, faults Faults, err error) {
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		events, faults, err = DecodeBatch(ctx, body)
		return events, true, faults, err
	}
	event, faults := Decode(body)
	return []Event{event}, false, faults, nil
}

func (s *scanner) batch() ([]Event, error) {
	count := fmt.Sprintf("must have 1 to %d events", MaxBatch)
	if s.Kind() != '[' {
		s.fault("", "must be an array of events")
		return nil, s.Skip()
	}
	if _, err := s.Open(); err != nil {
		return nil, err
	}
	var batch []Event
	for {
		more, err := s.Element()
		switch {
		case err != nil:
			return nil, err
		case !more && len(batch) == 0:
			s.fault("", count)
			return nil, nil
		case !more:
			return batch, nil
		case len(batch) == MaxBatch:
			s.fault("", count)
			return nil, jsonscan.ErrStop
		}
		event, err := s.event("/" + strconv.Itoa(len(batch)))
		if err != nil {
			return nil, err
		}
		batch = append(batch, event)
	}
}

// event reads one event, which is at the pointer at.
func (s *scanner) event(at string) (event Event, err error) {
	if s.Kind() != '{' {
		s.fault(at, detailObject)
		return event, s.Skip()
	}
	var has members
	start := s.Offset()
	s.Limit(start+MaxEventSize, tooLarge(at))
	if _, err := s.Open(); err != nil {
		return event, err
	}
	for {
		name, ok, err := s.Member()
		if err != nil {
			return event, err
		}
		if !ok {
			break
		}
		if err := s.envelopeMember(string(name), &event, &has); err != nil {
			return event, err
		}
	}
	s.require(at+"/type", has.kind)
	s.require(at+"/data", has.data)
	s.decide(event.Type)
	return event, s.size(at, s.Offset()-start)
}

// members says which required members an envelope has, whether valid or not.
type members struct{ kind, data bool }

func (s *scanner) envelopeMember(name string, event *Event, has *members) (err error) {
	switch name {
	case "id":
		event.ID, err = s.text(detailID, domain.ValidEventID)
	case "type":
		has.kind = true
		event.Type, err = s.eventType()
	case "timestamp":
		event.Timestamp, err = s.text(detailTime, validTimestamp)
	case "data":
		has.data = true
		event.Data, err = s.data()
	default:
		err = s.refuse(detailUnknown)
	}
	return err
}

func (s *scanner) eventType() (domain.EventType, error) {
	text, err := s.text(detailType, func(v string) bool { return domain.EventType(v).Valid() })
	return domain.EventType(text), err
}

// data reads the data object and returns its bytes.
func (s *scanner) data() ([]byte, error) {
	if s.Kind() != '{' {
		return nil, s.refuse(detailObject)
	}
	start := s.Offset()
	at, _ := s.Pointer()
	if _, err := s.Open(); err != nil {
		return nil, err
	}
	hasShipment := false
	for {
		name, ok, err := s.Member()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		f := documented[string(name)]
		hasShipment = hasShipment || f.kind == kindShipmentID
		s.on = f.onlyFor
		if err := s.value(f); err != nil {
			return nil, err
		}
		s.on = 0
	}
	s.require(at+"/shipmentId", hasShipment)
	end := s.Offset()
	return s.body[start:end:end], nil
}

// value reads any value and checks it against its documentation.
func (s *scanner) value(f field) error {
	got := s.Kind()
	if got == '{' || got == '[' {
		return s.container(f, got)
	}
	raw, err := s.Value()
	if err != nil {
		return err
	}
	s.NoNUL()
	s.check(scalarFault(f.kind, got, raw))
	return nil
}

func (s *scanner) container(f field, kind byte) error {
	deep, err := s.Open()
	if err != nil {
		return err
	}
	if deep {
		return s.Skip()
	}
	s.check(containerFault(f.kind, kind))
	if kind == '{' {
		return s.object(f)
	}
	return s.array(f)
}

func (s *scanner) object(f field) error {
	for {
		name, ok, err := s.Member()
		if err != nil || !ok {
			return err
		}
		if err := s.value(f.fields[string(name)]); err != nil {
			return err
		}
	}
}

func (s *scanner) array(f field) error {
	element := field{}
	if f.kind == kindArray {
		element = field{kind: kindObject, fields: f.fields}
	}
	for {
		more, err := s.Element()
		if err != nil || !more {
			return err
		}
		if err := s.value(element); err != nil {
			return err
		}
	}
}
