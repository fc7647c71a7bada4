package explanations

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/filter"
	"waybill.dev/shared/store/pipeline"
)

// Log has the facts that explanations need.
type Log interface {
	GetEvent(ctx context.Context, account, id string) (domain.Event, error)
	GetWebhook(ctx context.Context, account string, id domain.WebhookID) (domain.Webhook, domain.Health, error)
	GetDelivery(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, []domain.Attempt, error)
	ListDeliveries(ctx context.Context, filter pipeline.DeliveryFilter) ([]domain.Delivery, string, error)
	GetCircuit(ctx context.Context, id domain.WebhookID) (domain.Circuit, error)
	ReadBeyond(ctx context.Context, webhook domain.WebhookID, event domain.EventKey) ([]string, error)
}

// facts is everything known about the delivery in question. A field is nil if the account has no such thing.
type facts struct {
	asked    question
	now      time.Time
	event    *EventFacts
	webhook  *WebhookFacts
	delivery *deliveries.Detail
	// missed is the clause of the webhook's present filter that an event without a delivery
	// misses; nil: none.
	missed *filter.Miss
	// circuit is the webhook's circuit as the dispatchers last reported it, some seconds ago at most.
	circuit domain.Circuit
	// ahead is the delivery that this one waits for, and maxWait the longest wait; nil: there is none, 0: no limit.
	ahead   *domain.Delivery
	maxWait time.Duration
	// readBy are the cursors that are past the event in the feed of a webhook with delivery pull.
	readBy []string
	// open is true if the caller may see webhooks. Others learn no more of the webhook's settings than follows from the
	// verdict.
	open bool
}

// EventFacts is shown of an event that has no delivery to the webhook.
type EventFacts struct {
	ID         string           `json:"id"`
	Type       domain.EventType `json:"type"`
	ReceivedAt string           `json:"receivedAt"`
	Test       bool             `json:"test"`

	received time.Time
	about    domain.WebhookID // for an alert: the webhook that it reports
}

// WebhookFacts are the facts that are shown about a webhook.
type WebhookFacts struct {
	ID                   domain.WebhookID       `json:"id"`
	URL                  string                 `json:"url,omitzero"`
	Events               []domain.EventType     `json:"events"`
	Active               bool                   `json:"active"`
	DisabledReason       *domain.DisabledReason `json:"disabledReason"`
	Fault                string                 `json:"fault,omitzero"`
	TimeoutSeconds       float64                `json:"timeoutSeconds"`
	MaxInFlight          int                    `json:"maxInFlight"`
	RatePerSecond        *float64               `json:"ratePerSecond"`
	Filter               jsontext.Value         `json:"filter"`
	RetryScheduleSeconds []float64              `json:"retryScheduleSeconds"`
	CreatedAt            string                 `json:"createdAt"`
	UpdatedAt            string                 `json:"updatedAt"`

	delivery         domain.DeliveryMode
	created, updated time.Time
}

