package deliveries

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

// deliveryView is the data of a delivery's page, or of the page of an event and a webhook without a
// delivery.
type deliveryView struct {
	EventID   string
	WebhookID domain.WebhookID
	D         *deliveries.Detail // nil: there is no delivery
	Title     string
	Webhook   explanations.WebhookFacts // as far as known
	Event     *event                    // nil: not known
	Verdict   verdict
	Steps     []step
	Earlier   int // attempts that are not shown
	MayRetry  bool
	HasPages  pages
	// Unexplained is why there is no verdict.
	Unexplained *console.Problem
}

// Receiver returns the webhook's address without the scheme, or its id.
func (v *deliveryView) Receiver() string {
	if _, rest, found := strings.Cut(v.Webhook.URL, "://"); found {
		return strings.TrimSuffix(rest, "/")
	}
	return string(v.WebhookID)
}

// pages says which pages of other packages exist.
type pages struct{ Shipment, Webhook bool }

// verdict is the answer to "why was this not delivered?".
type verdict struct {
	Word    string
	Tone    string
	Summary string
	Advice  []string
	// NextAt is the time of the next automatic step, Next its description.
	Next   string
	NextAt *string
	// Act is the best thing to do: retry, webhook, or nothing.
	Act string
}

// event is the part of the event that the page shows.
type event struct {
	deliverylog.Event

	ShipmentID string
	Size       int
	Body       string
	Cut        bool
}

const (
	// maxAttempts bounds how many attempts are shown, the latest.
	maxAttempts = 40

	actRetry   = "retry"
	actWebhook = "webhook"
)

func show(p *console.Page) error {
	id := p.Param("deliveryId")
	var d deliveries.Detail
	if err := p.API.Get(console.Path("v1", "deliveries", id), nil, &d); err != nil {
		return err
	}
	p.CLI("deliveries explain " + id)
	var e explanations.Explanation
	unexplained := p.API.Try("/v1/explanations", url.Values{"deliveryId": {id}}, &e)
	v := newView(p, d.EventID, d.WebhookID, &e, unexplained)
	v.D = &d
	v.Title = string(d.EventType)
	v.Event = readEvent(p, d.EventID)
	if v.Webhook.URL == "" && len(d.Attempts) > 0 {
		v.Webhook.URL = d.Attempts[len(d.Attempts)-1].URL
	}
	v.next(p)
	if len(d.Attempts) > maxAttempts {
		v.Earlier = len(d.Attempts) - maxAttempts
	}
	v.Steps = v.timeline(&e, opened(p, &d))
	return p.Show("delivery.html", "Delivery of "+v.Title, v)
}

// pair shows the answer for an event and a webhook: for the delivery between them, if there is one.
func pair(p *console.Page) error {
	eventID, webhookID := p.Param("eventId"), p.Param("webhookId")
	var e explanations.Explanation
	if err := p.API.Get("/v1/explanations", url.Values{"eventId": {eventID}, "webhookId": {webhookID}}, &e); err != nil {
		return err
	}
	if e.Delivery != nil {
		return p.Redirect(console.Path("console", "deliveries", e.Delivery.ID))
	}
	p.CLI("deliveries explain --event " + console.Shell(eventID) + " --webhook " + console.Shell(webhookID))
	v := newView(p, eventID, domain.WebhookID(webhookID), &e, nil)
	v.Title = "No delivery"
	if e.Event != nil {
		v.Event = &event{Event: deliverylog.Event{Type: e.Event.Type, ReceivedAt: e.Event.ReceivedAt}}
	}
	v.Steps = v.timeline(&e, nil)
	return p.Show("delivery.html", "Why there is no delivery", v)
}

func newView(p *console.Page, eventID string, webhookID domain.WebhookID, e *explanations.Explanation, unexplained *console.Problem) *deliveryView {
	v := &deliveryView{
		EventID: eventID, WebhookID: webhookID, MayRetry: p.May(domain.ScopeEventsWrite), Unexplained: unexplained,
		HasPages: pages{p.Has("/console/shipments/{shipmentId}"), p.Has("/console/webhooks/{webhookId}")},
	}
	if e.Webhook != nil {
		v.Webhook = *e.Webhook
	}
	v.Webhook.ID = webhookID
	if unexplained == nil {
		v.Verdict = verdict{Word: verdictWords(e.Verdict), Tone: tone(e.Verdict), Summary: e.Summary, Act: act(e.Verdict)}
		for _, advice := range e.Advice {
			v.Verdict.Advice = append(v.Verdict.Advice, sentence(advice))
		}
	}
	return v
}

// readEvent returns the event; nil: it can't be read.
func readEvent(p *console.Page, id string) *event {
	var raw []byte
	if p.API.Try(console.Path("v1", "events", id), nil, &raw) != nil {
		return nil
	}
	e := &event{}
	if json.Unmarshal(raw, &e.Event) != nil {
		return nil
	}
	e.ShipmentID = e.Shipment()
	if body, ok := deliverylog.Body(raw); ok {
		e.Size = len(body)
		e.Body, e.Cut = deliverylog.Cut(string(body))
	}
	return e
}

