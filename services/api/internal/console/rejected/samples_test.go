package rejected

import (
	"net/url"
	"strings"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	hostile := "<script>alert(1)</script>\u202e\u0007"
	m := message{"waybill.events.default." + hostile, "2026-11-18T15:02:11.000Z", hostile + strings.Repeat("long ", 90), `{"a":"` + hostile + `"}`, "text"}
	wrong := console.NewForm(url.Values{"event": {editable(m.Body)}})
	wrong.Problem = &console.Problem{Status: 400, Title: "Invalid input", Detail: hostile, Faults: []console.Fault{{Pointer: "/data/shipmentId", Detail: hostile}, {Pointer: "/event", Detail: "x"}}}
	return map[string][]any{
		"list.html": {listView{}, listView{Later: true}, listView{Rows: []row{{m, m.Body, root + "/message?time=x"}, {message{BodyEncoding: "base64"}, "AAEC", root}}, Paging: console.Paging{Older: root}}},
		"message.html": {
			&messageView{Form: console.NewForm(nil)}, &messageView{Message: &m, Form: wrong, MaySend: true, Action: root + "/message"},
			&messageView{Message: &message{Body: "AAEC", BodyEncoding: "base64"}, Form: console.NewForm(nil)},
		},
	}
}
