package problems

import (
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the template with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\x07"
	sent := []deliverylog.Delivery{
		{ID: "d1", WebhookID: "w1", Status: "failed", Class: "http_5xx", StatusCode: 500, Reason: "scheduleExhausted", CreatedAt: "2026-11-18T15:02:11.000Z", UpdatedAt: "2026-11-18T15:02:12.000Z"},
		{ID: "d2", WebhookID: "w1", Status: "retrying", Class: "http_5xx", StatusCode: 502, CreatedAt: "2026-11-18T15:01:11.000Z", UpdatedAt: "2026-11-18T15:03:12.000Z"},
		{ID: "d3", WebhookID: hostile, Status: "held", Reason: "webhookInactive"},
	}
	rate, since := 0.25, "2026-11-18T15:02:11.000Z"
	hook := troubled{Webhook: deliverylog.Webhook{ID: "w1", URL: "https://x.example/" + hostile}}
	hook.Health.State, hook.Health.Circuit.Since, hook.Health.Held = "circuitOpen", &since, 1620
	hook.Health.Windows = map[string]window{"1h": {Attempts: 40, Failed: 30, SuccessRate: &rate, Classes: map[string]int{"ok": 10, "http_5xx": 28, "timeout": 2}}}
	list := entries([]troubled{hook}, sent, false, deliverylog.Webhooks{})
	list[0].Answer, list[0].Code, list[0].At = hostile, 503, &since
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	ends := endings{More: true, Data: []ending{
		{Kind: domain.ExpiryReceiverCertificate, ExpiresAt: at.Add(5 * 24 * time.Hour), WebhookID: "w1", URL: "https://x.example/" + hostile, Advice: hostile},
		{Kind: domain.ExpiryClientCertificate, ExpiresAt: at.Add(-25 * time.Hour), WebhookID: hostile},
		{Kind: domain.ExpiryWebhookSecret, ExpiresAt: at.Add(time.Minute), WebhookID: "w1"},
		{Kind: domain.ExpirySigningKey, ExpiresAt: at.Add(time.Hour), SigningKeyID: "k1"},
		{Kind: domain.ExpiryAPIKey, ExpiresAt: at, BucketName: hostile, ConsumerName: hostile, KeyID: "key_1"},
	}}
	for i := range ends.Data {
		ends.Data[i].reckon(at)
	}
	away := &console.Problem{Status: http.StatusServiceUnavailable, Title: "Unavailable"}
	return map[string][]any{"problems.html": {view{Checked: at}, view{Checked: at, NoEnds: away}, view{Checked: at, Endings: ends}, view{Endings: ends, Entries: list, Checked: at, Cut: true, More: true, MayRetry: true}}}
}
