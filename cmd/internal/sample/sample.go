// Package sample has one event of each type, with every documented field.
package sample

import (
	"embed"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"waybill.dev/shared/domain"
)

//go:embed *.json
var files embed.FS

// Data returns the data of the sample of type t, byte for byte as in its file.
func Data(t domain.EventType) ([]byte, error) {
	if !t.Valid() {
		return nil, fmt.Errorf("read sample: %q is not an event type; the types are %s", string(t), Types())
	}
	text, err := files.ReadFile(strings.TrimPrefix(string(t), "shipment.") + ".json")
	if err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	var event struct {
		Data json.RawMessage `json:"data"`
	}
	if err := json.Unmarshal(text, &event); err != nil {
		return nil, fmt.Errorf("read sample: %w", err)
	}
	return event.Data, nil
}

// Types lists the event types for a person.
func Types() string {
	var names []string
	for _, t := range domain.EventTypes() {
		names = append(names, string(t))
	}
	return strings.Join(names, ", ")
}

// Event returns an event as it is published, with the bytes of data as they are. An empty
// id is left out, so that Waybill makes one.
func Event(id string, t domain.EventType, at time.Time, data []byte) []byte {
	var b strings.Builder
	b.WriteByte('{')
	if id != "" {
		fmt.Fprintf(&b, `"id":%q,`, id)
	}
	fmt.Fprintf(&b, `"type":%q,"timestamp":%q,"data":`, string(t), at.UTC().Format(time.RFC3339))
	b.Write(data)
	b.WriteByte('}')
	return []byte(b.String())
}
