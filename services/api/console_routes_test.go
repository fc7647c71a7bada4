package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/console"
	"waybill.dev/shared/domain"
)

// walkedNote stands in what the default account has, and in no path.
const walkedNote = "canary-of-default"

// walker walks the pages of the console as several callers, and sees which operations each page
// has called.
type walker struct {
	*rig

	mu    sync.Mutex
	calls []console.Call
	made  int
}

func newWalker(t *testing.T) *walker {
	t.Helper()
	w := &walker{rig: prepareRig(t, sqliteURL(t))}
	w.options = func(o *api.Options) {
		o.Observe(func(_ console.Route, calls []console.Call) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.calls = slices.Clone(calls)
		})
	}
	w.start()
	return w
}

// things makes one of everything that a path can name, in the default account.
func (w *walker) things() *strings.Replacer {
	w.t.Helper()
	w.made++
	bucket, event := fmt.Sprintf("walked-bucket-%d", w.made), fmt.Sprintf("evt_walked_%d", w.made)
	consumer, _ := w.holder(w.bucket(bucket, `,"description":"`+walkedNote+`"`), "walked-consumer")
	key := w.do(http.MethodPost, consumer+"/keys", `{"description":"`+walkedNote+`"}`).want(http.StatusCreated).text("id")
	manager := w.do(http.MethodPost, consumer+"/managers", `{"email":"`+walkedNote+`@b.example","sub":"s"}`).want(http.StatusCreated).text("id")
	webhook := w.register(`{"url":"http://127.0.0.1:1/` + walkedNote + `","events":["shipment.created"],"description":"` + walkedNote + `"}`).text("id")
	w.insist(http.MethodPost, "/v1/events", `{"id":"`+event+`","type":"shipment.created","timestamp":"2026-11-18T15:02:11Z","data":{"shipmentId":"shp_walked","note":"`+walkedNote+`"}}`).want(http.StatusAccepted)
	delivery := string(w.deliver(webhook, event, domain.StatusFailed, ""))
	var feed struct {
		Cursor string `json:"cursor"`
	}
	w.do(http.MethodGet, "/v1/webhooks/"+webhook+"/feed", "").want(http.StatusOK).into(&feed)
	w.do(http.MethodPut, "/v1/webhooks/"+webhook+"/cursors/walked-cursor", `{"cursor":"`+feed.Cursor+`"}`).want(http.StatusOK)
	tunnel := w.do(http.MethodPost, "/v1/accounts/default/tunnels", fmt.Sprintf(`{"name":"walked-tunnel-%d"}`, w.made)).want(http.StatusCreated).text("tunnelId")
	feature, plan := w.theirMetering(fmt.Sprintf("/v1/accounts/default/key-buckets/walked-bucket-%d", w.made))
	return strings.NewReplacer(
		"{meterIdOrSlug}", "their_meter", "{featureId}", feature, "{planId}", plan,
		"{tunnelId}", tunnel, "{certificateId}", w.walkedCA(),
		"{cursorName}", "walked-cursor", "{eventId}", event, "{deliveryId}", delivery, "{webhookId}", webhook, "{shipmentId}", "shp_walked", "{eventType}", "shipment.created",
		"{bucketName}", bucket, "{consumerName}", "walked-consumer", "{keyId}", key, "{managerId}", manager,
		"{jobId}", "job_000000000000000000000000", "{sequence}", "1", "{tab}", "deliveries",
		"{projectName}", "walked-project", "{branchName}", "feature%2Fwalked", "{variableName}", "WALKED",
		"{deploymentName}", "walked-project-main-aaaaaaaaaa", "{buildId}", "0198e5d0-1111-7222-8333-444455556666", "{requestId}", "walked-request",
	)
}

// caller is who walks.
type caller struct {
	name, key string
	scopes    []domain.Scope
	stranger  bool // of another account
	*browser
}

func (w *walker) callers() []*caller {
	w.t.Helper()
	bucket := w.bucket("callers-bucket")
	list := []*caller{
		{name: "admin", key: adminKey, scopes: []domain.Scope{domain.ScopeAdmin}},
		{name: "stranger", key: w.secondAccount("elsewhere"), scopes: []domain.Scope{domain.ScopeAdmin}, stranger: true},
	}
	add := func(name string, scopes ...domain.Scope) {
		_, key := w.holder(bucket, name, scopes...)
		list = append(list, &caller{name: name, key: key, scopes: scopes})
	}
	add("reader", domain.ScopeWebhooksRead, domain.ScopeEventsRead, domain.ScopeBucketsRead)
	add("nothing")
	for _, scope := range domain.Scopes() {
		if scope != domain.ScopeAdmin {
			add(strings.ReplaceAll(string(scope), ":", "-"), scope)
		}
	}
	for _, c := range list {
		c.browser = w.browser().signIn(c.key)
	}
	return list
}

