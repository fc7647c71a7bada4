package api_test

import (
	"fmt"
	"html"
	"net/http"
	"net/url"
	"regexp"
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

// A search asks the API a few times, however many projects and buckets there are, and finds what is in each.
func TestConsoleFindAsksLittle(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	for i := range 6 {
		name := fmt.Sprintf("shop-%d", i)
		r.insist(http.MethodPost, "/v1/projects", `{"name":"`+name+`"}`).want(http.StatusCreated)
		b.upload(name, "main", []byte("PK\x03\x04"))
		r.holder(bucketsPath+"/"+name+"-preview", "till-"+name)
	}
	asked := r.asked()
	page := b.get("/console/find?q=shop").want(t, http.StatusOK, "")
	for i := range 6 {
		page.has(t, fmt.Sprintf("till-shop-%d", i), fmt.Sprintf("main of shop-%d", i))
	}
	if n := r.asked() - asked; n == 0 || n > 8 {
		t.Errorf("a search asks the API %d times, want 8 at most", n)
	}
}

// asked returns how often the operations of the API were called.
func (r *rig) asked() (n int) {
	r.t.Helper()
	families, err := r.registry.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, family := range families {
		if family.GetName() != "waybill_http_requests_total" {
			continue
		}
		for _, m := range family.GetMetric() {
			for _, label := range m.GetLabel() {
				if label.GetName() == "route" && strings.HasPrefix(label.GetValue(), "/v1/") {
					n += int(m.GetCounter().GetValue())
				}
			}
		}
	}
	return n
}

// Lists of deployments and of consumers are searched by a text.
func TestSearchInLists(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.project("shop")
		for _, branch := range []string{"main", "feature/Rye", "feature/oats_1"} {
			r.upload(branch)
		}
		bucket := r.bucket("partners")
		r.insist(http.MethodPost, bucket+"/consumers", `{"name":"acme-orders"}`).want(http.StatusCreated)
		r.insist(http.MethodPost, bucket+"/consumers", `{"name":"florist","description":"Flowers of ACME, 100%"}`).want(http.StatusCreated)
		r.insist(http.MethodPost, bucket+"/consumers", `{"name":"bridge","description":"Über die Brücke"}`).want(http.StatusCreated)
		names := func(path, member string, tweaks ...tweak) string {
			var list []string
			for _, one := range r.do(http.MethodGet, path, "", tweaks...).want(http.StatusOK).items("data") {
				list = append(list, fmt.Sprint(one[member]))
			}
			return strings.Join(list, " ")
		}
		const deployments = "/v1/accounts/default/projects/shop/deployments"
		for path, want := range map[string]string{
			deployments + "?q=rye": "feature/Rye", deployments + "?q=FEATURE": "feature/Rye feature/oats_1", deployments + "?q=s_1": "feature/oats_1", deployments + "?q=%25": "",
			deployments + "?q=shop-main&environmentType=production": "main", "/v1/environments?accountName=default&projectName=*": "main feature/Rye feature/oats_1",
		} {
			if got := names(path, "branchName"); got != want {
				t.Errorf("%s: %q, want %q", path, got, want)
			}
		}
		for query, want := range map[string]string{"acme": "acme-orders florist", "florist": "florist", "100%25": "florist", "%C3%9Cber": "bridge", "BR%C3%BCCKE": "bridge", "_": "", "other": ""} {
			if got := names(bucket+"/consumers?q="+query, "name"); got != want {
				t.Errorf("consumers with %s: %q, want %q", query, got, want)
			}
		}
		for _, path := range []string{deployments + "?q=", bucket + "/consumers?q=" + strings.Repeat("x", 129)} {
			r.do(http.MethodGet, path, "").faults("?q")
		}
		with := r.do(http.MethodGet, bucketsPath+"?include-consumers=true&limit=1000", "").want(http.StatusOK).field("limit", 20.0)
		if text := string(with.body); !strings.Contains(text, `"name":"acme-orders"`) || strings.Contains(string(r.do(http.MethodGet, bucketsPath, "").body), "acme-orders") {
			t.Errorf("consumers of buckets, only where they are asked for: %s", text)
		}
		b, stranger := r.browser().signIn(adminKey), as(r.secondAccount("second"))
		b.get("/console/deployments?q=rye").want(t, http.StatusOK, "").has(t, "feature/Rye")
		if page := b.get("/console/deployments?project=shop&q=rye").want(t, http.StatusOK, ""); strings.Contains(page.body, "oats") {
			t.Error("the list shows what does not match")
		}
		b.get("/console/deployments?q=nothing").want(t, http.StatusOK, "").has(t, "No deployment matches")
		if page := b.get("/console/access/buckets/partners?q=flowers").want(t, http.StatusOK, "").has(t, "florist"); strings.Contains(page.body, "acme-orders") {
			t.Error("the list shows what does not match")
		}
		b.get("/console/access/buckets/partners?q=nobody").want(t, http.StatusOK, "").has(t, "No consumer matches")
		if got := names("/v1/environments?accountName=second&projectName=*", "branchName", stranger) + string(r.do(http.MethodGet, "/v1/accounts/second/key-buckets?include-consumers=true", "", stranger).want(http.StatusOK).body); strings.Contains(got, "acme") || strings.Contains(got, "feature") {
			t.Errorf("another account sees %s", got)
		}
		r.do(http.MethodGet, "/v1/environments?accountName=default&projectName=*", "", stranger).want(http.StatusNotFound)
		r.do(http.MethodGet, bucketsPath+"?include-consumers=true", "", stranger).want(http.StatusNotFound)
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

var linked = regexp.MustCompile(`href="(/console[^"]*)"`)

// Every link that somebody is shown may be followed, whatever their rights: from the first page on, two pages of each kind.
func TestConsoleLinksLeadSomewhere(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	callers := w.callers()
	w.things()
	for _, c := range callers {
		from, kinds := map[string]string{"/console": ""}, map[string]int{}
		for queue := []string{"/console"}; len(queue) > 0; queue = queue[1:] {
			p := c.get(queue[0])
			for n := 0; n < mostRefusals && p.status == http.StatusServiceUnavailable; n++ { // a slow machine
				p = c.get(queue[0])
			}
			if p.status != http.StatusOK && p.status != http.StatusSeeOther {
				t.Errorf("%s is shown a link to %s on %s, which answers %d", c.name, queue[0], from[queue[0]], p.status)
				continue
			}
			for _, match := range linked.FindAllStringSubmatch(p.body, -1) {
				path, _, _ := strings.Cut(html.UnescapeString(match[1]), "#")
				kind := identified.ReplaceAllString(path, "*")
				if _, seen := from[path]; seen || kinds[kind] == 2 || strings.HasPrefix(path, "/console/assets/") || strings.HasPrefix(path, "/console/deployments/local/") { // nobody counts its traffic here
					continue
				}
				from[path] = queue[0]
				kinds[kind]++
				queue = append(queue, path)
			}
		}
	}
}

// identified are the parts of a path that are ids, and values of a query.
var identified = regexp.MustCompile(`[0-9A-Za-z_-]*[0-9][0-9A-Za-z_-]{5,}|=[^&]*|shipment\.[a-z_]+`)

// One control chooses a time in every list: a span up to now, or from when to when, in the parameters that the list has.
func TestConsoleRanges(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated)
	built, _, _ := strings.Cut(b.upload("shop", "main", []byte("PK\x03\x04")).header.Get("Location"), "/builds/")
	for path, names := range map[string][2]string{
		"/console/events": {"since", "until"}, "/console/deliveries": {"since", "until"}, "/console/audit": {"startDate", "endDate"}, built + "/requests": {"startTime", "endTime"},
	} {
		page := b.get(path + "?" + names[0] + "=2026-11-18T15:02:11Z&" + names[1] + "=2026-11-19T15:02&cursor=x").body
		for _, want := range []string{`name="` + names[0] + `" value="2026-11-18T15:02:11"`, `name="` + names[1] + `" value="2026-11-19T15:02:00"`, `<span class="zone">UTC</span>`, ">1 hour</a>", ">24 hours</a>", ">7 days</a>"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s has no %s:\n%.4000s", path, want, page)
			}
		}
		spans := regexp.MustCompile(`href="([^"]*)">7 days</a>`).FindStringSubmatch(page)
		if len(spans) != 2 || strings.Contains(spans[1], names[1]) || strings.Contains(spans[1], "cursor") {
			t.Fatalf("%s: seven days are %q", path, spans)
		}
		b.get(html.UnescapeString(spans[1])).has(t, `aria-current="true">7 days</a>`)
	}
}
