package webhooks

import (
	"net/http"
	"time"

	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// maxMuted is how long a problem may be muted.
const maxMuted = 90 * 24 * time.Hour

// acknowledge stores that the caller knows of a webhook's problem.
func (h *handlers) acknowledge(c *web.Call) error {
	id, f := web.ID(c, domain.ParseWebhookID), c.OptionalForm()
	now := time.Now().UTC().Truncate(time.Millisecond)
	until, muted := f.Time("mutedUntil")
	if err := c.Check(); err != nil {
		return err
	}
	w, known, err := h.Store.GetWebhook(c.Context(), c.Principal.Account, id)
	if err != nil {
		return err
	}
	if muted && (!until.After(now) || until.After(now.Add(maxMuted))) {
		return problem.Invalid(problem.Fault{Pointer: "/mutedUntil", Detail: "must be in the future, within 90 days"})
	}
	list, err := h.Receivers.List(c.Context(), c.Principal.Account, []domain.Webhook{w}, []domain.Health{known})
	if err != nil {
		return err
	}
	if list[0].Problem == nil {
		return web.Conflict("Nothing is the matter with the webhook: there is no problem to acknowledge.")
	}
	a := domain.Acknowledgement{Cause: list[0].Problem.Cause, By: c.Principal.ID, At: now, MutedUntil: until}
	if err := h.Store.Acknowledge(c.Context(), c.Principal.Account, id, a); err != nil {
		return err
	}
	return c.Answer(http.StatusOK, receivers.ViewAcknowledgement(a))
}

func (h *handlers) reopen(c *web.Call) error {
	id := web.ID(c, domain.ParseWebhookID)
	if err := c.Check(); err != nil {
		return err
	}
	if err := h.Store.Reopen(c.Context(), c.Principal.Account, id); err != nil {
		return err
	}
	return c.NoContent()
}
