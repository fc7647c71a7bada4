package deliveries

import (
	"net/http"
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/services/api/internal/families/jobs"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>alert(1)</script>\u202e\x1b"
	accepted, next, location, hidden := "2026-11-18T15:02:11.000Z", "2026-11-18T15:12:11.000Z", "https://login.example/?a=<b>", deliveries.Header{Name: "Set-Cookie"}
	d := deliveries.Delivery{
		ID: "02Qk7xT3mVb9LwR1nYc5Zd", WebhookID: "0198e5c2-0000-7000-8000-000000000001", EventID: "evt_1", EventType: hostile, Status: "retrying",
		AttemptCount: 2, NextAttemptAt: &next, Reason: new("circuitOpen"), Class: "http_3xx", StatusCode: 302, Test: true, CreatedAt: &accepted, UpdatedAt: &next,
	}
	first := deliveries.Attempt{
		Number: 1, StartedAt: new("2026-11-18T15:02:11.100Z"), DurationMs: 80, Status: 302, Class: "http_3xx", ResponseBody: "<form>login" + hostile + "\nsecond", Truncated: true, URL: "https://x.example/hooks?a=b",
		RequestHeaders:  []deliveries.Header{{Name: "webhook-id", Value: new("evt_1")}, {Name: "webhook-timestamp", Value: new("1768469400")}, {Name: "webhook-signature", Value: new("v1,a=")}, {Name: "X-Own"}},
		ResponseHeaders: []deliveries.Header{{Name: "Location", Value: &location}, {Name: "Content-Type", Value: new("text/html")}, {Name: "Date", Value: new("Wed, 18 Nov 2026 14:00:00 GMT")}, hidden},
		Phases:          deliveries.Phases{DNS: 2, Connect: 20, TLS: 21, FirstByte: 30, Body: 1}, RemoteAddress: "192.0.2.1:443",
	}
	second := deliveries.Attempt{Number: 2, StartedAt: new("2026-11-18T15:02:16.900Z"), DurationMs: 15000, Class: "timeout", Error: "no answer in time"}
	third := deliveries.Attempt{Number: 3, StartedAt: new("2026-11-18T15:12:16.900Z"), DurationMs: 12, Status: 200, Class: "ok", ResponseBody: `{"ok":true}`}
	full := &deliveryView{
		EventID: d.EventID, WebhookID: d.WebhookID, D: &deliveries.Detail{Delivery: d, Attempts: []deliveries.Attempt{first, second, third}}, Title: hostile, MayRetry: true, HasPages: pages{true, true}, Earlier: 1,
		Webhook: explanations.WebhookFacts{ID: d.WebhookID, URL: "https://x.example/" + hostile, TimeoutSeconds: 15, RetryScheduleSeconds: []float64{5, 300}},
		Event:   &event{Event: deliverylog.Event{Type: "shipment.delivered", Source: "nats", ReceivedAt: accepted, Timestamp: accepted}, ShipmentID: hostile, Size: 40, Body: `{"id":"evt_1","data":{"a":"` + hostile + `"}}`, Cut: true},
		Verdict: verdict{"circuit open", "warn", hostile, []string{hostile}, "The next probe", &next, actWebhook},
	}
	e := &explanations.Explanation{Chain: []explanations.Check{{Check: "event", Result: "passed", Detail: "it was accepted"}, {Check: "subscription", Result: "passed", Detail: hostile}, {Check: "attempts", Result: "failed", Detail: ""}, {Check: "circuit", Result: "waiting", Detail: "open", Answer: hostile}}}
	full.Steps = full.timeline(e, &open{attempt: attempt{first}, HasBefore: true, Diff: compare("attempt 0", attempt{second}, attempt{first})})
	again := *full
	again.Earlier = 0
	again.Steps = again.timeline(e, &open{attempt: attempt{third}, With: "success", NoSuccess: true})
	none := &deliveryView{EventID: "evt_1", WebhookID: d.WebhookID, Verdict: verdict{Word: "not subscribed", Summary: "It is not registered.", Advice: []string{"Add the type."}, Act: actWebhook}}
	none.Steps = none.timeline(&explanations.Explanation{Chain: []explanations.Check{{Check: "event", Result: "passed", Detail: "accepted"}, {Check: "subscription", Result: "stopped", Detail: hostile}}}, nil)
	unknown := &deliveryView{D: &deliveries.Detail{Delivery: deliveries.Delivery{ID: "x", Status: "pending"}}, Unexplained: &console.Problem{NoOperation: true}, MayRetry: true}
	unknown.Steps = unknown.timeline(&explanations.Explanation{}, nil)

	rows := []row{{d, "x.example/" + hostile}, {deliveries.Delivery{ID: "y", Status: "delivered"}, ""}}
	wrong := &console.Form{Values: url.Values{"since": {hostile}}, Problem: &console.Problem{Status: http.StatusBadRequest, Title: "Invalid", Detail: hostile, Faults: []console.Fault{{Parameter: "since", Detail: hostile}}}}
	form := console.NewForm(url.Values{"status": {"failed"}, "webhookId": {hostile}})
	query := form.Values
	p := previewView{Form: form, All: query, Keep: query, Back: listPath, Command: "waybill " + hostile, Facts: deliverylog.Describe(query.Get, nil), Plan: deliverylog.Plan{Plan: jobs.Plan{Matched: 1234, More: true, Oldest: &next, AlreadyDelivered: 3, EstimatedSeconds: 61}}}
	bad := p
	bad.Form = wrong
	return map[string][]any{
		"delivery.html": {unknown, none, full, &again},
		"list.html": {
			listView{Form: console.NewForm(nil), Empty: empty(nil)}, listView{Form: wrong, Empty: empty(wrong.Values), Filtered: true},
			listView{
				Form: form, Filtered: true, More: true, Rows: rows, MayRetry: true, Jobs: true, Find: true, Again: againPath, Webhooks: deliverylog.Webhooks{}.Options(hostile), Types: console.Choices("any", "a"), Classes: classOptions(),
				Reasons: reasonOptions(), Tabs: statusTabs(query), Range: console.Range{Since: "since", Until: "until", Spans: []console.Tab{{Label: "1 hour", Path: "?a=" + hostile, Current: true}}}, Paging: console.Paging{Newer: "?a", Older: "?b"}, Here: "/console/deliveries?a=" + hostile,
			},
		},
		"again.html":  {previewView{Form: console.NewForm(nil), Back: listPath}, p, bad},
		"chosen.html": {chosenView{Back: listPath}, chosenView{Rows: rows, IDs: []string{"x"}, Delivered: 1, InFlight: 1, Back: "/console/deliveries?a=b"}},
	}
}
