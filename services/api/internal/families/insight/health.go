package insight

import (
	"net/http"

	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

func (h *handlers) health(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	if err := c.Check(); err != nil {
		return err
	}
	w, health, err := h.Webhooks.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	view, err := h.Receivers.One(c.Context(), w, health)
	if err != nil {
		return err
	}
	return c.Answer(http.StatusOK, view)
}
