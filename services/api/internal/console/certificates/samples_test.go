package certificates

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
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"name": {"<script>"}, "certificate": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/name", Detail: hostile}, {Pointer: "/certificate", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	one := ca{ID: hostile, Name: hostile, Fingerprint: hostile, CreatedOn: at, Ended: true}
	one.Info.Subject, one.Info.Issuer, one.Info.SerialNumber, one.Info.ValidFrom, one.Info.ValidTo = hostile, hostile, hostile, at, at
	return map[string][]any{
		"list.html":        {listView{Form: empty}, listView{[]ca{one, {ID: "b", Name: "b", CreatedOn: at}}, wrong, true}},
		"certificate.html": {certificateView{Form: empty}, certificateView{one, wrong, true}},
	}
}