var parameter = regexp.MustCompile(`\{[^}]*\}`)

// Every page and every act of the console answers each caller exactly as the API does.
func TestConsoleRoutes(t *testing.T) {
	t.Parallel()
	w := newWalker(t)
	callers, shared := w.callers(), w.things()
	nobody := w.browser()
	for _, module := range api.ConsoleModules() {
		for _, route := range module.Routes {
			things := shared
			if route.Method != http.MethodGet {
				things = w.things() // which the act may take away
			}
			path := things.Replace(route.Path)
			if parameter.MatchString(path) {
				t.Errorf("%s %s has a parameter that is not known here: see console.Route", route.Method, route.Path)
				continue
			}
			w.asNobody(nobody, route, path)
			for _, c := range callers {
				if c.name == "admin" && route.Method != http.MethodGet {
					continue
				}
				w.walk(c, route, path)
			}
		}
	}
}

func (w *walker) asNobody(b *browser, route console.Route, path string) {
	w.calls = nil
	form := url.Values{}
	if route.Method == http.MethodGet {
		form = nil
	}
	p := b.do(route.Method, path, form)
	if p.status != http.StatusSeeOther || !strings.HasPrefix(p.header.Get("Location"), "/console/sign-in") || len(w.calls) > 0 {
		w.t.Errorf("%s %s as nobody: %d to %q, %d calls", route.Method, path, p.status, p.header.Get("Location"), len(w.calls))
	}
}

func (w *walker) walk(c *caller, route console.Route, path string) {
	t := w.t
	t.Helper()
	w.calls = nil
	form := url.Values{}
	if route.Method == http.MethodGet {
		form = nil
	}
	p := c.do(route.Method, path, form)
	name := fmt.Sprintf("%s %s as %s", route.Method, path, c.name)
	if p.status >= http.StatusInternalServerError {
		t.Errorf("%s: %d\n%.1500s", name, p.status, p.body)
	}
	if c.stranger && strings.Contains(p.body, walkedNote) {
		t.Errorf("%s: the page has what is another account's", name)
	}
	if route.Method == http.MethodGet && len(w.calls) == 0 && !route.Static {
		t.Errorf("%s: the page has asked the API nothing", name)
	}
	refused := 0
	for _, call := range w.calls {
		if call.Status >= http.StatusBadRequest && !call.Tried && refused == 0 {
			refused = call.Status
		}
		w.compare(name, c, call)
	}
	switch {
	case refused != 0 && p.status != refused:
		t.Errorf("%s: the page has status %d, the API says %d", name, p.status, refused)
	case refused == 0 && route.Method == http.MethodGet && p.status != http.StatusOK && p.status != http.StatusSeeOther:
		t.Errorf("%s: status %d, though the API refused nothing\n%.1500s", name, p.status, p.body)
	}
}

// compare asks the API what the page has asked it. What has changed something is not done again:
// there the caller must have had the right to it.
func (w *walker) compare(name string, c *caller, call console.Call) {
	w.t.Helper()
	if call.Method != http.MethodGet && call.Status < http.StatusBadRequest {
		if scope := call.Operation.Scope; scope != domain.ScopeAny && !slices.Contains(c.scopes, scope) && !slices.Contains(c.scopes, domain.ScopeAdmin) {
			w.t.Errorf("%s: %s %s was done without %s", name, call.Method, call.Path, scope)
		}
		return
	}
	target := call.Path
	if call.Query != "" {
		target += "?" + call.Query
	}
	direct := w.send(call.Method, target, string(call.Body), as(c.key))
	for n := 0; n < mostRefusals && direct.status == http.StatusServiceUnavailable && call.Status != direct.status; n++ { // a slow machine, as for insist
		direct = w.send(call.Method, target, string(call.Body), as(c.key))
	}
	if direct.status != call.Status {
		w.t.Errorf("%s: %s %s answered the page %d, and the key %d", name, call.Method, target, call.Status, direct.status)
	}
}
