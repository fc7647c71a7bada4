package httpapi

import (
	"errors"
	"net/http"
	"time"

	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/sample"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
)

// announceRequest lets the leading relay look at once instead of within its second.
func (s *server) announceRequest() {
	s.Relay.Poke()
	s.Bus.Announce(bus.SubjectRelay, nil)
}

func (s *server) testWebhook(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	f, _, err := c.form(true)
	if err != nil {
		return err
	}
	var t domain.EventType
	if text, ok := f.Text("type", 1, 64); ok {
		if t = domain.EventType(text); !t.Valid() {
			f.Fault("must be one of "+join(domain.EventTypes()), "type")
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	w, _, err := s.Store.GetWebhook(c.ctx(), c.principal.Account, id)
	if err != nil {
		return err
	}
	if t == "" {
		t = w.Events[0]
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	event, err := accepted(c.principal.Account, envelope.Event{Type: t, Data: sample.Data(t, now)}, now)
	if err != nil {
		return err
	}
	event.ReceivedAt = now
	delivery, err := s.Store.RequestTest(c.ctx(), event, id)
	if err != nil {
		return err
	}
	s.announceRequest()
	return c.answer(http.StatusAccepted, struct {
		DeliveryID domain.DeliveryID `json:"deliveryId"`
	}{delivery})
}

func (s *server) retryDelivery(c *call) error {
	id, err := c.deliveryID()
	if err != nil {
		return err
	}
	f, _, err := c.form(true)
	if err != nil {
		return err
	}
	if err := f.Err(); err != nil {
		return err
	}
	d, err := s.Store.RequestRetry(c.ctx(), c.principal.Account, id)
	if errors.Is(err, domain.ErrConflict) {
		return problem.New(problem.Conflict, "An attempt of this delivery is under way or asked for already, or its webhook is deleted.")
	}
	if err != nil {
		return err
	}
	s.announceRequest()
	return c.answer(http.StatusAccepted, viewDelivery(d))
}

func (s *server) replayWebhook(c *call) error {
	id, err := c.webhookID()
	if err != nil {
		return err
	}
	f, _, err := c.form(false)
	if err != nil {
		return err
	}
	f.Require("since")
	since, sinceOK := f.Time("since")
	until, untilOK := f.Time("until") // left out: now
	if sinceOK && untilOK && until.Before(since) {
		f.Fault("must not be before since", "until")
	}
	status := "failed"
	if text, ok := f.Text("status", 1, 64); ok {
		if status = text; status != "failed" && status != "all" {
			f.Fault("must be one of failed, all", "status")
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	request, matched, err := s.Store.RequestReplay(c.ctx(), c.principal.Account, id, since, until, status == "all")
	if err != nil {
		return err
	}
	s.announceRequest()
	return c.answer(http.StatusAccepted, struct {
		ID      string `json:"id"`
		Matched int    `json:"matched"`
	}{request, matched})
}
