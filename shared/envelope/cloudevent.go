package envelope

import (
	"mime"
	"net/url"
	"strings"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/jsonscan"
)

// The rules for CloudEvents 1.0 attributes, in addition to those of id, type and timestamp.
const (
	detailSpecVersion = "must be 1.0"
	detailSource      = "must be a URI reference"
	detailContentType = "must be a JSON media type"
	detailBase64      = "is not supported: data must be a JSON object"
)

// decodeStructured reads a CloudEvent in the JSON format.
func decodeStructured(body []byte) (Event, Faults) {
	if isOversized(body) {
		return Event{}, Faults{tooLarge("")}
	}
	var event Event
	faults := scanNow(body, bodySource{}, func(s *scanner) (err error) {
		event, err = s.cloudEvent()
		return err
	})
	return event, faults
}

func (s *scanner) cloudEvent() (event Event, err error) {
	if s.Kind() != '{' {
		s.fault("", detailObject)
		return event, s.Skip()
	}
	start := s.Offset()
	if _, err := s.Open(); err != nil {
		return event, err
	}
	has := map[string]bool{"specversion": false, "id": false, "source": false, "type": false, "data": false, "data_base64": false}
	for {
		name, ok, err := s.Member()
		if err != nil {
			return event, err
		}
		if !ok {
			break
		}
		key := string(name)
		// In the JSON format null means that an attribute is not set; data is no attribute.
		if key != "data" && s.Kind() == 'n' {
			if err := s.Skip(); err != nil {
				return event, err
			}
			continue
		}
		if _, known := has[key]; known {
			has[key] = true
		}
		if err := s.attribute(key, &event); err != nil {
			return event, err
		}
	}
	for _, name := range []string{"specversion", "id", "source", "type"} {
		s.require("/"+name, has[name])
	}
	if !has["data_base64"] {
		s.require("/data", has["data"])
	}
	s.decide(event.Type)
	return event, s.size("", s.Offset()-start)
}

func (s *scanner) attribute(name string, event *Event) (err error) {
	switch name {
	case "specversion":
		_, err = s.text(detailSpecVersion, isSpecVersion)
	case "id":
		event.ID, err = s.text(detailID, domain.ValidEventID)
	case "source":
		_, err = s.text(detailSource, isSource)
	case "type":
		event.Type, err = s.eventType()
	case "time":
		event.Timestamp, err = s.text(detailTime, validTimestamp)
	case "datacontenttype":
		_, err = s.text(detailContentType, isJSON)
	case "data":
		event.Data, err = s.data()
	case "data_base64":
		err = s.refuse(detailBase64)
	default:
		err = s.extension(name)
	}
	return err
}

// extension reads an attribute that Waybill does not use. Its name has lower-case letters and
// digits; its value is a string, a boolean or an integer.
func (s *scanner) extension(name string) error {
	kind := s.Kind()
	raw, err := s.Value()
	if err != nil {
		return err
	}
	if !isAttributeName(name) {
		s.Here("is not an attribute name: lower-case letters and digits")
		return nil
	}
	if kind == '{' || kind == '[' || kind == '0' && !isInteger(raw) {
		s.Here("must be a string, a boolean or an integer")
		return nil
	}
	s.NoNUL()
	return nil
}

func isAttributeName(name string) bool {
	for _, c := range name {
		if (c < 'a' || c > 'z') && (c < '0' || c > '9') {
			return false
		}
	}
	return name != ""
}

func isSpecVersion(text string) bool { return text == "1.0" }

func isSource(text string) bool {
	if text == "" {
		return false
	}
	_, err := url.Parse(text)
	return err == nil
}

// isJSON reports whether a media type is JSON: a subtype json or with the suffix +json.
func isJSON(contentType string) bool {
	media, _, err := mime.ParseMediaType(contentType)
	if err != nil {
		return false
	}
	_, subtype, ok := strings.Cut(media, "/")
	return ok && (subtype == "json" || strings.HasSuffix(subtype, "+json"))
}

// decodeBinary reads a CloudEvent whose attributes are headers and whose body is data.
func decodeBinary(attributes map[string]string, contentType string, body []byte) (Event, Faults) {
	event := Event{ID: attributes["id"], Type: domain.EventType(attributes["type"]), Timestamp: attributes["time"]}
	faults := attributeFaults(attributes)
	if contentType != "" && !isJSON(contentType) {
		faults = append(faults, Fault{Detail: headerContentType + " " + detailContentType})
	}
	if len(body) > MaxEventSize {
		return event, append(faults, tooLarge("/data"))
	}
	inBody := scanNow(body, bodySource{depthAround: -1, root: "/data"}, func(s *scanner) (err error) {
		event.Data, err = s.data()
		s.decide(event.Type)
		return err
	})
	list := []Fault(faults)
	for _, fault := range inBody {
		list, _ = jsonscan.Note(list, fault)
	}
	return event, list
}

// attributeFaults checks attributes from headers, which have no JSON pointer.
func attributeFaults(attributes map[string]string) Faults {
	var faults Faults
	check := func(name string, required bool, detail string, valid func(string) bool) {
		value, present := attributes[name]
		switch {
		case !present && required:
			faults = append(faults, Fault{Detail: headerPrefix + name + " is required"})
		case present && !valid(value):
			faults = append(faults, Fault{Detail: headerPrefix + name + " " + detail})
		}
	}
	check("specversion", true, detailSpecVersion, isSpecVersion)
	check("id", true, detailID, domain.ValidEventID)
	check("source", true, detailSource, isSource)
	check("type", true, detailType, func(v string) bool { return domain.EventType(v).Valid() })
	check("time", false, detailTime, validTimestamp)
	check("datacontenttype", false, detailContentType, isJSON)
	return faults
}
