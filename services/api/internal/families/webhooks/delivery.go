package webhooks

import (
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// delivery reads the field of this name. With push, Waybill posts events to the url. With pull, the
// receiver reads the feed; then the url may be left out or null.
func (w *webhookForm) delivery() {
	if mode, ok := web.ReadChoice(w.Form, "delivery", domain.DeliveryModes()); ok {
		w.pull = mode == domain.DeliveryPull
		w.Add(func(hook *domain.Webhook) { hook.Delivery = mode })
	}
}

// reachable refuses a push webhook without a url.
func reachable(hook *domain.Webhook) error {
	if hook.URL != "" || hook.Delivery == domain.DeliveryPull {
		return nil
	}
	return problem.Invalid(problem.Fault{Pointer: "/url", Detail: "is required, unless delivery is pull"})
}

// shownURL returns null for an empty url.
func shownURL(url string) *string {
	if url == "" {
		return nil
	}
	return &url
}
