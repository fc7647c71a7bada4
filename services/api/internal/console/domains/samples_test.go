package domains

import (
	"net/url"
	"testing"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
	"waybill.dev/services/api/internal/families/domains"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the templates with.
func samples() map[string][]any {
	hostile := "<script>\u202e\u0007"
	empty, wrong := console.NewForm(url.Values{}), console.NewForm(url.Values{"hostname": {"<script>"}})
	wrong.Problem = &console.Problem{Status: 400, Title: hostile, Faults: []console.Fault{{Pointer: "/hostname", Detail: hostile}, {Pointer: "/x", Detail: hostile}}}
	stamp := new("2026-11-18T12:30:00.000Z")
	is := func(hostname, status string, change func(*domains.Domain)) item {
		i := item{domains.Domain{Hostname: hostname}}
		i.Status, i.CreatedOn = status, stamp
		change(&i.Domain)
		return i
	}
	list := []item{
		is(hostile, "pending", func(d *domains.Domain) {
			d.Errors, d.CNAME, d.NextCheckOn, d.OwnershipVerification = []string{hostile}, &hostile, stamp, domains.Record{Name: hostile, Type: "TXT", Value: hostile}
			d.Certificate.Status, d.Certificate.Error = "failed", &hostile
		}),
		is("api.example.com", "active", func(d *domains.Domain) {
			d.Deployments, d.ProvenOn = []domains.Deployment{{DeploymentName: &hostile}}, stamp
			d.Certificate.Status, d.Certificate.Source, d.Certificate.ValidTo = "active", new("uploaded"), stamp
		}),
		is(hostile, "pending", func(d *domains.Domain) { d.NoticeUntil = stamp }), is(hostile, "pending", func(d *domains.Domain) { d.LostOn = stamp }),
		is(hostile, "active", func(d *domains.Domain) { d.Errors, d.NoticeUntil, d.ProvenOn = []string{hostile}, stamp, stamp }),
	}
	return map[string][]any{"list.html": {listView{Form: empty}, listView{list, wrong, true}}}
}
