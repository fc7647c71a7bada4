package webhooks

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// signing reads with what callbacks are signed. The account's first key is made with the change.
func (w *webhookForm) signing() {
	if signing, ok := web.ReadChoice(w.Form, "signing", domain.Signings()); ok {
		w.Add(func(hook *domain.Webhook) { hook.Signing = signing })
	}
}
