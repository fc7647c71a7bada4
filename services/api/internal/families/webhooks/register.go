package webhooks

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/go-json-experiment/json"
	"github.com/google/uuid"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/pipeline"
)

func (h *handlers) register(c *web.Call) error {
	key, f := c.IdempotencyKey(), c.Form()
	form := h.read(f, false)
	form.secret()
	if form.pull {
		form.Require("events")
	} else {
		form.Require("url", "events")
	}
	if err := c.Check(); err != nil {
		return err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make webhook id: %w", err)
	}
	w := domain.Webhook{
		ID: domain.WebhookID(id.String()), Account: c.Principal.Account, Active: true,
		Timeout: domain.DefaultTimeout, MaxInFlight: domain.DefaultMaxInFlight, Secret: domain.NewSecret(),
		Ordering: domain.OrderingNone, OrderingMaxWait: domain.DefaultOrderingMaxWait, Delivery: domain.DeliveryPush, Signing: domain.SigningV1,
		ConsumerID: c.Principal.ConsumerID,
	}
	form.Apply(&w)
	if err := invalid(form.authFaults(&w)); err != nil {
		return err
	}

	var once *pipeline.WebhookOnce
	if key != "" {
		done, err := c.Turn(key)
		if err != nil {
			return err
		}
		defer done()
		once = &pipeline.WebhookOnce{Path: Path, Key: key, BodyHash: c.BodyHash(), Respond: h.registered}
	}
	made, repeated, err := h.Store.CreateWebhook(c.Context(), w, once)
	switch {
	case errors.Is(err, pipeline.ErrFilters):
		return errFilters()
	case errors.Is(err, domain.ErrLimit):
		return web.Conflict(fmt.Sprintf("The account has %d webhooks, which is the limit.", domain.MaxWebhooks))
	case err != nil:
		return web.KeyReused(err)
	case repeated != nil:
		return repeat(c, repeated)
	}
	h.announceOrder(c.Context(), made.Version, made.Ordering == domain.OrderingShipment)
	c.Made(news.Webhook, string(made.ID))
	c.Writer.Header().Set("Location", c.Link(Path+"/"+string(made.ID)))
	return c.Send(h.registered(made))
}

// repeat sends the answer of a registration once more.
func repeat(c *web.Call, answer *pipeline.StoredResponse) error {
	var stored struct {
		ID string `json:"id"`
	}
	if err := json.Unmarshal(answer.Body, &stored); err != nil {
		return fmt.Errorf("read stored answer: %w", err)
	}
	c.Unchanged()
	c.Writer.Header().Set("Location", c.Link(Path+"/"+stored.ID))
	return c.Send(answer.Status, answer.Body)
}

// registered returns the only answer that shows a webhook's secret.
func (h *handlers) registered(w domain.Webhook) (status int, body []byte) {
	v := h.view(w, domain.Health{})
	v.Secret = w.Secret.Reveal()
	body, err := json.Marshal(v)
	if err != nil {
		panic(err) // text and finite numbers only
	}
	return http.StatusCreated, body
}
