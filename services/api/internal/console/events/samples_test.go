package events

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>alert(1)</script>\u202e\x07"
	next := "2026-11-18T15:12:11.000Z"
	e := event{deliverylog.Event{ID: "evt_1", Type: "shipment.created", Timestamp: "2026-11-18T15:02:11Z", Source: "nats", ReceivedAt: "2026-11-18T15:02:11.100Z", Data: jsontext.Value(`{"shipmentId":"شحنة <b>"}`)}}
	later := event{deliverylog.Event{ID: "evt_2", Type: hostile, Timestamp: hostile, ReceivedAt: "2026-11-18T15:03:11.100Z", Data: jsontext.Value(`[]`)}}
	hooks := deliverylog.Webhooks{{Webhook: webhooks.Webhook{ID: "w1", URL: new("https://x.example/" + hostile)}}, {Webhook: webhooks.Webhook{ID: "w2", URL: new("https://y.example/")}}}
	sent := []deliveries.Delivery{
		{ID: "d2", EventID: "evt_2", WebhookID: "w1", EventType: hostile, Status: "delivered", StatusCode: 200, AttemptCount: 1, CreatedAt: &later.ReceivedAt, UpdatedAt: &later.ReceivedAt},
		{ID: "d1", EventID: "evt_1", WebhookID: "w1", EventType: "shipment.created", Status: "retrying", Class: "timeout", NextAttemptAt: &next, AttemptCount: 2, CreatedAt: &e.ReceivedAt, UpdatedAt: &next},
	}
	wrong := &console.Form{Values: url.Values{"data": {console.Editable(`{"a":"<script>\u202e"}`)}}, Problem: &console.Problem{Status: http.StatusBadRequest, Title: "Invalid", Faults: []console.Fault{{Pointer: "/data/shipmentId", Detail: hostile}, {Detail: hostile}}}}
	rows := []row{{e, counts(sent), false}, {later, nil, true}}

	one := eventView{Event: e, Size: 1234, Body: `{"id":"` + hostile + `"}`, Cut: true, Matched: 2, Counts: counts(sent), MayRetry: true, MayPublish: true, More: 3, Again: againPath, Log: "/console/deliveries", Here: "/console/events/evt_1"}
	one.fanOut(sent, hooks)
	one.Fanout = append(one.Fanout, target{Webhook: hooks[1], Why: hostile, Path: "/console/events/evt_1/webhooks/w2"})
	line := shipmentView{ID: hostile, Events: []event{e, later}, MayRetry: true, More: true, Again: againPath}
	line.span(sent)
	line.lanes(sent, hooks)
	forbidden := &console.Problem{Status: http.StatusForbidden, Scope: "webhooks:read"}
	return map[string][]any{
		"list.html": {
			listView{Form: console.NewForm(nil), Empty: empty(nil)}, listView{Form: wrong, Empty: empty(url.Values{"type": {"x"}})},
			listView{Form: console.NewForm(url.Values{"shipmentId": {hostile}}), Shipment: hostile, Rows: rows, Known: true, Filtered: true, Find: true, MayPublish: true, Types: console.Choices("any", domain.WebhookTypes()...), Paging: console.Paging{Older: "?a"}},
		},
		"event.html":    {eventView{Unseen: forbidden}, one},
		"shipment.html": {shipmentView{ID: "x"}, shipmentView{ID: "x", Events: []event{e}, Unread: forbidden}, line},
		"publish.html":  {newPublishView(console.NewForm(nil)), newPublishView(wrong)},
	}
}
