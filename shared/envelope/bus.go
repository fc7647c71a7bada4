package envelope

import (
	"mime"
	"net/url"
	"strings"

	"waybill.dev/shared/domain"
)

const (
	headerMsgID       = "Nats-Msg-Id" // exactly in this case: the server's comparison is case-sensitive
	headerContentType = "content-type"
	headerPrefix      = "ce-"
)

// FromBus reads the event in a message of a publisher on NATS: plain JSON as over REST, or a
// CloudEvents 1.0 message in structured or binary mode.
//
// If both are given, the message id must be that of the event, bare or as <account>.<id>; a body
// without an id takes the message id. Without both, ID stays empty, and so does a missing
// Timestamp: the caller takes them from the stream. The error is of type Faults; its text contains
// no value of the message.
func FromBus(account string, headers map[string][]string, body []byte) (Event, error) {
	event, faults := decodeMessage(headers, body)
	if len(faults) > 0 {
		return Event{}, faults
	}
	msgID := strings.TrimPrefix(firstOf(headers[headerMsgID]), account+".")
	switch {
	case msgID == "":
	case event.ID == "":
		if !domain.ValidEventID(msgID) {
			return Event{}, fault("", headerMsgID+" "+detailID+", as the event has no id of its own")
		}
		event.ID = msgID
	case event.ID != msgID:
		return Event{}, fault("/id", "differs from "+headerMsgID)
	}
	return event, nil
}

func fault(pointer, detail string) Faults { return Faults{{Pointer: pointer, Detail: detail}} }

func firstOf(values []string) string {
	if len(values) == 0 {
		return ""
	}
	return values[0]
}

// decodeMessage chooses the mode as the NATS binding of CloudEvents does.
func decodeMessage(headers map[string][]string, body []byte) (Event, Faults) {
	attributes, contentType, faults := cloudHeaders(headers)
	if len(faults) > 0 {
		return Event{}, faults
	}
	if media, _, err := mime.ParseMediaType(contentType); err == nil && strings.HasPrefix(media, "application/cloudevents") {
		if media != "application/cloudevents+json" {
			return Event{}, fault("", "must be one CloudEvent in the JSON format")
		}
		return decodeStructured(body)
	}
	if attributes != nil {
		return decodeBinary(attributes, contentType, body)
	}
	event, faults := Decode(body)
	for _, f := range faults {
		// Clients older than NATS headers send structured CloudEvents without a content type.
		if f.Pointer == "/specversion" {
			return decodeStructured(body)
		}
	}
	return event, faults
}

// cloudHeaders returns the CloudEvents attributes among headers, whatever the case of their names,
// percent-decoded; nil when there are none. A ce- name that is given twice is a fault, because it
// is not clear which value counts.
func cloudHeaders(headers map[string][]string) (attributes map[string]string, contentType string, faults Faults) {
	for key, values := range headers {
		name := strings.ToLower(key)
		switch {
		case name == headerContentType:
			contentType = firstOf(values)
		case strings.HasPrefix(name, headerPrefix):
			if attributes == nil {
				attributes = map[string]string{}
			}
			name = name[len(headerPrefix):]
			if _, twice := attributes[name]; twice || len(values) != 1 {
				return nil, "", fault("", "has a ce- header more than once")
			}
			value, err := url.PathUnescape(values[0])
			if err != nil {
				return nil, "", fault("", "has a ce- header with a broken percent encoding")
			}
			attributes[name] = value
		}
	}
	return attributes, contentType, nil
}
