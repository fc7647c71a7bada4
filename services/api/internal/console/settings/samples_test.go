package settings

import (
	"testing"
	"time"

	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/accounts"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	at := time.Date(2026, time.November, 18, 15, 2, 11, 0, time.UTC)
	own := session{"csess_1", "192.0.2.7", "Mozilla/5.0 <b>\u202e", at, at, at.Add(time.Hour), true}
	return map[string][]any{"settings.html": {
		view{},
		view{Who: accounts.Caller{Sub: "parcels/shop", Account: "default"}, KeyID: "key_1", Person: "a@example.com", Session: own, Sessions: []session{own, {ID: "csess_2"}},
			Scopes: []scope{{"admin", true, "everything"}, {"mcp:use", false, "use MCP servers"}}},
	}}
}
