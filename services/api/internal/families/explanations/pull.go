package explanations

import (
	"strings"

	"waybill.dev/shared/domain"
)

// pull explains why nothing is sent to a receiver that reads the events itself.
func (e *Explanation) pull(f facts) {
	if f.webhook != nil && f.webhook.delivery != domain.DeliveryPull {
		e.step(checkActive, stopped, "the webhook was read by pull when the event was due to it")
		e.conclude(pull, "The webhook was read by pull, so the event was not sent. It is in the webhook's feed.",
			"Read the webhook's feed, or retry the delivery.")
		return
	}
	const advice = "Read the webhook's feed: GET /v1/webhooks/{id}/feed."
	switch {
	case len(f.readBy) > 0:
		e.step(checkActive, passed, "the webhook is read by pull; the receiver's cursor %s is beyond the event", strings.Join(f.readBy, ", "))
		e.conclude(pull, "The webhook is read by pull: nothing is sent. The receiver has read the event: a cursor that it has named is beyond it.")
	case f.delivery == nil:
		e.step(checkActive, waiting, "the webhook is read by pull; no cursor that the receiver has named is beyond the event")
		e.conclude(pull, "The webhook is read by pull: nothing is sent. The event is in its feed. No cursor that the receiver has named is beyond it, so it was not read, or the receiver keeps its cursor to itself.", advice)
	default:
		e.step(checkActive, stopped, "the webhook is read by pull since before it was delivered")
		e.conclude(pull, "The webhook is read by pull now, and what was undelivered then has ended. The event is in the webhook's feed.", advice)
	}
}
