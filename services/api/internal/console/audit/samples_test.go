package audit

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/shared/store/auditlog"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile, at = "<script>alert(1)</script>\u202e\x00 مرحبا", "2026-11-18T15:02:11Z"
	text, stamp := new(hostile), new(at)
	e := audit.Entry{
		Action: "delete-key", Timestamp: stamp, RequestID: hostile, Error: text, Count: 7, Actor: audit.Actor{Sub: hostile, Type: "consumer", Metadata: &audit.Facts{KeyID: "key_1", Session: "csess_1"}},
		Context: audit.Context{IPAddress: text, UserAgent: text}, Route: audit.Route{URL: text, Method: text},
	}
	done := audit.Entry{Action: "create-bucket", Timestamp: stamp, Success: true, Count: 1}
	return map[string][]any{"audit.html": {
		view{Form: console.NewForm(url.Values{})},
		view{Form: console.NewForm(url.Values{"actor": {"<b>"}}), Filtered: true},
		view{Form: console.NewForm(url.Values{}), Actions: auditlog.Actions(), Total: 2, Paging: console.Paging{Newer: path, Older: path + "?offset=50"}, Lines: []line{
			{e, "delete key", []link{{"key", hostile, "key_1", ""}, {"bucket", "partners", "b_1", "/console/access/buckets/partners"}}}, {done, "create bucket", nil},
		}},
	}}
}
