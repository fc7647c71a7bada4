package domains

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
	const at = "2026-11-18T12:30:00.000Z"
	hostile := "<script>\u202e\u0007"
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"hostname": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/hostname", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	stamp := at
	waits := item{Hostname: hostile, Status: "pending", Errors: []string{hostile}, CNAME: &hostile, NextCheckOn: &stamp, CreatedOn: at}
	waits.Record.Name, waits.Record.Type, waits.Record.Value = hostile, "TXT", hostile
	waits.Certificate.Status, waits.Certificate.Error = "failed", &hostile
	served := item{Hostname: "api.example.com", Status: "active", CreatedOn: at}
	served.Deployments = append(served.Deployments, struct {
		Name *string `json:"deploymentName"`
	}{&hostile})
	passes, gone := item{Hostname: hostile, Status: "pending", NoticeUntil: &stamp, CreatedOn: at}, item{Hostname: hostile, Status: "pending", LostOn: &stamp, CreatedOn: at}
	contested := item{Hostname: hostile, Status: "active", Errors: []string{hostile}, NoticeUntil: &stamp, ProvenOn: &stamp, CreatedOn: at}
	served.ProvenOn = &stamp
	uploaded := "uploaded"
	served.Certificate.Status, served.Certificate.Source, served.Certificate.ValidTo = "active", &uploaded, &stamp
	return map[string][]any{"list.html": {listView{Form: empty}, listView{[]item{waits, served, passes, gone, contested}, wrong, true}}}
}
