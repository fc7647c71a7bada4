package httpapi

import (
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/sample"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store"
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
	status := store.ReplayUndelivered
	if text, ok := f.Text("status", 1, 64); ok {
		if status = store.ReplayStatus(text); !slices.Contains(store.ReplayStatuses(), status) {
			f.Fault("must be one of undelivered, failed, all", "status")
		}
	}
	if err := f.Err(); err != nil {
		return err
	}
	replay, err := s.Store.RequestReplay(c.ctx(), c.principal.Account, id, since, until, status)
	if err != nil {
		return err
	}
	s.announceRequest()
	return c.answer(http.StatusAccepted, struct {
		ID      string `json:"id"`
		Matched int    `json:"matched"`
		Reason  string `json:"reason,omitzero"`
	}{replay.ID, replay.Matched, whyNone(replay, status)})
}

// whyNone says why a replay matched nothing; empty: it matched something.
func whyNone(replay store.Replay, which store.ReplayStatus) string {
	if replay.Matched > 0 {
		return ""
	}
	var parts []string
	total := 0
	for _, part := range []struct {
		status domain.Status
		text   string
	}{
		{domain.StatusDelivered, "delivered"},
		{domain.StatusPending, "in flight or already requested again"},
		{domain.StatusHeld, "held until the webhook is active"},
		{domain.StatusRetrying, "waiting for their next attempt"},
		{domain.StatusFailed, "failed"},
	} {
		if n := replay.Passed[part.status]; n > 0 {
			total += n
			parts = append(parts, fmt.Sprintf("%d %s", n, part.text))
		}
	}
	if total == 0 {
		return "No event that was accepted in this time range has a delivery to the webhook."
	}
	reason := fmt.Sprintf("Deliveries in this time range: %s.", strings.Join(parts, "; "))
	switch {
	case which == store.ReplayFailed && replay.Passed[domain.StatusRetrying] > 0:
		reason += " With the status undelivered, those that wait for their next attempt are sent too."
	case which != store.ReplayAll && replay.Passed[domain.StatusDelivered] > 0:
		reason += " With the status all, the delivered ones are sent too."
	}
	return reason
}
