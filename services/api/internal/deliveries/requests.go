package deliveries

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"waybill.dev/services/api/internal/accept"
	"waybill.dev/services/api/internal/sample"
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/store/pipeline"
)

func (h *handlers) test(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.OptionalForm()
	t, given := web.ReadChoice(f, "type", domain.EventTypes())
	if err := c.Check(); err != nil {
		return err
	}
	w, _, err := h.Requests.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	if !given {
		t = w.Events[0]
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	event, err := accept.NewEvent(c.Principal.Account, envelope.Event{Type: t, Data: sample.Data(t, now)}, now)
	if err != nil {
		return err
	}
	event.ReceivedAt = now
	delivery, err := h.Requests.RequestTest(c.Context(), event, id)
	if err != nil {
		return err
	}
	h.Requested()
	return c.Answer(http.StatusAccepted, struct {
		DeliveryID domain.DeliveryID `json:"deliveryId"`
	}{delivery})
}

func (h *handlers) retry(c *web.Call) error {
	id := web.ID(c, parseID)
	c.OptionalForm() // there is nothing to say
	if err := c.Check(); err != nil {
		return err
	}
	d, err := h.Requests.RequestRetry(c.Context(), c.Principal.Account, id)
	if err != nil {
		return web.Taken(err, "An attempt of this delivery is under way or asked for already, or its webhook is deleted.")
	}
	h.Requested()
	return c.Answer(http.StatusAccepted, View(d))
}

func (h *handlers) replay(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.Form()
	f.Require("since")
	since, sinceOK := f.Time("since")
	until, untilOK := f.Time("until") // left out: now
	if sinceOK && untilOK && until.Before(since) {
		f.Fault("must not be before since", "until")
	}
	status, given := web.ReadChoice(f, "status", pipeline.ReplayStatuses())
	if !given {
		status = pipeline.ReplayUndelivered
	}
	if err := c.Check(); err != nil {
		return err
	}
	replay, err := h.Requests.RequestReplay(c.Context(), c.Principal.Account, id, since, until, status)
	if err != nil {
		return err
	}
	h.Requested()
	return c.Answer(http.StatusAccepted, struct {
		ID      string `json:"id"`
		Matched int    `json:"matched"`
		Reason  string `json:"reason,omitzero"`
	}{replay.ID, replay.Matched, whyNone(replay, status)})
}

// whyNone says why a replay matched nothing; empty: it matched something.
func whyNone(replay pipeline.Replay, which pipeline.ReplayStatus) string {
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
	case which == pipeline.ReplayFailed && replay.Passed[domain.StatusRetrying] > 0:
		reason += " With the status undelivered, those that wait for their next attempt are sent too."
	case which != pipeline.ReplayAll && replay.Passed[domain.StatusDelivered] > 0:
		reason += " With the status all, the delivered ones are sent too."
	}
	return reason
}