// gather reads the facts.
func (h *handlers) gather(ctx context.Context, account string, asked question) (facts, error) {
	f := facts{asked: asked, now: time.Now()}
	id, webhook := asked.delivery, asked.webhook
	var event *domain.Event
	var delivery *domain.Delivery
	if asked.event != "" {
		found, err := h.Log.GetEvent(ctx, account, asked.event)
		if exists, err := there(err, "event"); err != nil {
			return f, err
		} else if exists {
			event = &found
		}
	}
	if event != nil && webhook != "" {
		id = domain.NewDeliveryID(event.Key(), webhook)
	}
	if id != "" {
		d, attempts, err := h.Log.GetDelivery(ctx, account, id)
		if exists, err := there(err, "delivery"); err != nil {
			return f, err
		} else if exists {
			detail := deliveries.Show(d, attempts)
			f.delivery, webhook, delivery = &detail, d.Webhook, &d
		}
	}
	if delivery != nil && delivery.Reason == domain.ReasonBehindShipment {
		ahead, err := h.aheadOf(ctx, account, delivery)
		if err != nil {
			return f, err
		}
		f.ahead = ahead
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
	f.webhook, f.maxWait = h.showWebhook(&w, health), w.OrderingMaxWait
	err = h.gatherMore(ctx, &f, &w, event)
	return f, err
}

// gatherMore reads the facts that depend on the webhook's settings; event is nil if it is not known.
func (h *handlers) gatherMore(ctx context.Context, f *facts, w *domain.Webhook, event *domain.Event) (err error) {
	if f.delivery == nil && event != nil {
		f.missed = missOf(w, event)
	}
	if w.Delivery == domain.DeliveryPull && event != nil {
		if f.readBy, err = h.Log.ReadBeyond(ctx, w.ID, event.Key()); err != nil {
			return fmt.Errorf("explain: %w", err)
		}
	}
	if f.delivery != nil && f.delivery.Status != domain.StatusDelivered {
		if f.circuit, err = h.Log.GetCircuit(ctx, w.ID); err != nil {
			return fmt.Errorf("explain: read circuit: %w", err)
		}
	}
	return nil
}

// missOf returns the clause of the webhook's filter that an event misses; nil: none.
func missOf(w *domain.Webhook, event *domain.Event) *filter.Miss {
	if w.Filter == "" {
		return nil
	}
	chosen, faults := filter.Parse([]byte(w.Filter))
	if len(faults) > 0 {
		return nil // the dispatchers hold deliveries whose filter they can't evaluate
	}
	miss, missed := chosen.Miss(filter.Read(event.Payload))
	if !missed {
		return nil
	}
	return &miss
}

// there reports whether a thing exists, given the error of reading it; err is the reason why that is not known.
func there(read error, what string) (exists bool, err error) {
	switch {
	case errors.Is(read, domain.ErrNotFound):
		return false, nil
	case read != nil:
		return false, fmt.Errorf("explain: read %s: %w", what, read)
	}
	return true, nil
}

// showEvent returns the facts about an event without a delivery to the webhook. The sample of a test has one delivery,
// to the tested webhook; no other event has a test's delivery.
func (h *handlers) showEvent(ctx context.Context, e *domain.Event) (*EventFacts, error) {
	sent, _, err := h.Log.ListDeliveries(ctx, pipeline.DeliveryFilter{
		Account: e.Account, EventID: e.ID, Since: e.ReceivedAt, Until: e.ReceivedAt.Add(time.Millisecond), Limit: 1,
	})
	if err != nil {
		return nil, fmt.Errorf("explain: read deliveries of the event: %w", err)
	}
	shown := &EventFacts{
		ID: e.ID, Type: e.Type, ReceivedAt: *web.Stamp(e.ReceivedAt), Test: len(sent) > 0 && sent[0].Test, received: e.ReceivedAt,
	}
	if e.Type.Alert() {
		shown.about = envelope.Webhook(e.Payload)
	}
	return shown, nil
}

func (h *handlers) showWebhook(w *domain.Webhook, health domain.Health) *WebhookFacts {
	shown := &WebhookFacts{
		ID: w.ID, URL: w.URL, Events: w.Events, Active: true, Fault: w.Fault, TimeoutSeconds: w.Timeout.Seconds(),
		MaxInFlight: w.MaxInFlight, RatePerSecond: w.RatePerSecond, RetryScheduleSeconds: []float64{},
		CreatedAt: *web.Stamp(w.CreatedAt), UpdatedAt: *web.Stamp(w.UpdatedAt), created: w.CreatedAt, updated: w.UpdatedAt, delivery: w.Delivery,
	}
	if reason, inactive := w.Inactive(health); inactive {
		shown.Active, shown.DisabledReason = false, &reason
	}
	if w.Filter != "" {
		shown.Filter = jsontext.Value(w.Filter)
	}
	for _, wait := range w.Schedule(h.RetrySchedule) {
		shown.RetryScheduleSeconds = append(shown.RetryScheduleSeconds, wait.Seconds())
	}
	return shown
}
