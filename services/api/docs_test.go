package api_test

import (
	"net/http"
	"regexp"
	"strings"
	"testing"

	"github.com/go-json-experiment/json/jsontext"
)

// The documents and the pages are open to all, and a reader who has them is told so.
func TestDocuments(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for path, media := range map[string]string{
		"/openapi": "application/json", "/asyncapi": "application/json",
		"/docs": "text/html", "/docs/asyncapi": "text/html", "/docs/http": "text/html", "/docs/receivers": "text/html", "/docs/search?q=secret": "text/html", "/docs/docs.js": "text/javascript", "/docs/docs.css": "text/css",
		"/docs/swagger-ui.css": "text/css", "/docs/swagger-ui-bundle.js": "application/javascript", "/docs/favicon-32x32.png": "image/png",
	} {
		a := r.do(http.MethodGet, path, "", without("Authorization")).want(http.StatusOK)
		if got := a.header.Get("Content-Type"); !strings.HasPrefix(got, media) && !strings.HasPrefix(got, "text/javascript") {
			t.Errorf("%s is %s, want %s", path, got, media)
		}
		tag := a.header.Get("ETag")
		if tag == "" {
			t.Errorf("%s has no ETag", path)
		}
		if got := a.header.Get("Cache-Control"); got != "no-cache" {
			t.Errorf("%s has Cache-Control %q", path, got)
		}
		if len(a.body) == 0 {
			t.Errorf("%s is empty", path)
		}
		again := r.do(http.MethodGet, path, "", header("Authorization", "Bearer wrong"), header("If-None-Match", tag)).want(http.StatusNotModified)
		if len(again.body) > 0 {
			t.Errorf("%s again has %d bytes", path, len(again.body))
		}
		r.do(http.MethodGet, path, "", header("If-None-Match", `"other"`)).want(http.StatusOK)
	}
	for _, path := range []string{"/docs/index", "/docs/index.html", "/docs/swagger-ui.js", "/docs/..%2fspec.go", "/docs/openapi.json", "/docs/x/y", "/docs/receivers.md", "/docs/docs.go"} {
		r.do(http.MethodGet, path, "").want(http.StatusNotFound)
	}
	r.do(http.MethodPost, "/openapi", "").want(http.StatusMethodNotAllowed)
	if !jsontext.Value(r.do(http.MethodGet, "/openapi", "").body).IsValid() {
		t.Error("/openapi is no JSON")
	}
}

// A page has no script in it, takes nothing from elsewhere, and says so to the browser;
// whatever it names is there.
func TestPages(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	named := regexp.MustCompile(`(?:src|href)="([^"]*)"`)
	for _, path := range []string{"/docs", "/docs/http", "/docs/asyncapi", "/docs/problems"} {
		page := r.do(http.MethodGet, path, "").want(http.StatusOK)
		policy := page.header.Get("Content-Security-Policy")
		if want := "default-src 'none'; script-src 'self';"; !strings.HasPrefix(policy, want) {
			t.Errorf("policy of %s is %q, want it to begin with %q", path, policy, want)
		}
		for _, never := range []string{"http", "unsafe-eval"} {
			if strings.Contains(policy, never) {
				t.Errorf("policy of %s has %s in it: %q", path, never, policy)
			}
		}
		text := string(page.body)
		for _, never := range []string{"://", "<script>", "onload="} {
			if strings.Contains(text, never) {
				t.Errorf("%s has %s in it:\n%s", path, never, text)
			}
		}
		for _, match := range named.FindAllStringSubmatch(text, -1) {
			if strings.HasPrefix(match[1], "#") || match[1] == "/console" { // the console is beside the API
				continue
			}
			r.do(http.MethodGet, match[1], "", without("Authorization")).want(http.StatusOK)
		}
	}
}
