package certificates

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/clientcas"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	const hostile = "<script>\u202e\u0007"
	stamp := new("2026-11-18T12:30:00.000Z")
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"name": {"<script>"}, "certificate": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/name", Detail: hostile}, {Pointer: "/certificate", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	one := ca{clientcas.CA{ID: hostile, Name: hostile, SHA256Fingerprint: hostile, CreatedOn: stamp, CertificateInfo: clientcas.Info{Subject: hostile, Issuer: hostile, SerialNumber: hostile, ValidFrom: stamp, ValidTo: stamp}}, true}
	return map[string][]any{
		"list.html":        {listView{Form: empty}, listView{[]ca{one, {CA: clientcas.CA{ID: "b", Name: "b", CreatedOn: stamp}}}, wrong, true}},
		"certificate.html": {certificateView{Form: empty}, certificateView{one, wrong, true}},
	}
}
