package webhooks

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strconv"
	"time"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/store/pipeline"
)

func (h *handlers) update(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.Form()
	pulls, err := h.pulls(c, id, f)
	if err != nil {
		return err
	}
	form := h.read(f, pulls)
	if form.Has("secret") {
		form.Ignore("secret")
		form.Fault("can't be set here: use rotate-secret", "secret")
	}
	if err := c.Check(); err != nil {
		return err
	}
	pulled, ordered := false, false
	w, health, err := h.Store.UpdateWebhook(c.Context(), c.Principal.Account, id, func(w *domain.Webhook) error {
		before, ordering := w.Delivery, w.Ordering
		fault := form.change(w)
		pulled = before != domain.DeliveryPull && w.Delivery == domain.DeliveryPull
		ordered = ordering != w.Ordering && w.Ordering == domain.OrderingShipment
		return fault
	})
	if errors.Is(err, pipeline.ErrFilters) {
		return errFilters()
	}
	if errors.Is(err, domain.ErrQuota) {
		return web.Conflict("The quota of deliveries is used up. The webhook is active again in the next period, or when its consumer gets another plan.")
	}
	if err != nil {
		return err
	}
	h.announceOrder(c.Context(), w.Version, ordered)
	if pulled {
		// Deliveries that this call does not reach are ended by the maintenance of the log.
		_, _ = h.Store.EndPushed(c.Context(), id)
	}
	return c.Answer(http.StatusOK, h.view(w, health))
}

// pulls reports whether a webhook is read by pull. Only such a webhook may lose its url, so pulls looks the
// webhook up only if the change takes the url away. If the webhook becomes a push webhook meanwhile, reachable
// refuses the change.
func (h *handlers) pulls(c *web.Call, id domain.WebhookID, f *input.Form) (bool, error) {
	if id == "" || !f.Null("url") || f.Has("delivery") {
		return false, nil
	}
	w, _, err := h.Store.GetWebhook(c.Context(), c.Principal.Account, id)
	return w.Delivery == domain.DeliveryPull, err
}

func (h *handlers) delete(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.Store.DeleteWebhook(c.Context(), c.Principal.Account, id); err != nil {
		return err
	}
	h.awaitDispatchers(c.Context())
	return c.NoContent()
}

// A deletion is answered when all dispatchers know of it: no attempt starts after the answer. A change that switches
// ordering on is answered at that time, too: all events published after the answer are in order. When no dispatcher has
// reported for changeQuiet, no further reports are expected. The answer waits at most changeLimit for a dispatcher that
// hangs.
const (
	changeQuiet = 50 * time.Millisecond
	changeLimit = time.Second
)

func (h *handlers) awaitDispatchers(ctx context.Context) {
	version, err := h.Store.ConfigVersion(ctx)
	if err != nil {
		h.Bus.Announce(bus.SubjectConfig, nil) // dispatchers find the change by themselves
		return
	}
	h.await(ctx, version)
}

// Rotated is a webhook's new secret.
type Rotated struct {
	Secret                  string  `json:"secret"`
	PreviousSecretExpiresAt *string `json:"previousSecretExpiresAt"`
}

func (h *handlers) rotateSecret(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.OptionalForm()
	overlap := float64(defaultOverlap)
	if seconds, ok := f.Number("overlapSeconds", 0, maxOverlap); ok {
		overlap = seconds
	}
	if err := c.Check(); err != nil {
		return err
	}
	secret := domain.NewSecret()
	expires := time.Now().UTC().Truncate(time.Millisecond).Add(duration(overlap))
	w, _, err := h.Store.UpdateWebhook(c.Context(), c.Principal.Account, id, func(w *domain.Webhook) error {
		// Two signatures at most: a secret that is still in its overlap ends here.
		w.PreviousSecret, w.PreviousSecretExpiresAt = w.Secret, expires
		if overlap == 0 {
			w.PreviousSecret = ""
		}
		w.Secret = secret
		return nil
	})
	if err != nil {
		return err
	}
	h.announce(w.Version)
	return c.Answer(http.StatusOK, Rotated{secret.Reveal(), web.Stamp(expires)})
}

// announce nudges the dispatchers; they would find the change by polling, too.
func (h *handlers) announce(version int64) {
	h.Bus.Announce(bus.SubjectConfig, strconv.AppendInt(nil, version, 10))
}

// announceOrder is announce that waits for the dispatchers if ordering was switched on.
func (h *handlers) announceOrder(ctx context.Context, version int64, ordered bool) {
	if ordered {
		h.await(ctx, version)
		return
	}
	h.announce(version)
}

// await announces the change and waits until the dispatchers have it.
func (h *handlers) await(ctx context.Context, version int64) {
	h.Bus.AnnounceAnswered(ctx, bus.SubjectConfig, strconv.AppendInt(nil, version, 10), changeQuiet, changeLimit)
}

// errFilters says that an account can't have more filters.
func errFilters() error {
	return web.Conflict(fmt.Sprintf("The filters of the account's webhooks would take more than %d bytes together, which is the limit. Shorten or remove some.", domain.MaxFilterBytes))
}
