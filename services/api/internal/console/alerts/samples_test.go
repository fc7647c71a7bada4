package alerts

import (
	"slices"
	"testing"

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
	const hostile = "<script>alert(1)</script>\u202e\u0007"
	var a alert
	a.ID, a.Time = "evt_1", "2026-11-18T15:02:11.000Z"
	a.Data.WebhookID, a.Data.Host, a.Data.Class, a.Data.SampleAnswer, a.Data.LeftOut = "w", hostile, hostile, hostile, 7
	a.Deliveries = []deliveries.Delivery{{ID: "d", WebhookID: "w", Status: "delivered"}, {ID: "d", WebhookID: hostile, Status: "retrying"}}
	hooks := deliverylog.Webhooks{{Webhook: webhooks.Webhook{ID: "w", URL: new(hostile), Events: domain.AlertTypes(), Active: true}}, {Webhook: webhooks.Webhook{ID: "v", URL: new(hostile)}}}
	full := view{Known: true, MayMake: true, Types: console.Choices("all", domain.AlertTypes()...), Paging: console.Paging{Older: root}, Receivers: hooks}
	recovered := map[string]string{}
	for _, t := range slices.Backward(domain.AlertTypes()) {
		a.Type = t
		full.Rows = append(full.Rows, newRow(a, hooks, recovered))
	}
	a.Type, a.Deliveries = domain.WebhookFailing, nil
	full.Rows = append(full.Rows, newRow(a, nil, recovered))
	untold := view{Known: true, Types: full.Types}
	for _, r := range full.Rows {
		r.ID, r.Receipts = "", nil
		untold.Rows = append(untold.Rows, r)
	}
	untold.Rows, untold.Untold = nil, untold.Rows
	return map[string][]any{"list.html": {view{Types: console.Choices("all", domain.AlertTypes()...)}, view{Later: true, Known: true}, full, untold}}
}
