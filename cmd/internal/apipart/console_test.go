package apipart_test

import (
	"encoding/json"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/domain"
)

// browser is somebody who is signed in to the console.
type browser struct {
	r      *rig
	client *http.Client
}

func (r *rig) browser(key string) *browser {
	r.t.Helper()
	jar, err := cookiejar.New(nil)
	if err != nil {
		r.t.Fatal(err)
	}
	b := &browser{r, &http.Client{Jar: jar, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}}
	b.post("/console/sign-in", http.StatusSeeOther, url.Values{"key": {key}})
	return b
}

func (b *browser) get(path string, status int) string { return b.do(http.MethodGet, path, status, nil) }

func (b *browser) post(path string, status int, form url.Values) string {
	return b.do(http.MethodPost, path, status, form)
}

// do returns the page as a person reads it.
func (b *browser) do(method, path string, status int, form url.Values) string {
	t := b.r.t
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), method, b.r.url+path, strings.NewReader(form.Encode()))
	if err != nil {
		t.Fatal(err)
	}
	if form != nil {
		request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		request.Header.Set("Sec-Fetch-Site", "same-origin")
	}
	answer, err := b.client.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != status {
		t.Fatalf("%s %s: %d, want %d\n%.2000s", method, path, answer.StatusCode, status, body)
	}
	return html.UnescapeString(string(body))
}

func has(t *testing.T, page string, texts ...string) {
	t.Helper()
	for _, text := range texts {
		if !strings.Contains(page, text) {
			t.Errorf("the page has no %q:\n%.4000s", text, page)
		}
	}
}

// The playground shows and calls what the session's key may, through the same server as everybody.
func TestConsolePlayground(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		b := r.browser(adminKey)
		page := b.get("/console/mcp", http.StatusOK)
		has(t, page, "explain_delivery", "waybill://receivers", "why_not_delivered", "claude mcp add", "bearer_token_env_var")

		register := url.Values{"a/url": {"https://shop.example.com/x"}, "a/events": {"shipment.created"}, "a/description": {"from the playground"}}
		page = b.get("/console/mcp?tool=register_webhook", http.StatusOK)
		for name := range register {
			has(t, page, `name="`+name+`"`)
		}
		page = b.post("/console/mcp?tool=register_webhook", http.StatusOK, register)
		has(t, page, `"tools/call"`, "from the playground", "answered")
		id := regexp.MustCompile(`"id": "([0-9a-f-]{36})"`).FindStringSubmatch(page)
		if id == nil {
			t.Fatalf("no webhook was registered:\n%s", page)
		}
		page = b.post("/console/mcp?tool=get_webhook", http.StatusOK, url.Values{"a/id": {"not-an-id"}})
		has(t, page, "The tool answered with an error.")

		// What destroys asks first, and only then does it.
		page = b.post("/console/mcp?tool=delete_webhook", http.StatusOK, url.Values{"a/id": {id[1]}})
		has(t, page, "Call delete_webhook?", `name="confirmed"`, id[1])
		r.do(http.MethodGet, "/v1/webhooks/"+id[1], "").want(http.StatusOK)
		b.post("/console/mcp?tool=delete_webhook", http.StatusOK, url.Values{"a/id": {id[1]}, "confirmed": {"yes"}})
		r.do(http.MethodGet, "/v1/webhooks/"+id[1], "").want(http.StatusNotFound)
		var entry struct {
			Data []struct {
				Actor struct {
					Metadata map[string]string `json:"metadata"`
				} `json:"actor"`
			} `json:"data"`
		}
		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=delete-webhook", "").want(http.StatusOK)
		if err := json.Unmarshal(log.body, &entry); err != nil || len(entry.Data) != 1 || entry.Data[0].Actor.Metadata["session"] == "" {
			t.Errorf("the audit log does not name the session: %s", log.body)
		}
		has(t, b.get("/console/mcp?resource="+url.QueryEscape("waybill://events"), http.StatusOK), "resources/read", "shipment.created")

		// A key with fewer scopes sees fewer tools; a name that it does not see is not called.
		_, key := r.holder(r.bucket("ai-clients"), "assistant", domain.ScopeMCP, domain.ScopeEventsRead)
		reader := r.browser(key)
		page = reader.get("/console/mcp", http.StatusOK)
		has(t, page, "explain_delivery", "search_deliveries")
		if strings.Contains(page, "delete_webhook") || strings.Contains(page, "publish_event") {
			t.Error("the page shows tools that the key may not use")
		}
		page = reader.post("/console/mcp?tool=register_webhook", http.StatusOK, register)
		if strings.Contains(page, "tools/call") {
			t.Errorf("a tool was called that the key does not see:\n%s", page)
		}
		_, key = r.holder(r.bucket("no-clients"), "none", domain.ScopeEventsRead)
		has(t, r.browser(key).get("/console/mcp", http.StatusOK), "This needs the scope <code>mcp:use</code>")
		if strings.Contains(r.logs.String(), "whsec_") {
			t.Error("a secret is in the log")
		}
	})
}

