package events

import (
	"cmp"
	"net/url"
	"slices"

	"github.com/go-json-experiment/json"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/shared/domain"
)

type eventView struct {
	Event      event
	Size       int
	Body       string
	Cut        bool
	Fanout     []target
	Matched    int
	Unseen     *console.Problem // why webhooks without a delivery are not shown
	More       int              // webhooks that are not shown
	MayRetry   bool
	MayPublish bool
	Counts     []count
	Again      string
	Log        string
	Here       string
}

// target is a webhook of the account, with the event's delivery there.
type target struct {
	Webhook deliverylog.Webhook
	D       *deliveries.Delivery // nil: there is no delivery
	Why     string               // the reason why there is no delivery; empty: the API was not asked
	Verdict string
	Path    string // path of the explanation
}

const (
	// maxTargets bounds how many webhooks are shown.
	maxTargets = 200
	// maxWhys bounds how many webhooks without a delivery the API is asked about; for the others
	// there is a link to the answer.
	maxWhys = 10
)

func show(p *console.Page) error {
	var raw []byte
	id := p.Param("eventId")
	if err := p.API.Get(console.Path("v1", "events", id), nil, &raw); err != nil {
		return err
	}
	p.CLI("events get " + id)
	var shown struct {
		event

		Deliveries []deliveries.Delivery `json:"deliveries"`
	}
	if err := json.Unmarshal(raw, &shown); err != nil {
		return err
	}
	v := eventView{
		Event: shown.event, MayRetry: p.May(domain.ScopeEventsWrite), MayPublish: p.May(domain.ScopeEventsWrite),
		Matched: len(shown.Deliveries), Counts: counts(shown.Deliveries), Here: p.Request.URL.Path,
		Again: againPath + "?" + url.Values{"eventId": {id}, "status": {"all"}}.Encode(), Log: "/console/deliveries?" + url.Values{"eventId": {id}}.Encode(),
	}
	if body, ok := deliverylog.Body(raw); ok {
		v.Size = len(body)
		v.Body, v.Cut = deliverylog.Cut(string(body))
	}
	hooks, unseen := deliverylog.ReadWebhooks(p)
	v.Unseen = unseen
	v.fanOut(shown.Deliveries, hooks)
	v.explain(p)
	return p.Show("event.html", string(shown.Type), v)
}

// fanOut lists every webhook: those with a delivery first, with failures at the top.
func (v *eventView) fanOut(sent []deliveries.Delivery, hooks deliverylog.Webhooks) {
	worst := worstFirst()
	sent = slices.Clone(sent)
	slices.SortStableFunc(sent, func(a, b deliveries.Delivery) int {
		return cmp.Compare(slices.Index(worst, a.Status), slices.Index(worst, b.Status))
	})
	reached := make(map[domain.WebhookID]bool, len(sent))
	for i, d := range sent {
		reached[d.WebhookID] = true
		v.Fanout = append(v.Fanout, target{Webhook: hooks.Of(d.WebhookID), D: &sent[i], Path: console.Path("console", "deliveries", d.ID)})
	}
	for _, w := range hooks {
		if !reached[w.ID] {
			v.Fanout = append(v.Fanout, target{Webhook: w, Path: console.Path("console", "events", v.Event.ID, "webhooks", string(w.ID))})
		}
	}
	if len(v.Fanout) > maxTargets {
		v.More = len(v.Fanout) - maxTargets
		v.Fanout = v.Fanout[:maxTargets]
	}
}

// explain asks why some webhooks did not get the event.
func (v *eventView) explain(p *console.Page) {
	asked := 0
	for i := range v.Fanout {
		t := &v.Fanout[i]
		if t.D != nil || asked == maxWhys {
			continue
		}
		asked++
		var e explanations.Explanation
		if p.API.Try("/v1/explanations", url.Values{"eventId": {v.Event.ID}, "webhookId": {string(t.Webhook.ID)}}, &e) != nil {
			return
		}
		t.Why, t.Verdict = e.Summary, string(e.Verdict)
	}
}
