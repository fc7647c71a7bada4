package problems

import (
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/expiring"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the template with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\x07"
	rate, since := 0.25, "2026-11-18T15:02:11.000Z"
	sent := []deliveries.Delivery{
		{ID: "d1", WebhookID: "w1", Status: "failed", Class: "http_5xx", StatusCode: 500, Reason: new("scheduleExhausted"), CreatedAt: &since, UpdatedAt: &since},
		{ID: "d2", WebhookID: "w1", Status: "retrying", Class: "http_5xx", StatusCode: 502, CreatedAt: &since, UpdatedAt: &since},
		{ID: "d3", WebhookID: hostile, Status: "held", Reason: new("webhookInactive")},
	}
	hook := webhooks.Webhook{ID: "w1", URL: new("https://x.example/" + hostile), Health: &receivers.Health{
		State: receivers.CircuitOpen, Problem: &receivers.Problem{Cause: "http_5xx", Since: &since}, Circuit: receivers.Circuit{Since: &since}, Held: 1620,
		Windows: map[string]receivers.Window{"1h": {Attempts: 40, Failed: 30, SuccessRate: &rate, Classes: map[domain.Class]int64{"ok": 10, "http_5xx": 28, "timeout": 2}}},
	}}
	list := entries([]webhooks.Webhook{hook}, sent, false, deliverylog.Webhooks{})
	list[0].Answer, list[0].Code, list[0].At = hostile, 503, &since
	list[0].Line = &console.Line{Label: "Failed", Values: []float64{1, 2}}
	known := list[0]
	known.Problem = &receivers.Problem{Cause: "http_5xx", Since: &since, Quiet: true, Acknowledgement: &receivers.Acknowledgement{By: hostile, At: &since}}
	muted := known
	muted.Problem = &receivers.Problem{Quiet: true, Acknowledgement: &receivers.Acknowledgement{By: "bootstrap", At: &since, MutedUntil: &since}}
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	ends := endings{More: true, Data: []ending{
		{Ending: expiring.Ending{Kind: domain.ExpiryReceiverCertificate, ExpiresAt: web.Stamp(at.Add(5 * 24 * time.Hour)), WebhookID: "w1", URL: "https://x.example/" + hostile, Advice: hostile}},
		{Ending: expiring.Ending{Kind: domain.ExpiryClientCertificate, ExpiresAt: web.Stamp(at.Add(-25 * time.Hour)), WebhookID: hostile}},
		{Ending: expiring.Ending{Kind: domain.ExpiryWebhookSecret, ExpiresAt: web.Stamp(at.Add(time.Minute)), WebhookID: "w1"}},
		{Ending: expiring.Ending{Kind: domain.ExpirySigningKey, ExpiresAt: web.Stamp(at.Add(time.Hour)), SigningKeyID: "k1"}},
		{Ending: expiring.Ending{Kind: domain.ExpiryAPIKey, ExpiresAt: web.Stamp(at), BucketName: hostile, ConsumerName: hostile, KeyID: "key_1"}},
	}}
	for i := range ends.Data {
		ends.Data[i].reckon(at)
	}
	away := &console.Problem{Status: http.StatusServiceUnavailable, Title: "Unavailable"}
	return map[string][]any{"problems.html": {view{Checked: at}, view{Checked: at, Quiet: []entry{known}}, view{Checked: at, NoEnds: away}, view{Checked: at, Endings: ends}, view{Endings: ends, Entries: list, Checked: at, Cut: true, More: true, MayRetry: true, MayWrite: true, Quiet: []entry{known, muted}, Spans: muteSpans()}}}
}
