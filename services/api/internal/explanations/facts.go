package explanations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"waybill.dev/services/api/internal/deliveries"
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/pipeline"
)

// Log has what explanations are drawn from.
type Log interface {
	GetEvent(ctx context.Context, account, id string) (domain.Event, error)
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	GetDelivery(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, []domain.Attempt, error)
	ListDeliveries(ctx context.Context, filter pipeline.DeliveryFilter) ([]domain.Delivery, string, error)
	GetCircuit(ctx context.Context, id domain.WebhookID) (domain.Circuit, error)
}

// facts are what is known about the delivery in question. A field is nil if the account has
// no such thing.
type facts struct {
	asked    question
	now      time.Time
	event    *eventFacts
	webhook  *webhookFacts
	delivery *deliveries.Detail
	// circuit is what the dispatchers said of the webhook's circuit, some seconds ago at most.
	circuit domain.Circuit
	// open tells that the caller may see webhooks. To others an explanation says no more of
	// the webhook's settings than follows from the verdict.
	open bool
}

// eventFacts is shown of an event that has no delivery to the webhook.
type eventFacts struct {
	ID         string           `json:"id"`
	Type       domain.EventType `json:"type"`
	ReceivedAt string           `json:"receivedAt"`
	Test       bool             `json:"test"`

	received time.Time
}

// webhookFacts is what is shown of a webhook.
type webhookFacts struct {
	ID                   domain.WebhookID       `json:"id"`
	URL                  string                 `json:"url"`
	Events               []domain.EventType     `json:"events"`
	Active               bool                   `json:"active"`
	DisabledReason       *domain.DisabledReason `json:"disabledReason"`
	Fault                string                 `json:"fault,omitzero"`
	TimeoutSeconds       float64                `json:"timeoutSeconds"`
	MaxInFlight          int                    `json:"maxInFlight"`
	RatePerSecond        *float64               `json:"ratePerSecond"`
	RetryScheduleSeconds []float64              `json:"retryScheduleSeconds"`
	CreatedAt            string                 `json:"createdAt"`
	UpdatedAt            string                 `json:"updatedAt"`

	created, updated time.Time
}

// gather reads the facts.
func (h *handlers) gather(ctx context.Context, account string, asked question) (facts, error) {
	f := facts{asked: asked, now: time.Now()}
	id, webhook := asked.delivery, asked.webhook
	var event *domain.Event
	if !asked.byID {
		found, err := h.Log.GetEvent(ctx, account, asked.event)
		if exists, err := there(err, "event"); err != nil {
			return f, err
		} else if exists {
			event, id = &found, domain.NewDeliveryID(found.Key(), webhook)
		}
	}
	if id != "" {
		d, attempts, err := h.Log.GetDelivery(ctx, account, id)
		if exists, err := there(err, "delivery"); err != nil {
			return f, err
		} else if exists {
			detail := deliveries.Show(d, attempts)
			f.delivery, webhook = &detail, d.Webhook
		}
	}
	if f.delivery == nil && event != nil {
		shown, err := h.showEvent(ctx, event)
		if err != nil {
			return f, err
		}
		f.event = shown
	}
	if webhook == "" {
		return f, nil
	}
	w, health, err := h.Log.GetWebhook(ctx, account, webhook)
	exists, err := there(err, "webhook")
	if err != nil || !exists {
		return f, err
	}
	f.webhook = h.showWebhook(&w, health)
	if f.delivery != nil && (f.delivery.Status == domain.StatusPending || f.delivery.Status == domain.StatusRetrying) {
		if f.circuit, err = h.Log.GetCircuit(ctx, webhook); err != nil {
			return f, fmt.Errorf("explain: read circuit: %w", err)
		}
	}
	return f, nil
}

// there tells whether what was read exists; err is why that is unknown.
func there(read error, what string) (exists bool, err error) {
	switch {
	case errors.Is(read, domain.ErrNotFound):
		return false, nil
	case read != nil:
		return false, fmt.Errorf("explain: read %s: %w", what, read)
	}
	return true, nil
}

// showEvent returns what is told of an event without a delivery to the webhook. The sample
// of a test has one delivery, to the tested webhook; no other event has a test's delivery.
func (h *handlers) showEvent(ctx context.Context, e *domain.Event) (*eventFacts, error) {
	sent, _, err := h.Log.ListDeliveries(ctx, pipeline.DeliveryFilter{
		Account: e.Account, EventID: e.ID, Since: e.ReceivedAt, Until: e.ReceivedAt.Add(time.Millisecond), Limit: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("explain: read deliveries of the event: %w", err)
	}
	return &eventFacts{
		ID: e.ID, Type: e.Type, ReceivedAt: *web.Stamp(e.ReceivedAt), Test: len(sent) > 0 && sent[0].Test, received: e.ReceivedAt,
	}, nil
}

func (h *handlers) showWebhook(w *domain.Webhook, health domain.Health) *webhookFacts {
	shown := &webhookFacts{
		ID: w.ID, URL: w.URL, Events: w.Events, Active: true, Fault: w.Fault, TimeoutSeconds: w.Timeout.Seconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond, RetryScheduleSeconds: []float64{},
		CreatedAt: *web.Stamp(w.CreatedAt), UpdatedAt: *web.Stamp(w.UpdatedAt), created: w.CreatedAt, updated: w.UpdatedAt,
	}
	if reason, inactive := w.Inactive(health); inactive {
		shown.Active, shown.DisabledReason = false, &reason
	}
	for _, wait := range w.Schedule(h.RetrySchedule) {
		shown.RetryScheduleSeconds = append(shown.RetryScheduleSeconds, wait.Seconds())
	}
	return shown
}
