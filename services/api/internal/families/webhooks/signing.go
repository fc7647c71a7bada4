package webhooks

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// signing reads the signature version of callbacks. The change makes the account's first key.
func (w *webhookForm) signing() {
	if signing, ok := web.ReadChoice(w.Form, "signing", domain.Signings()); ok {
		w.Add(func(hook *domain.Webhook) { hook.Signing = signing })
	}
}
