package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/google/uuid"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/codes"
	"go.opentelemetry.io/otel/propagation"
	"go.opentelemetry.io/otel/trace"

	"waybill.dev/services/api/internal/input"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
)

const (
	defaultPage = 100
	// maxShownDeliveries bounds the deliveries that are shown with an event; the rest is
	// found by listing deliveries with eventId.
	maxShownDeliveries = 10_000
)

func (s *server) publishEvents(c *call) error {
	key, err := c.idempotencyKey()
	if err != nil {
		return err
	}
	body, err := c.body(maxBatchBody)
	if err != nil {
		return err
	}
	published, batch, faults, err := envelope.DecodeAny(c.ctx(), body)
	if err != nil {
		return err
	}
	if len(faults) > 0 {
		s.metrics.rejected.Add(float64(max(len(published), 1)))
		return refuseEvents(faults)
	}
	if err := s.limitBatch(c, len(published)); err != nil {
		return err
	}
	submission := store.Submission{Account: c.principal.Account, Events: make([]domain.Event, len(published))}
	now := time.Now()
	for i, e := range published {
		if submission.Events[i], err = accepted(c.principal.Account, e, now); err != nil {
			return err
		}
	}
	if key != "" {
		land, err := s.running.take(c.ctx(), flight{c.principal.Account, eventsPath, key})
		if err != nil {
			return err
		}
		defer land()
		submission.Once = &store.Once{Path: eventsPath, Key: key, BodyHash: sha256.Sum256(body), Respond: published202}
	}

	receipt, err := s.submit(c, submission, batch)
	switch {
	case err != nil:
		return refused(err)
	case receipt.Replay != nil:
		return c.repeat(receipt.Replay)
	}
	status, answer := published202(receipt.Events)
	c.send(status, answer)
	return nil
}

func refuseEvents(faults envelope.Faults) error {
	p := problem.Invalid()
	if errors.Is(faults, envelope.ErrTooLarge) {
		p = problem.New(problem.TooLarge, fmt.Sprintf("An event may have at most %d bytes.", envelope.MaxEventSize))
	} else if len(faults) > 1 {
		p.Detail = "The request has " + strconv.Itoa(len(faults)) + " faults; see errors."
	}
	p.Faults = make([]problem.Fault, len(faults))
	for i, f := range faults {
		p.Faults[i] = problem.Fault{Pointer: f.Pointer, Detail: f.Detail}
	}
	return p
}

// accepted completes an event as it was published: what was left out is made here.
func accepted(account string, e envelope.Event, now time.Time) (domain.Event, error) {
	if e.ID == "" {
		id, err := newEventID()
		if err != nil {
			return domain.Event{}, err
		}
		e.ID = id
	}
	if e.Timestamp == "" {
		e.Timestamp = *stamp(now)
	}
	return domain.Event{Account: account, ID: e.ID, Type: e.Type, Timestamp: e.Timestamp, Payload: e.Payload()}, nil
}

// newEventID returns evt_ and the 32 hexadecimal digits of a UUID of version 7.
func newEventID() (string, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return "", fmt.Errorf("make event id: %w", err)
	}
	return "evt_" + hex.EncodeToString(id[:]), nil
}

// published202 is the answer to a publisher. Ids need no escaping in JSON.
func published202(events []store.Accepted) (status int, body []byte) {
	body = make([]byte, 0, 16+72*len(events))
	body = append(body, `{"events":[`...)
	for i, e := range events {
		if i > 0 {
			body = append(body, ',')
		}
		body = append(body, `{"id":"`...)
		body = append(body, e.ID...)
		body = append(body, `","duplicate":`...)
		body = strconv.AppendBool(body, e.Duplicate)
		body = append(body, '}')
	}
	return http.StatusAccepted, append(body, "]}"...)
}

// submit has the events accepted. Their trace goes along with them: a span of our own below
// the caller's, or just the caller's when tracing is off.
func (s *server) submit(c *call, submission store.Submission, batch bool) (store.Receipt, error) {
	propagator := propagation.TraceContext{}
	ctx := propagator.Extract(c.ctx(), propagation.HeaderCarrier(c.Request.Header))
	ctx, span := s.tracer.Start(ctx, "publish", trace.WithSpanKind(trace.SpanKindProducer), trace.WithAttributes(
		attribute.Int("waybill.events", len(submission.Events)), attribute.Bool("waybill.batch", batch)))
	defer span.End()
	carrier := propagation.MapCarrier{}
	propagator.Inject(ctx, carrier)
	receipt, err := s.Accepter.Submit(ctx, submission, carrier.Get("traceparent"))
	if err != nil {
		span.SetStatus(codes.Error, "not accepted")
	}
	return receipt, err
}

// eventView is an event as callers see it: the bytes that were published, and more.
func eventView(e domain.Event) jsontext.Value {
	payload := e.Payload
	view := make([]byte, 0, len(payload)+64)
	view = append(view, payload[:len(payload)-1]...)
	view = append(view, `,"receivedAt":"`...)
	view = append(view, *stamp(e.ReceivedAt)...)
	return append(view, `"}`...)
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

func (s *server) listEvents(c *call) error {
	q := c.query()
	filter := store.EventFilter{
		Account: c.principal.Account,
		Type:    input.OneOf(q, "type", domain.EventTypes()),
		Since:   q.Time("since"), Until: q.Time("until"),
		Limit: q.Integer("limit", 1, maxPage, defaultPage),
	}
	filter.Cursor, _ = q.Text("cursor")
	if err := q.Err(); err != nil {
		return err
	}
	events, next, err := s.Store.ListEvents(c.ctx(), filter)
	if err != nil {
		return cursorFault(err)
	}
	views := make([]jsontext.Value, len(events))
	for i, e := range events {
		views[i] = eventView(e)
	}
	c.send(http.StatusOK, rawPage(views, next))
	return nil
}

func (s *server) getEvent(c *call) error {
	if c.Request.URL.RawQuery != "" {
		if err := c.query().Err(); err != nil {
			return err
		}
	}
	id := c.Param("id")
	if !domain.ValidEventID(id) {
		return domain.ErrNotFound
	}
	event, err := s.Store.GetEvent(c.ctx(), c.principal.Account, id)
	if err != nil {
		return err
	}
	deliveries, err := s.deliveriesOf(c, event)
	if err != nil {
		return err
	}
	body := eventView(event)
	body = append(body[:len(body)-1], `,"deliveries":`...)
	list, err := json.Marshal(deliveries)
	if err != nil {
		return err
	}
	body = append(body, list...)
	c.send(http.StatusOK, append(body, '}'))
	return nil
}

// deliveriesOf returns an event's deliveries. The id alone may stand for several events,
// some days apart; their deliveries are told apart by the time of acceptance.
func (s *server) deliveriesOf(c *call, event domain.Event) ([]deliveryView, error) {
	views := []deliveryView{}
	filter := store.DeliveryFilter{
		Account: c.principal.Account, EventID: event.ID, Limit: maxPage,
		Since: event.ReceivedAt, Until: event.ReceivedAt.Add(time.Millisecond),
	}
	for {
		page, next, err := s.Store.ListDeliveries(c.ctx(), filter)
		if err != nil {
			return nil, err
		}
		for _, d := range page {
			views = append(views, viewDelivery(d))
		}
		if next == "" || len(views) >= maxShownDeliveries {
			return views, nil
		}
		filter.Cursor = next
	}
}
