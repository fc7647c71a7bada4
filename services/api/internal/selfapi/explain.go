package selfapi

import (
	"context"
	"errors"
	"net/url"
	"time"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// explainer answers why an event has, or has not, reached a webhook. It reads what the API
// tells the caller, and nothing else.
type explainer struct{ api *client }

// Permits implements Function: an explanation shows deliveries and webhooks.
func (*explainer) Permits(principal *apikey.Principal) bool {
	return permits(principal, domain.ScopeEventsRead, domain.ScopeWebhooksRead)
}

// Handle implements Function.
func (e *explainer) Handle(ctx context.Context, r *Request) (*Response, error) {
	asked, err := readQuestion(r.Query)
	if err != nil {
		return nil, err
	}
	known, err := e.gather(ctx, r, asked)
	if refused, ok := errors.AsType[*answered](err); ok {
		return refused.response, nil
	}
	if err != nil {
		return nil, err
	}
	return answer(explain(known))
}

// question names a delivery, or the event and the webhook that it would be between.
type question struct{ delivery, event, webhook string }

func readQuestion(values url.Values) (question, error) {
	q := input.ParseQuery(values.Encode())
	var asked question
	var byID, byEvent, byWebhook bool
	asked.delivery, byID = q.Text("deliveryId")
	asked.event, byEvent = q.Text("eventId")
	asked.webhook, byWebhook = q.Text("webhookId")
	const either = "Give deliveryId, or eventId and webhookId."
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
	err := q.Err()
	if p, ok := errors.AsType[*problem.Problem](err); ok {
		p.Detail += " " + either
	}
	return asked, err
}

// facts are what the API answered about the delivery in question. A field is nil if the
// resource does not exist, or if the caller may not see it.
type facts struct {
	asked    question
	now      time.Time
	event    *eventFacts
	webhook  *webhookFacts
	delivery *deliveryFacts
	// waiting is how many of the webhook's deliveries wait for its circuit to close.
	waiting int
}

// eventFacts is read for an event that has no delivery to the webhook.
type eventFacts struct {
	ID         string `json:"id"`
	Type       string `json:"type"`
	ReceivedAt string `json:"receivedAt"`
	Test       bool   `json:"test"`
}

type webhookFacts struct {
	ID                   string    `json:"id"`
	URL                  string    `json:"url"`
	Events               []string  `json:"events"`
	Active               bool      `json:"active"`
	DisabledReason       *string   `json:"disabledReason"`
	Fault                string    `json:"fault,omitzero"`
	TimeoutSeconds       float64   `json:"timeoutSeconds"`
	MaxInFlight          int       `json:"maxInFlight"`
	RatePerSecond        *float64  `json:"ratePerSecond"`
	RetryScheduleSeconds []float64 `json:"retryScheduleSeconds"`
	CreatedAt            string    `json:"createdAt"`
	UpdatedAt            string    `json:"updatedAt"`
}

type deliveryFacts struct {
	ID            string         `json:"id"`
	WebhookID     string         `json:"webhookId"`
	EventID       string         `json:"eventId"`
	EventType     string         `json:"eventType"`
	Status        domain.Status  `json:"status"`
	AttemptCount  int            `json:"attemptCount"`
	NextAttemptAt *string        `json:"nextAttemptAt"`
	Reason        *string        `json:"reason"`
	Test          bool           `json:"test"`
	CreatedAt     string         `json:"createdAt"`
	UpdatedAt     string         `json:"updatedAt"`
	Attempts      []attemptFacts `json:"attempts"`
}

type attemptFacts struct {
	Number       int    `json:"number"`
	StartedAt    string `json:"startedAt"`
	DurationMs   int64  `json:"durationMs"`
	Status       int    `json:"status,omitzero"`
	Error        string `json:"error,omitzero"`
	ResponseBody string `json:"responseBody,omitzero"`
}

// listed is what is read of a page of deliveries.
type listed struct {
	Data []struct {
		ID     string `json:"id"`
		Reason string `json:"reason"`
	} `json:"data"`
}

// gather reads the facts.
func (e *explainer) gather(ctx context.Context, r *Request, asked question) (facts, error) {
	f := facts{asked: asked, now: time.Now()}
	var err error
	if f.delivery, err = e.delivery(ctx, r, asked); err != nil {
		return f, err
	}
	if f.delivery != nil {
		asked.event, asked.webhook = f.delivery.EventID, f.delivery.WebhookID
	} else if asked.delivery != "" {
		return f, nil
	} else if f.event, err = e.event(ctx, r, asked.event); err != nil {
		return f, err
	}
	f.webhook, err = one[webhookFacts](ctx, e.api, r, "/v1/webhooks/{id}", asked.webhook)
	if err != nil || f.delivery == nil || f.webhook == nil {
		return f, err
	}
	switch f.delivery.Status {
	case domain.StatusPending, domain.StatusRetrying:
		f.waiting, err = e.waiting(ctx, r, f.webhook.ID)
	}
	return f, err
}

// one reads the resource that an id names; nil: there is none.
func one[T any](ctx context.Context, c *client, r *Request, template, id string) (*T, error) {
	path, ok := fill(template, map[string]string{"id": id})
	if !ok {
		return nil, nil
	}
	resource := new(T)
	if found, err := c.read(ctx, r, path, nil, resource); err != nil || !found {
		return nil, err
	}
	return resource, nil
}

// delivery reads the delivery that is asked for: of an event to a webhook, the newest.
func (e *explainer) delivery(ctx context.Context, r *Request, asked question) (*deliveryFacts, error) {
	id := asked.delivery
	if id == "" {
		var page listed
		query := url.Values{"eventId": {asked.event}, "webhookId": {asked.webhook}, "limit": {"1"}}
		if _, err := e.api.read(ctx, r, "/v1/deliveries", query, &page); err != nil || len(page.Data) == 0 {
			return nil, err
		}
		id = page.Data[0].ID
	}
	return one[deliveryFacts](ctx, e.api, r, "/v1/deliveries/{id}", id)
}

func (e *explainer) event(ctx context.Context, r *Request, id string) (*eventFacts, error) {
	type withDeliveries struct {
		eventFacts

		Deliveries []struct {
			Test bool `json:"test"`
		} `json:"deliveries"`
	}
	found, err := one[withDeliveries](ctx, e.api, r, "/v1/events/{id}", id)
	if err != nil || found == nil {
		return nil, err
	}
	for _, d := range found.Deliveries {
		found.Test = found.Test || d.Test
	}
	return &found.eventFacts, nil
}

// waiting counts what waits for a webhook's circuit, in a page of what it is due.
func (e *explainer) waiting(ctx context.Context, r *Request, webhook string) (int, error) {
	var page listed
	query := url.Values{"webhookId": {webhook}, "status": {string(domain.StatusRetrying)}}
	if _, err := e.api.read(ctx, r, "/v1/deliveries", query, &page); err != nil {
		return 0, err
	}
	n := 0
	for _, d := range page.Data {
		if d.Reason == domain.ReasonCircuitOpen {
			n++
		}
	}
	return n, nil
}
