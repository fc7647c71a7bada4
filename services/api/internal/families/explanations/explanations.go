// Package explanations says why an event has, or has not, reached a webhook.
package explanations

import (
	"errors"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// Path is the path of explanations.
const Path = "/v1/explanations"

// Operation is the operation's name in the OpenAPI document. The module waybill of gateway routes
// uses the same name, and the MCP tool explain_delivery is made from it.
const Operation = "explainDelivery"

// Options of the routes; all are required.
type Options struct {
	Log Log
	// RetrySchedule is the default of the installation, for webhooks without a schedule.
	RetrySchedule []time.Duration
}

// Routes returns the operations.
func Routes(options Options) []web.Route {
	h := &handlers{options}
	return []web.Route{{
		Method: http.MethodGet, Path: Path, Operation: Operation,
		Scope: domain.ScopeEventsRead, Handle: h.explain,
	}}
}

type handlers struct{ Options }

func (h *handlers) explain(c *web.Call) error {
	asked, err := readQuestion(c)
	if err != nil {
		return err
	}
	known, err := h.gather(c.Context(), c.Principal.Account, asked)
	if err != nil {
		return err
	}
	known.open = c.Principal.May(domain.ScopeWebhooksRead)
	return c.Answer(http.StatusOK, explain(known))
}

// question names a delivery, or an event and a webhook.
type question struct {
	byID bool
	// An id is empty if its text has not the form of an id.
	delivery domain.DeliveryID
	event    string
	webhook  domain.WebhookID
}

func readQuestion(c *web.Call) (question, error) {
	q := c.Query()
	var asked question
	delivery, byID := q.Text("deliveryId")
	event, byEvent := q.Text("eventId")
	webhook, byWebhook := q.Text("webhookId")
	switch {
	case byID && (byEvent || byWebhook):
		q.Fault("deliveryId", "must be given alone, without eventId and webhookId")
	case !byID && !byEvent && !byWebhook:
		q.Fault("deliveryId", "is required, unless eventId and webhookId are given")
	case !byID && !byEvent:
		q.Fault("eventId", "is required together with webhookId")
	case !byID && !byWebhook:
		q.Fault("webhookId", "is required together with eventId")
	}
	asked.byID = byID
	if id := domain.DeliveryID(delivery); byID {
		if _, ok := id.ReceivedAt(); ok {
			asked.delivery = id
		}
	}
	if domain.ValidEventID(event) {
		asked.event = event
	}
	if id, err := domain.ParseWebhookID(webhook); err == nil {
		asked.webhook = id
	}
	err := c.Check()
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		p.Detail += " Give deliveryId, or eventId and webhookId."
	}
	return asked, err
}
