package home

import (
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/kernel/web"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	now := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	hour := now.Truncate(time.Hour)
	rows := []insight.Row{
		{Start: web.Stamp(hour), Events: new(int64(120)), Attempts: 240, Succeeded: 200, Failed: 40, LatencyMs: &receivers.Latency{P50: 12, P95: 80.5, P99: 1400}, WebhookID: "wh_1"},
		{Start: web.Stamp(hour.Add(-5 * time.Hour)), Attempts: 10, Succeeded: 10, WebhookID: "wh_2"},
	}
	at := spans()[1]
	f, bars := reckon(rows, now, &at)
	_, none := reckon(nil, now, &at)
	missing := &console.Problem{Status: http.StatusNotFound, Title: "Not found", NoOperation: true}
	full := view{
		Account: "default", Figures: f, Bars: bars, Spans: spans(), Span: at, Waiting: 7, Over: true, Oldest: &receivers.Oldest{DeliveryID: "dlv_0", AcceptedAt: web.Stamp(hour)},
		Troubles: []trouble{{ID: "wh_1", Name: "https://x.example/<script>\u202e", State: "failing", Word: "failing", Cause: "answers 404", Hour: receivers.Window{Attempts: 7, Failed: 7}, Waiting: 3, Again: "/console/deliveries/send-again?webhookId=wh_1"}, {ID: "wh_2", State: "inactive"}},
		Ends:     2, FirstEnd: web.Stamp(now),
		Failed:  []failure{{deliveries.Delivery{ID: "dlv_1", EventID: "evt_1", EventType: "shipment.delivered", WebhookID: "wh_1", Status: "failed", Reason: new("scheduleExhausted"), UpdatedAt: web.Stamp(now)}, "<script>\u202e"}},
		MayMake: true, MayPublish: true, Types: []console.Option{{Value: "shipment.created", Label: "shipment.created"}}, Deliveries: true, NewWebhook: true, Events: true,
	}
	first := view{Account: "default", Bars: none, First: true, MayPublish: true, MayMake: true, NewWebhook: true}
	half := first
	half.HasWebhook, half.HasEvent, half.NoFigures, half.NoFailed = true, true, missing, &console.Problem{Status: http.StatusForbidden, Scope: "events:read"}
	known := view{HasWebhook: true, Quiet: 2}
	return map[string][]any{"home.html": {view{}, known, first, half, full}, "find.html": {findView{}, findView{Text: "<script>"}, findView{Text: "x", Hits: []console.Hit{{Label: "<script>\u202e", More: "<b>", Path: "/console/x", Icon: "webhooks"}}, More: true}}}
}
