package catalogue

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/console/deliverylog"
	"waybill.dev/services/api/internal/families/webhooks"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	hostile := "<script>alert(1)</script>\u202e"
	missing := &console.Problem{Status: http.StatusNotFound, NoOperation: true}
	v := &volume{Events: 214, Attempts: 300, Failed: 3, Line: console.Line{Label: "x", Values: make([]float64, deliverylog.Hours)}}
	r := &registered{Webhooks: deliverylog.Webhooks{{Webhook: webhooks.Webhook{ID: "w", URL: new("https://x.example/" + hostile + strings.Repeat("long", 50)), Active: true}}, {Webhook: webhooks.Webhook{ID: "v"}}}, More: true}
	wrong := console.NewForm(url.Values{"event": {"<b>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: "Invalid input", Detail: hostile, Faults: []console.Fault{{Pointer: "/data/shipmentId", Detail: hostile}, {Pointer: "/event", Detail: "x"}}}
	full := line{"shipment.created", hostile, v, r}
	return map[string][]any{
		"list.html": {listView{}, listView{Lines: []line{{Name: "shipment.created"}}, NoVolume: missing, NoWebhooks: missing}, listView{Lines: []line{full}}},
		"type.html": {
			&typeView{line: line{Name: "shipment.created"}, Form: console.NewForm(nil), NoVolume: missing, NoWebhooks: missing},
			&typeView{line: line{Name: "shipment.created", Volume: v, Registered: &registered{}}, Form: console.NewForm(nil)},
			&typeView{line: full, Fields: []field{{Name: "shipmentId", Type: "string", Required: true, Text: hostile, Members: []string{hostile}}}, Schema: `{"a":1}`, Sample: `{}`, Code: []code{{"Go", hostile}}, Form: wrong, MaySend: true, Links: true},
		},
	}
}
