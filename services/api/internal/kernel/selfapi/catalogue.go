package selfapi

import (
	"context"
	"fmt"
	"io/fs"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// receiverGuide answers with the guide for receivers.
func receiverGuide(context.Context, *Request) (*Response, error) {
	guide, err := fs.ReadFile(docs.Files(), "receivers.md")
	if err != nil {
		return nil, fmt.Errorf("read guide: %w", err)
	}
	header := http.Header{"Content-Type": {"text/markdown; charset=utf-8"}}
	return &Response{Status: http.StatusOK, Header: header, Body: guide}, nil
}

// eventType is an entry of the catalogue.
type eventType struct {
	Type        domain.EventType `json:"type"`
	Description string           `json:"description"`
	// Sample is a callback's body.
	Sample jsontext.Value `json:"sample"`
}

// listEventTypes answers with the catalogue of events. It is the same every time.
func listEventTypes(context.Context, *Request) (*Response, error) {
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	var catalogue struct {
		Events []eventType `json:"events"`
	}
	for _, t := range domain.EventTypes() {
		event := envelope.Event{
			ID: "evt_sample_" + string(t)[len("shipment."):], Type: t,
			Timestamp: at.Format(time.RFC3339), Data: sample.Data(t, at),
		}
		catalogue.Events = append(catalogue.Events, eventType{t, describe(t), event.Payload()})
	}
	return answer(catalogue)
}

func describe(t domain.EventType) string {
	switch t {
	case domain.ShipmentCreated:
		return "The label was made. The shipment exists but has not moved yet."
	case domain.ShipmentInTransit:
		return "The shipment moved: it was picked up, departed, arrived, or passed customs."
	case domain.ShipmentDelivered:
		return "The shipment reached its destination. The data has the proof of delivery, if there is one."
	default: // shipment.exception
		return "Something stops the shipment, such as customs, an address or damage. The data says whether somebody must act."
	}
}

// answer returns a JSON answer of the module itself.
func answer(value any) (*Response, error) {
	body, err := json.Marshal(value)
	if err != nil {
		return nil, err
	}
	header := http.Header{"Content-Type": {"application/json; charset=utf-8"}}
	return &Response{Status: http.StatusOK, Header: header, Body: body}, nil
}
