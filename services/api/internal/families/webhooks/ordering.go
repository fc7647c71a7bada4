package webhooks

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// maxOrderingWait bounds the setting for how long a delivery may wait for the one before it, in
// seconds.
const maxOrderingWait = 604_800

// ordering reads in which order deliveries go out. Null sets a field back.
func (w *webhookForm) ordering() {
	if w.Null("ordering") {
		w.Add(func(hook *domain.Webhook) { hook.Ordering = domain.OrderingNone })
	} else if ordering, ok := web.ReadChoice(w.Form, "ordering", domain.Orderings()); ok {
		w.Add(func(hook *domain.Webhook) { hook.Ordering = ordering })
	}
	if w.Null("orderingMaxWaitSeconds") {
		w.Add(func(hook *domain.Webhook) { hook.OrderingMaxWait = domain.DefaultOrderingMaxWait })
	} else if seconds, ok := w.Number("orderingMaxWaitSeconds", 0, maxOrderingWait); ok {
		w.Add(func(hook *domain.Webhook) { hook.OrderingMaxWait = duration(seconds) })
	}
}
