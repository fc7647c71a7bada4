// Package deliveries has the deliveries of an account, the retry of a single delivery, and tests.
package deliveries

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

const (
	path        = "/v1/deliveries"
	defaultPage = 100
)

// Log has deliveries and their attempts.
type Log interface {
	ListDeliveries(ctx context.Context, filter pipeline.DeliveryFilter) ([]domain.Delivery, string, error)
	GetDelivery(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, []domain.Attempt, error)
}

// Requests stores requests for the relay.
type Requests interface {
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	RequestTest(ctx context.Context, e domain.Event, w domain.WebhookID, forge domain.Forgery) (domain.DeliveryID, error)
	RequestRetry(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, error)
}

// Options of the routes; all are required.
type Options struct {
	Log      Log
	Requests Requests
	// Requested lets the leading relay look at once, instead of within its second.
	Requested func()
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{
		{
			Method: http.MethodGet, Path: path, Operation: "listDeliveries",
			Scope: domain.ScopeEventsRead, News: []news.Kind{news.Delivery}, Handle: h.list,
		},
		{
			Method: http.MethodGet, Path: path + "/{id}", Operation: "getDelivery",
			Scope: domain.ScopeEventsRead, Handle: h.get,
		},
		{
			Method: http.MethodPost, Path: path + "/{id}/retry", Operation: "retryDelivery",
			Scope: domain.ScopeEventsWrite, Action: auditlog.ActionRetryDelivery, Tells: []news.Kind{news.Delivery}, Handle: h.retry,
		},
		{
			Method: http.MethodPost, Path: webhooks.Path + "/{id}/test", Operation: "testWebhook",
			Scope: domain.ScopeEventsWrite, Action: auditlog.ActionTestWebhook, Tells: []news.Kind{news.Event, news.Delivery}, Handle: h.test,
		},
	}
}

type handlers struct{ Options }

// Delivery is a delivery as lists show it.
type Delivery struct {
	ID            domain.DeliveryID `json:"id"`
	WebhookID     domain.WebhookID  `json:"webhookId"`
	EventID       string            `json:"eventId"`
	EventType     domain.EventType  `json:"eventType"`
	Status        domain.Status     `json:"status"`
	AttemptCount  int               `json:"attemptCount"`
	NextAttemptAt *string           `json:"nextAttemptAt"`
	Class         domain.Class      `json:"class,omitzero"`      // class of the last attempt
	StatusCode    int               `json:"statusCode,omitzero"` // status of the last attempt
	Reason        *string           `json:"reason"`
	Test          bool              `json:"test"`
	Sequence      int64             `json:"sequence,omitzero"` // number among the deliveries of its webhook and shipment
	CreatedAt     *string           `json:"createdAt"`
	UpdatedAt     *string           `json:"updatedAt"`
}

// Detail is a delivery with its attempts.
type Detail struct {
	Delivery

	Attempts []Attempt `json:"attempts"`
}

// Show returns a delivery with its attempts.
func Show(d domain.Delivery, attempts []domain.Attempt) Detail {
	return Detail{View(d), web.Views(attempts, func(a domain.Attempt) Attempt { return viewAttempt(d, a) })}
}

// View returns a delivery as lists show it.
func View(d domain.Delivery) Delivery {
	return Delivery{
		ID: d.ID, WebhookID: d.Webhook, EventID: d.EventID, EventType: d.EventType, Status: d.Status,
		AttemptCount: d.Attempts, Class: d.LastClass, StatusCode: d.LastStatus, NextAttemptAt: web.Stamp(d.NextAttemptAt), Reason: web.Optional(d.Reason),
		Test: d.Test, Sequence: d.Sequence, CreatedAt: web.Stamp(d.CreatedAt), UpdatedAt: web.Stamp(d.UpdatedAt),
	}
}

func (h *handlers) list(c *web.Call) error {
	q := c.Query()
	filter := pipeline.DeliveryFilter{
		Account: c.Principal.Account,
		Status:  input.OneOf(q, "status", domain.Statuses()),
		Reason:  input.OneOf(q, "reason", domain.Reasons()), Type: input.OneOf(q, "eventType", domain.WebhookTypes()),
		Class: input.OneOf(q, "class", domain.Classes()), StatusCode: q.Integer("statusCode", 100, 599, 0),
		Shipment: q.Within("shipmentId", domain.MaxShipmentID),
		Since:    q.Time("since"), Until: q.Time("until"),
		Limit: q.Integer("limit", 1, web.MaxPage, defaultPage),
	}
	if text, ok := q.Text("webhookId"); ok {
		id, err := domain.ParseWebhookID(text)
		if err != nil {
			q.Fault("webhookId", "must be a UUID")
		}
		filter.Webhook = id
	}
	if text, ok := q.Text("eventId"); ok {
		if !domain.ValidEventID(text) {
			q.Fault("eventId", "must be 1 to 64 characters of A-Z a-z 0-9 _ -")
		}
		filter.EventID = text
	}
	if test, ok := q.Bool("test"); ok {
		filter.Test = &test
	}
	filter.Cursor, _ = q.Text("cursor")
	if err := c.Check(); err != nil {
		return err
	}
	deliveries, next, err := h.Log.ListDeliveries(c.Context(), filter)
	if err != nil {
		return web.CursorFault(err)
	}
	return c.Answer(http.StatusOK, web.CursorPage[Delivery]{Data: web.Views(deliveries, View), NextCursor: web.Optional(next)})
}

// parseID parses the id of a delivery.
func parseID(text string) (domain.DeliveryID, error) {
	id := domain.DeliveryID(text)
	if _, ok := id.ReceivedAt(); !ok {
		return "", domain.ErrNotFound
	}
	return id, nil
}

func (h *handlers) get(c *web.Call) error {
	id := web.ID(c, parseID)
	if err := c.Check(); err != nil {
		return err
	}
	d, attempts, err := h.Log.GetDelivery(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, Show(d, attempts))
}
