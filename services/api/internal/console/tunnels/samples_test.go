package tunnels

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/tunnels"
	"waybill.dev/shared/domain"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\u0007"
	at := new("2026-11-18T12:30:00.000Z")
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"name": {"<script>"}, "document": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/name", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	one := tunnel{tunnels.Tunnel{TunnelID: hostile, Name: hostile, Token: hostile, Status: "up", Connections: []tunnels.Connection{{Process: hostile, AgentVersion: hostile, ConnectedOn: at}}, CreatedOn: at}}
	behind := domain.TunnelService{Name: hostile, Endpoint: hostile, Configurations: []domain.TunnelAccess{{Project: hostile, AccessibleBy: []string{hostile, "preview"}}}}
	return map[string][]any{
		"list.html":   {listView{Form: empty}, listView{[]item{{tunnels.Item{ID: hostile, Name: hostile, Status: "up", Connections: 2, CreatedOn: at}}, {tunnels.Item{ID: "b", Name: "b", Status: "inactive", CreatedOn: at}}}, wrong, true}},
		"tunnel.html": {tunnelView{Form: empty}, tunnelView{one, []domain.TunnelService{behind}, wrong, true}},
		"token.html":  {tunnel{}, one},
	}
}
