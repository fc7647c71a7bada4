package explanations

import (
	"fmt"
	"slices"
	"time"

	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// verdict is why an event has, or has not, reached a webhook.
type verdict string

// The verdicts; docs/mcp.md lists them.
const (
	// Verdicts on an event without a delivery.
	noSuchDelivery  verdict = "noSuchDelivery"
	noSuchEvent     verdict = "noSuchEvent"
	noSuchWebhook   verdict = "noSuchWebhook"
	notSubscribed   verdict = "notSubscribed"
	filtered        verdict = "filtered"
	registeredLater verdict = "registeredLater"
	changedLater    verdict = "changedLater"
	testOfAnother   verdict = "testOfAnother"
	aboutItself     verdict = "aboutItself"
	notYet          verdict = "notYet"
	notDispatched   verdict = "notDispatched"
	pull            verdict = "pull" // also for deliveries that ended when the webhook changed to pull

	// Verdicts on a delivery that has not ended.
	pending      verdict = "pending"
	retrying     verdict = "retrying"
	overCapacity verdict = "overCapacity"
	circuitOpen  verdict = "circuitOpen"

	behindShipment verdict = "behindShipment"

	inactive   verdict = "inactive"
	gone       verdict = "gone"
	failing    verdict = "failing"
	quota      verdict = "quota"
	unreadable verdict = "unreadable"
	released   verdict = "released"

	// Verdicts on a delivery that has ended.
	delivered         verdict = "delivered"
	scheduleExhausted verdict = "scheduleExhausted"
	retentionOver     verdict = "retentionOver"
	webhookDeleted    verdict = "webhookDeleted"
	jobCancelled      verdict = "jobCancelled"
	forgeryRefused    verdict = "forgeryRefused"
	forgeryAccepted   verdict = "forgeryAccepted"
)

// result is the result of a check.
type result string

const (
	passed  result = "passed"
	failed  result = "failed" // also an attempt that is followed by another one
	waiting result = "waiting"
	stopped result = "stopped"
)

// Check is one check on the way from the publisher to the receiver.
type Check struct {
	Check  string `json:"check"`
	Result result `json:"result"`
	Detail string `json:"detail"`
	// Clause is the clause of the webhook's filter that the event misses, and Pointer its place in the filter. They
	// are shown only to callers that may see webhooks.
	Clause  string  `json:"clause,omitzero"`
	Pointer *string `json:"pointer,omitzero"`
	// Since is when the circuit opened, and NextProbeAt when the next probe is due. They are shown only to callers
	// that may see webhooks. For a delivery that waits in the order of its shipment, Since is when the wait began,
	// and WaitsFor the delivery that it waits for.
	Since       *string            `json:"since,omitzero"`
	WaitsFor    *domain.DeliveryID `json:"waitsFor,omitzero"`
	NextProbeAt *string            `json:"nextProbeAt,omitzero"`
	// Answer is the receiver's text: foreign data, which is never mixed with Waybill's own words.
	Answer string `json:"answer,omitzero"`
}

// The checks, in the order in which an event passes them.
const (
	checkEvent        = "event"
	checkSubscription = "subscription"
	checkFilter       = "filter"
	checkActive       = "active"
	checkCapacity     = "capacity"
	checkOrder        = "order"
	checkCircuit      = "circuit"
	checkAttempts     = "attempts"
)

// Explanation is the answer to a question.
type Explanation struct {
	Verdict verdict `json:"verdict"`
	Summary string  `json:"summary"`
	// Chain has the checks that the event has reached; the last one says where it is.
	Chain  []Check     `json:"chain"`
	Advice []string    `json:"advice"`
	Event  *EventFacts `json:"event,omitzero"`
	// Webhook is left out for a caller that may not see webhooks.
	Webhook  *WebhookFacts      `json:"webhook,omitzero"`
	Delivery *deliveries.Detail `json:"delivery,omitzero"`
}

func (e *Explanation) step(check string, r result, format string, args ...any) {
	e.Chain = append(e.Chain, Check{Check: check, Result: r, Detail: fmt.Sprintf(format, args...)})
}

func (e *Explanation) conclude(v verdict, summary string, advice ...string) {
	e.Verdict, e.Summary, e.Advice = v, summary, advice
}

// explain draws the conclusion from the facts.
func explain(f facts) Explanation {
	e := Explanation{Chain: []Check{}, Advice: []string{}, Event: f.event, Delivery: f.delivery}
	if f.open {
		e.Webhook = f.webhook
	}
	switch {
	case f.delivery != nil:
		e.ofDelivery(f)
	case f.asked.byID:
		e.conclude(noSuchDelivery, "There is no such delivery in this account.",
			"Search the deliveries for it. They are kept for the server's retention time.")
	case f.event == nil:
		e.step(checkEvent, stopped, "no event with this id is known in this account")
		e.conclude(noSuchEvent, "No event with this id was accepted in this account, or its retention is over.",
			"Make sure that the publisher got the answer 202, with a key of this account.",
			"If it was published on the bus, list the rejected messages. A message that is not a valid event is there, with the reason.",
			"You can publish it now. An id that was never accepted is not a duplicate.")
	case f.webhook == nil:
		e.accepted(f.event)
		e.conclude(noSuchWebhook, "The event was accepted, but there is no such webhook in this account, and there was no delivery to it.",
			"Look for the webhook with listWebhooks; it may have been deleted before the event came.")
	default:
		e.accepted(f.event)
		e.undelivered(f)
	}
	return e
}

func (e *Explanation) accepted(event *EventFacts) {
	e.step(checkEvent, passed, "%s was accepted at %s", event.Type, event.ReceivedAt)
}

// settling is the longest time until an accepted event has its deliveries, with room for a busy machine.
const settling = 10 * time.Second

// undelivered explains why there is no delivery of an event to a webhook.
func (e *Explanation) undelivered(f facts) {
	received := f.event.received
	switch {
	case f.event.Test:
		e.step(checkSubscription, stopped, "it is the sample event of a test, which goes only to the tested webhook")
		e.conclude(testOfAnother, "The event is the sample of a test of another webhook.",
			"To try this webhook, send it a test event.")
	case f.webhook.created.After(received):
		e.step(checkSubscription, stopped, "the webhook was registered%s after that", f.told(" at %s,", f.webhook.CreatedAt))
		e.conclude(registeredLater, "The webhook was registered after the event was accepted. A webhook gets only events that come after its registration.",
			"If the receiver needs this event, publish it again under another id.")
	case !slices.Contains(f.webhook.Events, f.event.Type):
		e.step(checkSubscription, stopped, "the webhook is %s", f.orElse("not registered for "+string(f.event.Type), "registered for %s", list(f.webhook.Events)))
		e.conclude(notSubscribed, "The webhook is not registered for "+string(f.event.Type)+".",
			"To get such events from now on, update the webhook and add the type to its events.",
			"This does not send past events. Publish the event again under another id.")
	case f.missed != nil:
		e.filtered(f)
	case f.webhook.delivery == domain.DeliveryPull:
		e.step(checkSubscription, passed, "the webhook is registered for it")
		e.pull(f)
	case f.event.about == f.webhook.ID:
		e.step(checkSubscription, stopped, "the alert is about this webhook")
		e.conclude(aboutItself, "The alert tells of this webhook, and no webhook gets alerts about itself.",
			"To be told when this receiver fails, register a webhook with another receiver for alerts.")
	case f.now.Sub(received) < settling:
		e.step(checkSubscription, waiting, "the webhook is registered for it")
		e.conclude(notYet, "The event has just been accepted; its delivery shows within some seconds.", "Ask again in a moment.")
	case f.webhook.updated.After(received):
		e.step(checkSubscription, stopped, "the webhook is registered for the type now, and was changed%s after the event", f.told(" at %s,", f.webhook.UpdatedAt))
		e.conclude(changedLater, "The webhook is registered for "+string(f.event.Type)+" now. It was changed after the event was accepted, and there was no delivery. Most likely it was not registered for the type before, or had another filter.",
			"If the receiver needs this event, publish it again under another id.")
	default:
		e.step(checkSubscription, waiting, "the webhook is registered for it, and no dispatcher has taken the event yet")
		e.conclude(notDispatched, "The event was accepted and waits for a dispatcher. It is not lost.",
			"Whoever runs Waybill should check that the dispatchers and the bus run. The metric waybill_oldest_unsettled_seconds shows it.")
	}
}

// filtered explains why the webhook's filter excludes the event. The filter is the present one: earlier ones are not
// kept.
func (e *Explanation) filtered(f facts) {
	e.step(checkSubscription, passed, "the webhook is registered for it")
	later := ""
	if f.webhook.updated.After(f.event.received) {
		later = " The webhook was changed" + f.told(" at %s,", f.webhook.UpdatedAt) + " after the event was accepted; its filter may have been another one then."
	}
	e.step(checkFilter, stopped, "the event does not match the webhook's filter as it is now%s", f.told(": it misses the clause at %q", f.missed.Pointer))
	if f.open {
		s := &e.Chain[len(e.Chain)-1]
		s.Clause, s.Pointer = f.missed.Clause, &f.missed.Pointer
	}
	e.conclude(filtered, "The event does not match the webhook's filter, so there is no delivery of it."+later,
		"To get such events from now on, update the webhook with another filter. Try it on the last events first.",
		"This does not send past events. Publish the event again under another id.")
}

// ofDelivery explains the state of a delivery.
func (e *Explanation) ofDelivery(f facts) {
	d := f.delivery
	e.step(checkEvent, passed, "%s was accepted at %s", d.EventType, web.Value(d.CreatedAt))
	if d.Test {
		e.step(checkSubscription, passed, "a test is sent whatever the webhook is registered for")
	} else {
		e.step(checkSubscription, passed, "the webhook was registered for it")
	}
	switch {
	case d.Status == domain.StatusDelivered && domain.Forged(web.Value(d.Reason)):
		e.attempts(d, passed)
		e.conclude(forgeryAccepted, "It is a test that the receiver should refuse, and it accepted it: "+last(d)+".",
			"Have the receiver verify each callback's signature and time, as the guide for receivers says.")
	case d.Status == domain.StatusDelivered:
		e.attempts(d, passed)
		e.conclude(delivered, "It was delivered: "+last(d)+".")
	case d.Status == domain.StatusFailed:
		e.failed(f)
	case f.webhook == nil:
		e.deleted()
	case f.webhook.Fault != "":
		e.unreadable(f)
	case !f.webhook.Active && !d.Test:
		e.disabled(f)
	case d.Status == domain.StatusHeld:
		e.step(checkActive, passed, "the webhook is active again")
		e.step(checkCapacity, waiting, "held deliveries go out in order, the first 100 one at a time")
		e.conclude(released, "It was held while the webhook was inactive. The webhook is active again, and the delivery goes out in its turn.",
			"Nothing has to be done.")
	default:
		e.open(f)
	}
}

func (e *Explanation) deleted() {
	e.step(checkActive, stopped, "the webhook was deleted")
	e.conclude(webhookDeleted, "The webhook was deleted before the event reached it.",
		"If the receiver still needs the event, register the webhook again and publish the event under another id.")
}

// unreadable explains a delivery that waits because Waybill can't read the webhook.
func (e *Explanation) unreadable(f facts) {
	e.attemptsSoFar(f.delivery)
	fault := f.told(": %s", f.webhook.Fault)
	e.step(checkActive, stopped, "the webhook can't be read%s", fault)
	e.conclude(unreadable, "Waybill can't read the webhook"+fault+". Its deliveries are held until the webhook can be read or the retention ends.",
		"Whoever runs Waybill should add the encryption key under which the webhook was stored to the present one. Then the held deliveries go out.",
		"If that key is lost, delete the webhook and register it again.")
}

// disabled explains a delivery that waits because the webhook is inactive.
func (e *Explanation) disabled(f facts) {
	d, again := f.delivery, "Update the webhook with \"active\": true; then the held deliveries go out in order."
	switch *f.webhook.DisabledReason {
	case domain.DisabledGone:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the webhook is inactive: its receiver answered 410 (Gone)")
		e.conclude(gone, "The receiver answered 410, which means that it wants no more events. So the webhook became inactive, and its deliveries are held.",
			"Ask whoever runs the receiver whether that was intended. If the receiver moved, change the webhook's url.", again)
	case domain.DisabledFailing:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the webhook is inactive: its receiver failed for days")
		e.conclude(failing, "The receiver failed for so long that the webhook became inactive. Its deliveries are held.",
			"Find out why the receiver fails: "+hint(f), again)
	case domain.DisabledQuota:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the webhook is inactive: the quota of deliveries is used up")
		e.conclude(quota, "The plan of the webhook's consumer allows no more deliveries in this period. Its deliveries are held.",
			"Wait for the next period: then the held deliveries go out in order.", "Or give the consumer a plan that allows more: then they go out at once.")
	default:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the webhook is inactive: its owner switched it off")
		e.conclude(inactive, "The webhook's owner switched it off. Its deliveries are held until it is active again or the retention ends.", again)
	}
}

// failed explains a delivery that was given up.
func (e *Explanation) failed(f facts) {
	d := f.delivery
	retry := "When the receiver works again, retry the delivery. For many deliveries at once, replay the webhook."
	switch web.Value(d.Reason) {
	case domain.ReasonWebhookDeleted:
		e.deleted()
	case domain.ReasonPull:
		e.attemptsSoFar(d)
		e.pull(f)
	case domain.ReasonCancelled:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the job that asked for it was cancelled before an attempt")
		e.conclude(jobCancelled, "A job was to send it again. The job was cancelled before an attempt.", "If the receiver still needs the event, retry the delivery.")
	case domain.ReasonWrongSecret, domain.ReasonOldTime:
		e.attempts(d, passed)
		e.conclude(forgeryRefused, "It is a test that the receiver should refuse, and it did; "+last(d)+".", "Nothing has to be done.")
	case domain.ReasonRetention:
		e.attemptsSoFar(d)
		e.step(checkActive, stopped, "the retention ended before it could be delivered")
		e.conclude(retentionOver, "It could not be delivered before the server's retention ended.",
			"If the receiver still needs the event, publish it again under another id.")
	default:
		if len(d.Attempts) == 0 {
			e.circuitStep(f, stopped, "the webhook's circuit was open until the retry schedule ended")
			e.conclude(scheduleExhausted, "Its retry schedule ended while the webhook's circuit was open, so it was never sent. The receiver had failed so often that only probes were sent.",
				"Find out why the receiver fails: "+hint(f), retry)
			return
		}
		e.attempts(d, stopped)
		e.conclude(scheduleExhausted, fmt.Sprintf("%s; %s.", spent(f), last(d)), hint(f), retry)
	}
}

// open explains a delivery on its way to an active webhook.
func (e *Explanation) open(f facts) {
	d := f.delivery
	if f.webhook.Active {
		e.step(checkActive, passed, "the webhook is active")
	} else {
		e.step(checkActive, passed, "the webhook is inactive, but a test is sent all the same")
	}
	reason := web.Value(d.Reason)
	if reason == domain.ReasonOverCap && f.circuit.OpenSince.IsZero() {
		e.step(checkCapacity, waiting, "%s", capacity(f))
		e.attemptsSoFar(d)
		e.conclude(overCapacity, "More deliveries are due to the webhook than it takes"+f.told(": %s", capacity(f))+". The delivery waits in the webhook's hold queue.",
			"Nothing has to be done. It goes out when there is room.",
			"If the receiver can take more, update the webhook with a higher maxInFlight or ratePerSecond.")
		return
	}
	e.step(checkCapacity, passed, "%s", capacity(f))
	if reason == domain.ReasonBehindShipment {
		e.behind(f)
		return
	}
	// Deliveries held for capacity before the circuit opened wait for the circuit, too.
	if e.circuit(f, reason == domain.ReasonCircuitOpen || reason == domain.ReasonOverCap) {
		return
	}
	if d.Status == domain.StatusRetrying {
		e.attempts(d, waiting)
		next := "soon"
		if d.NextAttemptAt != nil {
			next = "at " + *d.NextAttemptAt
		}
		e.conclude(retrying, fmt.Sprintf("All attempts so far failed. It is tried again %s; %s.", next, last(d)), hint(f),
			"To try at once, retry the delivery. Its schedule then starts again.")
		return
	}
	e.attempts(d, waiting)
	if len(d.Attempts) > 0 {
		e.conclude(pending, "Another attempt was asked for and has not ended yet. Before that, "+last(d)+".", "Ask again in a moment.")
		return
	}
	e.conclude(pending, "Its first attempt is in flight or about to start."+f.told(" The receiver has %v s to answer.", f.webhook.TimeoutSeconds), "Ask again in a moment.")
}

// circuitStep adds the check of the circuit, with the receiver's last answer.
func (e *Explanation) circuitStep(f facts, r result, detail string) {
	s := Check{Check: checkCircuit, Result: r, Detail: detail}
	if last := f.circuit.Last; last != nil {
		s.Detail += "; " + answered(last)
		s.Answer = beginning(last.Body)
	}
	e.Chain = append(e.Chain, s)
}

// circuit explains a delivery that the webhook's circuit holds back: retries while it is open, and deliveries in the
// hold queue until that is empty.
func (e *Explanation) circuit(f facts, kept bool) (explained bool) {
	d, open := f.delivery, !f.circuit.OpenSince.IsZero()
	switch {
	case open && (kept || d.Status == domain.StatusRetrying):
		e.attemptsSoFar(d)
		e.circuitStep(f, waiting, "open: the receiver failed at least 20 times in a row; probes are sent one at a time, 5 s to 5 min apart")
		if f.open {
			s := &e.Chain[len(e.Chain)-1]
			s.Since, s.NextProbeAt = web.Stamp(f.circuit.OpenSince), web.Stamp(f.circuit.NextProbeAt)
		}
		e.conclude(circuitOpen, "The webhook's circuit is open: its receiver failed so often that only probes are sent. When a probe succeeds, the waiting deliveries go out. Until then their retry schedules go on.",
			"Find out why the receiver fails: "+hint(f), "Nothing has to be done in Waybill. The next probe that succeeds closes the circuit.")
		return true
	case kept:
		e.attemptsSoFar(d)
		e.step(checkCircuit, waiting, "closed again: what waited for it goes out in order, at a rising rate")
		e.conclude(released, "It waited for the webhook's circuit, which is closed again. The delivery goes out in its turn.", "Nothing has to be done.")
		return true
	}
	if open {
		e.step(checkCircuit, passed, "open, but this delivery does not wait for it")
	} else {
		e.step(checkCircuit, passed, "closed")
	}
	return false
}
