package rejected

import (
	"net/url"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/rejected"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	hostile := "<script>alert(1)</script>\u202e\u0007"
	m := rejected.Message{Subject: "waybill.events.default." + hostile, Time: new("2026-11-18T15:02:11.000Z"), Reason: hostile + strings.Repeat("long ", 90), Body: `{"a":"` + hostile + `"}`, BodyEncoding: "text"}
	wrong := console.NewForm(url.Values{"event": {console.Editable(m.Body)}})
	wrong.Problem = &console.Problem{Status: 400, Title: "Invalid input", Detail: hostile, Faults: []console.Fault{{Pointer: "/data/shipmentId", Detail: hostile}, {Pointer: "/event", Detail: "x"}}}
	return map[string][]any{
		"list.html": {listView{}, listView{Later: true}, listView{Rows: []row{{m, m.Body, root + "/message?time=x"}, {rejected.Message{BodyEncoding: "base64"}, "AAEC", root}}, Paging: console.Paging{Older: root}}},
		"message.html": {
			&messageView{Form: console.NewForm(nil)}, &messageView{Message: &m, Form: wrong, MaySend: true, Action: root + "/message"},
			&messageView{Message: &rejected.Message{Body: "AAEC", BodyEncoding: "base64"}, Form: console.NewForm(nil)},
		},
	}
}
