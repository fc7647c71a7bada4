package deliveries

import (
	"net/http"
	"slices"
	"time"

	"waybill.dev/services/api/internal/families/sample"
	"waybill.dev/services/api/internal/kernel/accept"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/envelope"
	"waybill.dev/shared/news"
)

// Tested is a requested test.
type Tested struct {
	DeliveryID domain.DeliveryID `json:"deliveryId"`
}

func (h *handlers) test(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.OptionalForm()
	t, given := web.ReadChoice(f, "type", domain.EventTypes())
	own, hasOwn := f.Object("data")
	forge, _ := web.ReadChoice(f, "forge", domain.Forgeries())
	if err := c.Check(); err != nil {
		return err
	}
	w, _, err := h.Requests.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	if w.Delivery == domain.DeliveryPull {
		return web.Conflict(web.ReadByPull)
	}
	if !given {
		t = sampleType(w.Events)
	}
	now := time.Now().UTC().Truncate(time.Millisecond)
	data := sample.Data(t, now)
	if hasOwn {
		// Anybody may publish such events.
		tested, faults := envelope.Decode(slices.Concat([]byte(`{"type":"`+string(t)+`","data":`), own, []byte("}")))
		if len(faults) > 0 {
			return accept.Refuse(faults)
		}
		data = tested.Data
	}
	event, err := accept.NewEvent(c.Principal.Account, envelope.Event{Type: t, Data: data}, now)
	if err != nil {
		return err
	}
	event.ReceivedAt = now
	delivery, err := h.Requests.RequestTest(c.Context(), event, id, forge)
	if err != nil {
		return err
	}
	h.Requested()
	c.Made(news.Event, event.ID)
	c.Made(news.Delivery, string(delivery))
	return c.Answer(http.StatusAccepted, Tested{delivery})
}

// sampleType returns the event type for a test of a webhook: the first of its types that is not an
// alert. A webhook that gets only alerts is tested with an event, because alerts report real
// problems.
func sampleType(types []domain.EventType) domain.EventType {
	for _, t := range types {
		if t.Valid() {
			return t
		}
	}
	return domain.ShipmentCreated
}

func (h *handlers) retry(c *web.Call) error {
	id := web.ID(c, parseID)
	c.OptionalForm() // the body has no members
	if err := c.Check(); err != nil {
		return err
	}
	d, err := h.Requests.RequestRetry(c.Context(), c.Principal.Account, id)
	if err != nil {
		return web.Taken(err, "An attempt of this delivery is under way or asked for already, or its webhook is deleted or read by pull.")
	}
	h.Requested()
	return c.Answer(http.StatusAccepted, View(d))
}