// next sets the next automatic step, and its time.
func (v *deliveryView) next(p *console.Page) {
	d := v.D
	if web.Value(d.Reason) == domain.ReasonCircuitOpen && d.Status != domain.StatusFailed {
		var h receivers.Health
		if p.API.Try(console.Path("v1", "webhooks", v.WebhookID, "health"), nil, &h) == nil && h.Circuit.Open && h.Circuit.NextProbeAt != nil {
			v.Verdict.Next, v.Verdict.NextAt = "The next probe of the receiver", h.Circuit.NextProbeAt
			return
		}
	}
	if d.NextAttemptAt != nil && (d.Status == domain.StatusRetrying || d.Status == domain.StatusPending) {
		v.Verdict.Next, v.Verdict.NextAt = "Attempt "+strconv.Itoa(d.AttemptCount+1), d.NextAttemptAt
	}
}

// tone colours a verdict.
func tone[V ~string](verdict V) string {
	switch verdict {
	case "delivered":
		return "good"
	case "scheduleExhausted", "retentionOver", "webhookDeleted", "gone", "unreadable", "noSuchEvent", "noSuchWebhook", "noSuchDelivery", "failing":
		return "bad"
	case "retrying", "circuitOpen", "inactive", "overCapacity", "notDispatched", "behindShipment", "jobCancelled":
		return "warn"
	case "pending", "notYet", "released":
		return "busy"
	}
	return ""
}

// act returns the best action for a verdict.
func act[V ~string](verdict V) string {
	switch verdict {
	case "retrying", "scheduleExhausted", "circuitOpen", "delivered", "jobCancelled":
		return actRetry
	case "inactive", "gone", "failing", "notSubscribed", "changedLater", "overCapacity", "filtered":
		return actWebhook
	}
	return ""
}

// verdictWords splits a verdict's name into words: "schedule exhausted".
func verdictWords[V ~string](name V) string {
	var b strings.Builder
	for i, r := range name {
		if r >= 'A' && r <= 'Z' {
			if i > 0 {
				b.WriteByte(' ')
			}
			r += 'a' - 'A'
		}
		b.WriteRune(r)
	}
	return b.String()
}

// opened returns the attempt whose request and answer are shown: the one in the query, otherwise the
// last.
func opened(p *console.Page, d *deliveries.Detail) *open {
	if len(d.Attempts) == 0 {
		return nil
	}
	i := len(d.Attempts) - 1
	if n, err := strconv.Atoi(p.Query("attempt")); err == nil {
		if found := slices.IndexFunc(d.Attempts, func(a deliveries.Attempt) bool { return a.Number == n }); found >= 0 {
			i = found
		}
	}
	o := &open{attempt: attempt{d.Attempts[i]}, HasBefore: i > 0}
	switch with := p.Query("with"); {
	case with == "success":
		o.With = with
		if base, label := lastSuccess(p, d, i); base != nil {
			o.Diff = compare(label, *base, o.attempt)
		} else {
			o.NoSuccess = true
		}
	case o.HasBefore:
		before := attempt{d.Attempts[i-1]}
		o.Diff = compare("attempt "+strconv.Itoa(before.Number), before, o.attempt)
	}
	return o
}

// open is an attempt with the details that are shown for only one attempt at a time.
type open struct {
	attempt

	With      string // what the attempt is compared with: success, or the one before
	HasBefore bool
	Diff      *difference // nil: there is nothing to compare with
	NoSuccess bool
}

// lastSuccess returns the last attempt that succeeded: of this delivery, otherwise of the webhook.
func lastSuccess(p *console.Page, d *deliveries.Detail, before int) (*attempt, string) {
	for i, kept := range slices.Backward(d.Attempts) {
		if a := (attempt{kept}); i != before && a.good() {
			return &a, "attempt " + strconv.Itoa(a.Number) + ", which succeeded"
		}
	}
	var page deliverylog.Page
	if p.API.Try("/v1/deliveries", url.Values{"webhookId": {string(d.WebhookID)}, "status": {string(domain.StatusDelivered)}, "limit": {"1"}}, &page) != nil || len(page.Data) == 0 {
		return nil, ""
	}
	var other deliveries.Detail
	if p.API.Try(console.Path("v1", "deliveries", page.Data[0].ID), nil, &other) != nil || len(other.Attempts) == 0 {
		return nil, ""
	}
	return &attempt{other.Attempts[len(other.Attempts)-1]}, "the webhook's last success, delivery " + string(other.ID)
}

// retry sends one delivery again.
func retry(p *console.Page) error {
	id := p.Param("deliveryId")
	form, err := p.Form()
	if err != nil {
		return err
	}
	if err := p.API.Send(http.MethodPost, console.Path("v1", "deliveries", id, "retry"), nil, nil); err != nil {
		return err
	}
	back := console.Path("console", "deliveries", id)
	if to := form.Get("back"); within(to) {
		back = to
	}
	return p.Done("The delivery is sent again.", back)
}

// within reports whether a path leads to a page of the console.
func within(path string) bool {
	u, err := url.Parse(path)
	return err == nil && u.Scheme == "" && u.Host == "" && strings.HasPrefix(u.Path, "/console/") && !strings.Contains(u.Path, "..") && !strings.ContainsAny(path, "\\\r\n")
}
