// Package events has the events of an account: publishing, listing and reading them.
package events

import (
	"context"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store/pipeline"
)

// Path is the path of events.
const Path = "/v1/events"

const (
	// maxBody is the size of a batch, in bytes. One event has a lower limit, see envelope.
	maxBody     = 8 << 20
	defaultPage = 100
	// maxShownDeliveries bounds the deliveries that are shown with an event; the rest is
	// found by listing deliveries with eventId.
	maxShownDeliveries = 10_000
)

// Store keeps events and their deliveries.
type Store interface {
	ListEvents(ctx context.Context, filter pipeline.EventFilter) ([]domain.Event, string, error)
	GetEvent(ctx context.Context, account, id string) (domain.Event, error)
	ListDeliveries(ctx context.Context, filter pipeline.DeliveryFilter) ([]domain.Delivery, string, error)
}

// Accepter takes events; see package accept.
type Accepter interface {
	Submit(ctx context.Context, s pipeline.Submission, traceParent string) (pipeline.Receipt, error)
}

// Options of the routes; all are required.
type Options struct {
	Store          Store
	Accepter       Accepter
	Registerer     prometheus.Registerer
	TracerProvider trace.TracerProvider
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	_, untraced := options.TracerProvider.(noop.TracerProvider)
	h := &handlers{
		store: options.Store, accepter: options.Accepter, untraced: untraced,
		tracer: options.TracerProvider.Tracer("waybill.dev/services/api"),
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_rejected_total", Help: "Events over REST that were refused for what they hold; a batch counts whole.",
		}),
	}
	options.Registerer.MustRegister(h.rejected)
	return []web.Route{
		{
			Method: http.MethodPost, Path: Path, Operation: "publishEvents",
			Scope: domain.ScopeEventsWrite, Publishing: true, Handle: h.publish,
		},
		{
			Method: http.MethodGet, Path: Path, Operation: "listEvents",
			Scope: domain.ScopeEventsRead, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: Path + "/{id}", Operation: "getEvent",
			Scope: domain.ScopeEventsRead, Handle: h.get,
		},
	}
}

type handlers struct {
	store    Store
	accepter Accepter
	rejected prometheus.Counter
	tracer   trace.Tracer
	untraced bool // tracer makes no spans
}

// view returns an event as callers see it: the published bytes and further members.
func view(e domain.Event) jsontext.Value {
	payload := e.Payload
	shown := make([]byte, 0, len(payload)+64)
	shown = append(shown, payload[:len(payload)-1]...)
	shown = append(shown, `,"receivedAt":"`...)
	shown = append(shown, *web.Stamp(e.ReceivedAt)...)
	return append(shown, `"}`...)
}

// rawPage writes values that are JSON already, byte for byte.
func rawPage(values []jsontext.Value, next string) []byte {
	body := []byte(`{"data":[`)
	for i, value := range values {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, value...)
	}
	body = append(body, `],"nextCursor":`...)
	if next == "" {
		body = append(body, "null"...)
	} else {
		body, _ = jsontext.AppendQuote(body, next)
	}
	return append(body, '}')
}

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	filter := pipeline.EventFilter{
		Account: c.Principal.Account,
		Type:    input.OneOf(q, "type", domain.WebhookTypes()),
		Source:  input.OneOf(q, "source", domain.Sources()), Shipment: q.Within("shipmentId", domain.MaxShipmentID),
		Since: q.Time("since"), Until: q.Time("until"),
		Limit: q.Integer("limit", 1, web.MaxPage, defaultPage),
	}
	filter.Cursor, _ = q.Text("cursor")
	if err := c.Check(); err != nil {
		return err
	}
	events, next, err := h.store.ListEvents(c.Context(), filter)
	if err != nil {
		return web.CursorFault(err)
	}
	return c.Send(http.StatusOK, rawPage(web.Views(events, view), next))
}

func (h *handlers) get(c *web.Call) error {
	if err := c.Check(); err != nil {
		return err
	}
	id := c.Param("id")
	if !domain.ValidEventID(id) {
		return domain.ErrNotFound
	}
	event, err := h.store.GetEvent(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	sent, err := h.deliveriesOf(c, event)
	if err != nil {
		return err
	}
	body := view(event)
	body = append(body[:len(body)-1], `,"deliveries":`...)
	list, err := json.Marshal(sent)
	if err != nil {
		return err
	}
	body = append(body, list...)
	return c.Send(http.StatusOK, append(body, '}'))
}

// deliveriesOf returns an event's deliveries. An id may belong to several events, some days apart;
// the time of acceptance tells their deliveries apart.
func (h *handlers) deliveriesOf(c *web.Call, event domain.Event) ([]deliveries.Delivery, error) {
	views := []deliveries.Delivery{}
	filter := pipeline.DeliveryFilter{
		Account: c.Principal.Account, EventID: event.ID, Limit: web.MaxPage,
		Since: event.ReceivedAt, Until: event.ReceivedAt.Add(time.Millisecond),
	}
	for {
		page, next, err := h.store.ListDeliveries(c.Context(), filter)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			views = append(views, deliveries.View(d))
		}
		if next == "" || len(views) >= maxShownDeliveries {
			return views, nil
		}
		filter.Cursor = next
	}
}
