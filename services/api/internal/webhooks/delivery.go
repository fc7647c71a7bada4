package webhooks

import (
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// delivery reads who begins, Waybill or the receiver.
func (w *webhookForm) delivery() {
	if mode, ok := web.ReadChoice(w.Form, "delivery", domain.DeliveryModes()); ok {
		w.pull = mode == domain.DeliveryPull
		w.Add(func(hook *domain.Webhook) { hook.Delivery = mode })
	}
}

// reachable refuses a webhook that events are to be posted to, but nobody knows where.
func reachable(hook *domain.Webhook) error {
	if hook.URL != "" || hook.Delivery == domain.DeliveryPull {
		return nil
	}
	return problem.Invalid(problem.Fault{Pointer: "/url", Detail: "is required, unless delivery is pull"})
}

// shownURL is null where there is none.
func shownURL(url string) *string {
	if url == "" {
		return nil
	}
	return &url
}
