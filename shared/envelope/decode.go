package envelope

import (
	"bytes"
	"fmt"
	"strconv"

	"waybill.dev/shared/domain"
)

const (
	detailType    = "must be one of shipment.created, shipment.in_transit, shipment.delivered, shipment.exception"
	detailID      = "must be 1 to 64 characters of A-Z a-z 0-9 _ -"
	detailTime    = "must be an RFC 3339 time"
	detailObject  = "must be an object"
	detailUnknown = "is not a known member"
)

// Decode reads one event.
func Decode(body []byte) (Event, Faults) {
	var event Event
	faults := scan(body, source{}, func(s *scanner) (err error) {
		event, err = s.event("")
		return err
	})
	return event, faults
}

// DecodeBatch reads an array of 1 to MaxBatch events. Pointers begin with the index.
func DecodeBatch(body []byte) ([]Event, Faults) {
	var batch []Event
	faults := scan(body, source{around: 1}, func(s *scanner) (err error) {
		batch, err = s.batch()
		return err
	})
	return batch, faults
}

// DecodeAny reads one event or an array of them; batch tells which it was.
func DecodeAny(body []byte) (events []Event, batch bool, faults Faults) {
	if first := bytes.TrimLeft(body, " \t\r\n"); len(first) > 0 && first[0] == '[' {
		events, faults = DecodeBatch(body)
		return events, true, faults
	}
	event, faults := Decode(body)
	return []Event{event}, false, faults
}

func (s *scanner) batch() ([]Event, error) {
	count := fmt.Sprintf("must have 1 to %d events", MaxBatch)
	if s.dec.PeekKind() != '[' {
		s.fault("", "must be an array of events")
		return nil, s.dec.SkipValue()
	}
	if _, err := s.dec.ReadToken(); err != nil {
		return nil, err
	}
	var batch []Event
	for s.dec.PeekKind() != ']' {
		if len(batch) == MaxBatch {
			s.fault("", count)
			return nil, errStop
		}
		event, err := s.event("/" + strconv.Itoa(len(batch)))
		if err != nil {
			return nil, err
		}
		batch = append(batch, event)
	}
	if len(batch) == 0 {
		s.fault("", count)
	}
	_, err := s.dec.ReadToken()
	return batch, err
}

// event reads one event, which is at the pointer at.
func (s *scanner) event(at string) (event Event, err error) {
	if s.dec.PeekKind() != '{' {
		s.fault(at, detailObject)
		return event, s.dec.SkipValue()
	}
	var has members
	start, _, err := s.open()
	if err != nil {
		return event, err
	}
	for {
		name, ok, err := s.next()
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
	s.settle(event.Type)
	s.size(at, int(s.dec.InputOffset())-start)
	return event, nil
}

// members tells which required members an envelope has, right or wrong.
type members struct{ kind, data bool }

func (s *scanner) envelopeMember(name string, event *Event, has *members) (err error) {
	switch name {
	case "id":
		event.ID, err = s.text(detailID, domain.ValidEventID)
	case "type":
		has.kind = true
		event.Type, err = s.eventType()
	case "timestamp":
		event.Timestamp, err = s.text(detailTime, ValidTimestamp)
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
	if s.dec.PeekKind() != '{' {
		return nil, s.refuse(detailObject)
	}
	start, deep, err := s.open()
	if err != nil || deep {
		return nil, err
	}
	at := s.pointer()
	hasShipment := false
	for {
		name, ok, err := s.next()
		if err != nil {
			return nil, err
		}
		if !ok {
			break
		}
		f := documented[string(name)]
		hasShipment = hasShipment || f.kind == kindShipmentID
		s.on = f.on
		if err := s.value(f); err != nil {
			return nil, err
		}
		s.on = 0
	}
	s.require(at+"/shipmentId", hasShipment)
	end := int(s.dec.InputOffset())
	return s.body[start:end:end], nil
}

// value reads any value and checks it against what is documented about it.
func (s *scanner) value(f field) error {
	switch got := s.dec.PeekKind(); got {
	case '{':
		return s.object(f)
	case '[':
		return s.array(f)
	default:
		raw, err := s.dec.ReadValue()
		if err != nil {
			return err
		}
		s.noNUL(raw)
		s.check(scalarFault(f.kind, got, raw))
		return nil
	}
}

func (s *scanner) object(f field) error {
	_, deep, err := s.open()
	if err != nil || deep {
		return err
	}
	s.check(containerFault(f.kind, '{'))
	for {
		name, ok, err := s.next()
		if err != nil || !ok {
			return err
		}
		if err := s.value(f.fields[string(name)]); err != nil {
			return err
		}
	}
}

func (s *scanner) array(f field) error {
	_, deep, err := s.open()
	if err != nil || deep {
		return err
	}
	s.check(containerFault(f.kind, '['))
	element := field{}
	if f.kind == kindArray {
		element = field{kind: kindObject, fields: f.fields}
	}
	for s.dec.PeekKind() != ']' {
		if err := s.value(element); err != nil {
			return err
		}
	}
	_, err = s.dec.ReadToken()
	return err
}
