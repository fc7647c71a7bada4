package api_test

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
)

// A search finds things by their names and addresses, and what can be done to them, of the session's account and with
// its rights alone.
func TestConsoleFind(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, reader := r.holder(r.bucket("shops"), "acme-reader", domain.ScopeWebhooksRead, domain.ScopeEventsRead)
		hook := r.register(`{"url":"http://127.0.0.1:1/invoices","events":["shipment.created"],"description":"Billing desk\u202e"}`).text("id")
		r.insist(http.MethodPost, "/v1/events", `{"id":"evt_found","type":"shipment.created","timestamp":"2026-11-18T15:02:11Z","data":{"shipmentId":"shp_found"}}`).want(http.StatusAccepted)
		admin, own, stranger := r.browser().signIn(adminKey), r.browser().signIn(reader), r.browser().signIn(r.secondAccount("elsewhere"))
		r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
		built, _, _ := strings.Cut(admin.upload("shop", "feature/find", []byte("PK\x03\x04")).header.Get("Location"), "/builds/")
		at := "/console/webhooks/" + hook
		for _, c := range []struct {
			words, leads string
			reader       bool // the reader finds it, too
		}{
			{"billing DESK", at, true},
			{"127.0.0.1:1/inv", at, true},
			{"rotate secret of billing", at + "/secret", false},
			{"test billing", at + "/test", false},
			{"pause billing", at + "/pause", false},
			{"acme-read", "/console/access/buckets/shops" + strings.TrimPrefix(consumer, "/v1/accounts/default/key-buckets/shops"), false},
			{"feature/find", built, false},
			{"redeploy feature/find", built + "/deploy", false},
			{"publish", "/console/publish", false},
		} {
			path, link := "/console/find?q="+url.QueryEscape(c.words), `<a href="`+c.leads+`">`
			if p := admin.get(path).want(t, http.StatusOK, ""); !strings.Contains(p.body, link) || strings.Contains(p.body, "\u202e") {
				t.Errorf("%q does not lead to %s:\n%.3000s", c.words, c.leads, p.body)
			}
			if p := own.get(path).want(t, http.StatusOK, ""); strings.Contains(p.body, link) != c.reader {
				t.Errorf("%q leads the reader to %s: %v, want %v", c.words, c.leads, !c.reader, c.reader)
			}
			if p := stranger.get(path).want(t, http.StatusOK, ""); c.words != "publish" && strings.Contains(p.body, link) {
				t.Errorf("%q leads another account to %s", c.words, c.leads)
			}
			admin.get(c.leads).want(t, http.StatusOK, "")
		}
		admin.get("/console/find?q=shp_found").want(t, http.StatusSeeOther, "/console/shipments/shp_found")
		admin.get("/console/find?q="+hook).want(t, http.StatusSeeOther, at)
		stranger.get("/console/find?q=shp_found").want(t, http.StatusOK, "").has(t, "Nothing found")
		stranger.get("/console/find?q="+hook).want(t, http.StatusOK, "").has(t, "Nothing found")
		admin.get("/console/find?q=nothing+of+this").want(t, http.StatusOK, "").has(t, "Nothing found", "/docs/search?q=nothing")
	})
}

// The menu has its groups by name, and a link to each page that the session may see, with an icon of its own. Pages of the
// installation are its operator's.
func TestConsoleMenu(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	menu := func(b *browser) string {
		_, after, _ := strings.Cut(b.get("/console/settings").want(t, http.StatusOK, "").body, `<nav class="nav"`)
		nav, _, _ := strings.Cut(after, "</nav>")
		return nav
	}
	operator, other := menu(r.browser().signIn(adminKey)), menu(r.browser().signIn(r.secondAccount("elsewhere")))
	for _, group := range []string{"Overview", "Delivery", "Gateway", "Account"} {
		if want := `id="nav-` + group + `">` + group + `<`; !strings.Contains(operator, want) || !strings.Contains(other, want) {
			t.Errorf("the menu has no group %s", group)
		}
	}
	for _, path := range []string{"/console/routes", "/console/system", "Installation"} {
		if !strings.Contains(operator, path) || strings.Contains(other, path) {
			t.Errorf("%s: the operator is shown it %v, another account's admin %v", path, strings.Contains(operator, path), strings.Contains(other, path))
		}
	}
	shown := map[string]bool{}
	for _, part := range strings.Split(operator, `href="#i-`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if shown[name] {
			t.Errorf("the icon %s stands for two things", name)
		}
		shown[name] = true
	}
}
