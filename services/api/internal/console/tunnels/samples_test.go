package tunnels

import (
	"net/url"
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
	const (
		hostile = "<script>\u202e\u0007"
		at      = "2026-11-18T12:30:00.000Z"
	)
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"name": {"<script>"}, "document": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/name", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	one := tunnel{hostile, hostile, hostile, "up", []connection{{hostile, hostile, hostile, at}}, at}
	behind := service{Name: hostile, Endpoint: hostile}
	behind.Access = append(behind.Access, struct {
		Project      string   `json:"project"`
		AccessibleBy []string `json:"accessibleBy"`
	}{hostile, []string{hostile, "preview"}})
	return map[string][]any{
		"list.html":   {listView{Form: empty}, listView{[]item{{hostile, hostile, "up", 2, at}, {"b", "b", "inactive", 0, at}}, wrong, true}},
		"tunnel.html": {tunnelView{Form: empty}, tunnelView{one, []service{behind}, wrong, true}},
		"token.html":  {tunnel{}, one},
	}
}
