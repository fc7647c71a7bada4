package deliveries

import (
	"net/http"
	"net/url"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>alert(1)</script>\u202e\x1b"
	next, location, hidden := "2026-11-18T15:12:11.000Z", "https://login.example/?a=<b>", header{Name: "Set-Cookie"}
	d := deliverylog.Delivery{
		ID: "02Qk7xT3mVb9LwR1nYc5Zd", WebhookID: "0198e5c2-0000-7000-8000-000000000001", EventID: "evt_1", EventType: hostile, Status: "retrying",
		AttemptCount: 2, NextAttemptAt: &next, Reason: "circuitOpen", Class: "http_3xx", StatusCode: 302, Test: true, CreatedAt: "2026-11-18T15:02:11.000Z", UpdatedAt: "2026-11-18T15:02:12.000Z",
	}
	first := attempt{
		Number: 1, StartedAt: "2026-11-18T15:02:11.100Z", DurationMs: 80, Status: 302, Class: "http_3xx", ResponseBody: "<form>login" + hostile + "\nsecond", Truncated: true, URL: "https://x.example/hooks?a=b",
		RequestHeaders:  []header{{"webhook-id", new("evt_1")}, {"webhook-timestamp", new("1768469400")}, {"webhook-signature", new("v1,a=")}, {Name: "X-Own"}},
		ResponseHeaders: []header{{"Location", &location}, {"Content-Type", new("text/html")}, {"Date", new("Wed, 18 Nov 2026 14:00:00 GMT")}, hidden},
		Phases:          phases{2, 20, 21, 30, 1}, RemoteAddress: "192.0.2.1:443",
	}
	second := attempt{Number: 2, StartedAt: "2026-11-18T15:02:16.900Z", DurationMs: 15000, Class: "timeout", Error: "no answer in time"}
	third := attempt{Number: 3, StartedAt: "2026-11-18T15:12:16.900Z", DurationMs: 12, Status: 200, Class: "ok", ResponseBody: `{"ok":true}`}
	full := &deliveryView{
		EventID: d.EventID, WebhookID: d.WebhookID, D: &detail{d, []attempt{first, second, third}}, Title: hostile, MayRetry: true, HasPages: pages{true, true}, Earlier: 1,
		Webhook: webhook{ID: d.WebhookID, URL: "https://x.example/" + hostile, TimeoutSeconds: 15, RetryScheduleSeconds: []float64{5, 300}},
		Event:   &event{Type: "shipment.delivered", Source: "nats", ReceivedAt: d.CreatedAt, Timestamp: d.CreatedAt, ShipmentID: hostile, Size: 40, Body: `{"id":"evt_1","data":{"a":"` + hostile + `"}}`, Cut: true},
		Verdict: verdict{"circuit open", "warn", hostile, []string{hostile}, "The next probe", next, actWebhook},
	}
	e := &explanation{Chain: []check{{"event", "passed", "it was accepted", ""}, {"subscription", "passed", hostile, ""}, {"attempts", "failed", "", ""}, {"circuit", "waiting", "open", hostile}}}
	full.Steps = full.timeline(e, &open{attempt: first, HasBefore: true, Diff: compare("attempt 0", second, first)})
	again := *full
	again.Earlier = 0
	again.Steps = again.timeline(e, &open{attempt: third, With: "success", NoSuccess: true})
	none := &deliveryView{EventID: "evt_1", WebhookID: d.WebhookID, Verdict: verdict{Word: "not subscribed", Summary: "It is not registered.", Advice: []string{"Add the type."}, Act: actWebhook}}
	none.Steps = none.timeline(&explanation{Chain: []check{{"event", "passed", "accepted", ""}, {"subscription", "stopped", hostile, ""}}}, nil)
	unknown := &deliveryView{D: &detail{Delivery: deliverylog.Delivery{ID: "x", Status: "pending"}}, Unexplained: &console.Problem{NoOperation: true}, MayRetry: true}
	unknown.Steps = unknown.timeline(&explanation{}, nil)

	rows := []row{{d, "x.example/" + hostile}, {deliverylog.Delivery{ID: "y", Status: "delivered"}, ""}}
	wrong := &console.Form{Values: url.Values{"since": {hostile}}, Problem: &console.Problem{Status: http.StatusBadRequest, Title: "Invalid", Detail: hostile, Faults: []console.Fault{{Parameter: "since", Detail: hostile}}}}
	form := console.NewForm(url.Values{"status": {"failed"}, "webhookId": {hostile}})
	query := form.Values
	p := previewView{Form: form, All: query, Keep: query, Back: listPath, Command: "waybill " + hostile, Facts: describe(query, nil), Plan: plan{1234, true, &next, 3, 61}}
	bad := p
	bad.Form = wrong
	return map[string][]any{
		"delivery.html": {unknown, none, full, &again},
		"list.html": {
			listView{Form: console.NewForm(nil), Empty: empty(nil)}, listView{Form: wrong, Empty: empty(wrong.Values), Filtered: true},
			listView{
				Form: form, Filtered: true, More: true, Rows: rows, MayRetry: true, Jobs: true, Find: true, Again: againPath, Webhooks: deliverylog.Webhooks{}.Options(hostile), Types: typeOptions(), Classes: classOptions(),
				Reasons: reasonOptions(), Tabs: statusTabs(query), Quick: spans(query, time.Date(2026, 11, 18, 15, 0, 0, 0, time.UTC)), Paging: console.Paging{Newer: "?a", Older: "?b"}, Here: "/console/deliveries?a=" + hostile,
			},
		},
		"again.html":  {previewView{Form: console.NewForm(nil), Back: listPath}, p, bad},
		"chosen.html": {chosenView{Back: listPath}, chosenView{Rows: rows, IDs: []string{"x"}, Delivered: 1, InFlight: 1, Back: "/console/deliveries?a=b"}},
	}
}
