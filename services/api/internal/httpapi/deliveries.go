package httpapi

import (
	"encoding/base64"
	"errors"
	"net/http"
	"strconv"
	"unicode/utf8"

	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
)

// deliveryView is a delivery as lists show it.
type deliveryView struct {
	ID            domain.DeliveryID `json:"id"`
	WebhookID     domain.WebhookID  `json:"webhookId"`
	EventID       string            `json:"eventId"`
	EventType     domain.EventType  `json:"eventType"`
	Status        domain.Status     `json:"status"`
	AttemptCount  int               `json:"attemptCount"`
	NextAttemptAt *string           `json:"nextAttemptAt"`
	Reason        *string           `json:"reason"`
	Test          bool              `json:"test"`
	CreatedAt     *string           `json:"createdAt"`
	UpdatedAt     *string           `json:"updatedAt"`
}

type attemptView struct {
	Number       int     `json:"number"`
	StartedAt    *string `json:"startedAt"`
	DurationMs   int64   `json:"durationMs"`
	Status       int     `json:"status,omitzero"`
	Error        string  `json:"error,omitzero"`
	ResponseBody string  `json:"responseBody,omitzero"`
}

type page[T any] struct {
	Data       []T     `json:"data"`
	NextCursor *string `json:"nextCursor"`
}

func viewDelivery(d domain.Delivery) deliveryView {
	return deliveryView{
		ID: d.ID, WebhookID: d.Webhook, EventID: d.EventID, EventType: d.EventType, Status: d.Status,
		AttemptCount: d.Attempts, NextAttemptAt: stamp(d.NextAttemptAt), Reason: optional(d.Reason),
		Test: d.Test, CreatedAt: stamp(d.CreatedAt), UpdatedAt: stamp(d.UpdatedAt),
	}
}

// cursorFault tells a cursor that the store did not make from everything else.
func cursorFault(err error) error {
	if errors.Is(err, store.ErrCursor) {
		return problem.Invalid(problem.Fault{Parameter: "cursor", Detail: "is not a cursor of this list"})
	}
	return err
}

func (s *server) listDeliveries(c *call) error {
	q := c.query()
	filter := pipeline.DeliveryFilter{
		Account: c.principal.Account,
		Status:  input.OneOf(q, "status", domain.Statuses()),
		Since:   q.Time("since"), Until: q.Time("until"),
		Limit: q.Integer("limit", 1, maxPage, defaultPage),
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
	filter.Cursor, _ = q.Text("cursor")
	if err := q.Err(); err != nil {
		return err
	}
	deliveries, next, err := s.Store.ListDeliveries(c.ctx(), filter)
	if err != nil {
		return cursorFault(err)
	}
	views := make([]deliveryView, 0, len(deliveries))
	for _, d := range deliveries {
		views = append(views, viewDelivery(d))
	}
	return c.answer(http.StatusOK, page[deliveryView]{views, optional(next)})
}

// deliveryID returns the delivery that the path names; text that can't name one names none.
func (c *call) deliveryID() (domain.DeliveryID, error) {
	id := domain.DeliveryID(c.Param("id"))
	if _, ok := id.ReceivedAt(); !ok {
		return "", domain.ErrNotFound
	}
	return id, nil
}

func (s *server) getDelivery(c *call) error {
	id, err := c.deliveryID()
	if err != nil {
		return err
	}
	d, attempts, err := s.Store.GetDelivery(c.ctx(), c.principal.Account, id)
	if err != nil {
		return err
	}
	views := make([]attemptView, 0, len(attempts))
	for _, a := range attempts {
		views = append(views, attemptView{
			Number: a.Number, StartedAt: stamp(a.StartedAt), DurationMs: a.Duration.Milliseconds(),
			Status: a.Status, Error: a.Error, ResponseBody: a.ResponseBody,
		})
	}
	return c.answer(http.StatusOK, struct {
		deliveryView
		Attempts []attemptView `json:"attempts"`
	}{viewDelivery(d), views})
}

// rejectedView is a bus message that was no event. A body that is no UTF-8 is shown in
// base64.
type rejectedView struct {
	Subject      string  `json:"subject"`
	Time         *string `json:"time"`
	Reason       string  `json:"reason"`
	Body         string  `json:"body"`
	BodyEncoding string  `json:"bodyEncoding"`
}

func (s *server) listRejected(c *call) error {
	q := c.query()
	limit := q.Integer("limit", 1, maxPage, defaultPage)
	var before uint64
	if cursor, ok := q.Text("cursor"); ok {
		var err error
		if before, err = strconv.ParseUint(cursor, 10, 63); err != nil || before == 0 {
			q.Fault("cursor", "is not a cursor of this list")
		}
	}
	if err := q.Err(); err != nil {
		return err
	}
	if s.Bus.Ready() != nil {
		return unavailable("The bus, which keeps the rejected messages, can't be reached now.")
	}
	// What was published for a name before it was an account's is not the account's to see.
	account, err := s.Store.GetAccount(c.ctx(), c.principal.Account)
	if err != nil {
		return err
	}
	messages, next, err := s.Bus.ListRejected(c.ctx(), account.Name, account.CreatedOn, limit, before)
	if errors.Is(err, domain.ErrUnavailable) {
		return unavailable("The bus, which keeps the rejected messages, can't be reached now.")
	}
	if err != nil {
		return err
	}
	answer := page[rejectedView]{Data: make([]rejectedView, 0, len(messages))}
	for _, m := range messages {
		view := rejectedView{Subject: m.Subject, Time: stamp(m.Time), Reason: m.Reason, Body: string(m.Body), BodyEncoding: "text"}
		if !utf8.Valid(m.Body) {
			view.Body, view.BodyEncoding = base64.StdEncoding.EncodeToString(m.Body), "base64"
		}
		answer.Data = append(answer.Data, view)
	}
	if next > 0 {
		answer.NextCursor = optional(strconv.FormatUint(next, 10))
	}
	return c.answer(http.StatusOK, answer)
}