// Operators see the routes that are served, and why a change of their files is not.
func TestConsoleRoutesPage(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	backEnd(t, r)
	var dir string
	given := r.routes
	r.routes = func(o *gateway.RoutesOptions) {
		given(o)
		dir = o.Dir
	}
	r.api = func(o *api.Options) {
		o.Process = api.Process{Version: "v0.0.0-test", Settings: []api.Setting{{Name: "WAYBILL_RETENTION", Value: "168h", Source: "default"}}}
	}
	r.start()
	r.send(http.MethodGet, "/open", "").want(http.StatusOK)
	b := r.browser(adminKey)
	page := b.get("/console/routes", http.StatusOK)
	has(t, page, "GET /open", "urlForwardHandler", "who.oas.json", "own</span>", dir)
	if strings.Contains(page, "refused") {
		t.Error("nothing was refused")
	}
	page = b.get("/console/routes?q=POST+/MCP", http.StatusOK)
	has(t, page, "POST /mcp")
	if strings.Contains(page, "GET /open") {
		t.Error("the filter is not kept to")
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.oas.json"), []byte(`{"openapi":"3.1.0","info":{"title":"<script>","version":"1"},"paths":{"/bad":{"get":{"operationId":"bad","x-gateway-route":{"handler":{"module":"<script>","export":"x"}}}}}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the fault is shown", func() bool {
		page = b.get("/console/routes", http.StatusOK)
		return strings.Contains(page, "The route files were refused") && strings.Contains(page, "bad.oas.json")
	})
	has(t, page, "GET /open")
	if err := os.Remove(filepath.Join(dir, "bad.oas.json")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the files are good again", func() bool { return !strings.Contains(b.get("/console/routes", http.StatusOK), "refused") })

	eventually(t, "the relay leads and the streams are there", func() bool {
		page = b.get("/console/system", http.StatusOK)
		return strings.Contains(page, "this process") && !strings.Contains(page, "The bus can’t say now")
	})
	has(t, page, "v0.0.0-test", "WAYBILL_RETENTION", "EVENTS", "fanout", "0001_", "No dispatcher is heard")

	// Nobody but the operator sees either.
	_, reader := r.holder(r.bucket("readers"), "reader", domain.ScopeEventsRead, domain.ScopeWebhooksRead, domain.ScopeBucketsRead)
	for _, path := range []string{"/console/system", "/console/routes"} {
		has(t, r.browser(reader).get(path, http.StatusForbidden), "admin")
		if page := r.browser(r.secondAccount("elsewhere-"+path[9:])).get(path, http.StatusNotFound); strings.Contains(page, dir) || strings.Contains(page, "EVENTS") {
			t.Errorf("%s shows another account what is the operator's:\n%s", path, page)
		}
	}
}
