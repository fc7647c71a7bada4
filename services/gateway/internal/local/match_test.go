package local_test

import (
	"net/http"
	"strings"
	"testing"
)

// The first route that has path and method answers: by the names of the files, then by
// their order in the document.
func TestMatching(t *testing.T) {
	t.Parallel()
	strict := func(method, path, id string) operation {
		o := static(method, path, id)
		o.pattern = true
		return o
	}
	r := newRig(t, files{
		"b.oas.json": document(
			static("GET", "/things/fixed", "late-fixed"),
			static("POST", "/things/{id}", "post-thing"),
			static("GET", "/only-b", "only-b"),
			strict("GET", "/strict/:name", "strict-name"),
			strict("GET", "/files/:kind(img|css)/*", "files"),
			strict("GET", "/any/*", "any"),
			static("GET", "/mixed/{name}.{ext}", "mixed"),
			static("GET", "/sp%20ace/{x}", "space"),
			static("GET", "/", "root"),
		),
		"a.oas.json": document(
			static("GET", "/first/fixed", "first-fixed"),
			static("GET", "/first/{id}", "first-param"),
			static("GET", "/things/{id}", "early-param"),
			static("GET", "/both", "both-a"),
			static("GET", "/a/{x}/c/{y}", "two"),
		),
		"c.oas.json":   document(static("GET", "/{both}", "both-c"), static("PUT", "/both", "put-both")),
		"ignored.json": document(static("GET", "/ignored", "ignored")),
	}, nil)
	for path, want := range map[string]string{
		"/first/fixed":        "first-fixed",
		"/first/fixed/":       "first-fixed",
		"/first/other":        "first-param",
		"/first/%66ixed":      "first-fixed",
		"/things/fixed":       "early-param", // a.oas.json comes first
		"/only-b":             "only-b",
		"/both":               "both-a",
		"/a/1/c/2":            "two",
		"/a/1/c/2/":           "two",
		"/a/1%2F2/c/2":        "two",
		"/a//c/2":             "",
		"/a/1/c":              "",
		"/a/1/c/2/3":          "",
		"/strict/x":           "strict-name",
		"/strict/x/":          "",
		"/strict/":            "both-c", // which is of the other mode
		"/strict/x/y":         "",
		"/files/img/a/b":      "files",
		"/files/css/":         "files",
		"/files/css":          "",
		"/files/js/a":         "",
		"/any/":               "any",
		"/any/a/b/c":          "any",
		"/mixed/a.b":          "mixed",
		"/mixed/a":            "",
		"/sp%20ace/1":         "space",
		"/":                   "root",
		"/ignored":            "both-c", // not from ignored.json
		"/First/fixed":        "",
		"/nothing/at/all":     "",
		"/first/..":           "",
		"/first/%2e%2E":       "",
		"/first/%2e":          "",
		"/first/..%2Fboth":    "",
		"/first/a%2F..%2Fb":   "",
		"/first/..%5Cboth":    "",
		"/any/../first/fixed": "",
		"/any/x/%2e%2e/y":     "",
		"/first/...":          "first-param",
		"/first/a..b":         "first-param",
	} {
		// The path goes out as it is written here.
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, r.url, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.URL.Opaque = strings.TrimPrefix(r.url, "http:") + path
		got := r.send(request)
		switch {
		case want == "":
			if got.status != http.StatusNotFound {
				t.Errorf("%s: %d %s, want 404", path, got.status, got.body)
			}
		case got.status != http.StatusOK || got.body != want:
			t.Errorf("%s: %d %q, want %q", path, got.status, got.body, want)
		}
	}
	r.do(http.MethodPut, "/both", "").want(http.StatusOK, "put-both")
	r.do(http.MethodPost, "/things/fixed", "").want(http.StatusOK, "post-thing")
	r.do(http.MethodGet, "/nothing/at/all", "").problem(http.StatusNotFound, "NOT_FOUND")
}

func TestMethods(t *testing.T) {
	t.Parallel()
	head := static("HEAD", "/own-head", "own-head")
	r := newRig(t, files{
		"a.oas.json": document(
			static("GET", "/x", "get"), static("DELETE", "/x", "delete"),
			static("GET", "/own-head", "no-head"), head.with("corsPolicy", "none"),
			static("POST", "/post", "post"), static("OPTIONS", "/options", "options"),
		),
		"b.oas.json": document(static("PATCH", "/{any}", "patch")),
	}, nil)
	refused := r.do(http.MethodPost, "/x", "{}")
	refused.problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	if allow := refused.header.Get("Allow"); allow != "DELETE, GET, HEAD, PATCH" {
		t.Errorf("Allow is %q", allow)
	}
	refused = r.do(http.MethodGet, "/post", "")
	refused.problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	if allow := refused.header.Get("Allow"); allow != "PATCH, POST" {
		t.Errorf("Allow is %q", allow)
	}
	r.do("BREW", "/x", "").problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	r.do(http.MethodOptions, "/x", "").problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	r.do(http.MethodOptions, "/options", "").want(http.StatusOK, "options")

	got := r.do(http.MethodHead, "/x", "")
	got.want(http.StatusOK, "")
	if length, media := got.header.Get("Content-Length"), got.header.Get("Content-Type"); length != "3" || media != "text/plain" {
		t.Errorf("HEAD: Content-Length %q, Content-Type %q, want those of GET", length, media)
	}
	if length := r.do(http.MethodHead, "/own-head", "").header.Get("Content-Length"); length != "8" {
		t.Errorf("HEAD with a route of its own: Content-Length %q, want 8", length)
	}
	if status := r.do(http.MethodHead, "/post", "").status; status != http.StatusMethodNotAllowed {
		t.Errorf("HEAD of a path without GET: %d", status)
	}
}

func TestCORS(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{
		"policies.json": policies([]m{{
			"name": "app", "allowedOrigins": []string{"https://app.example", "https://*.apps.example"}, "allowedMethods": []string{"GET", "PUT"},
			"allowedHeaders": []string{"Authorization", "X-One"}, "exposeHeaders": []string{"X-Two"}, "maxAge": 60, "allowCredentials": true,
		}}),
		"a.oas.json": document(
			static("GET", "/app", "get").with("corsPolicy", "app"), static("PUT", "/app", "put").with("corsPolicy", "app"),
			static("DELETE", "/app", "delete"), static("POST", "/open", "open").with("corsPolicy", "anything-goes"), static("GET", "/none", "none"),
			calls("GET", "/fails", "fails").with("corsPolicy", "app"),
		),
	}, module{"fails": failing("boom")})
	preflight := func(path, origin, method string) answer {
		return r.do(http.MethodOptions, path, "", "Origin", origin, "Access-Control-Request-Method", method, "Access-Control-Request-Headers", "x-one, x-three")
	}
	check := func(got answer, want map[string]string) {
		t.Helper()
		for _, name := range []string{
			"Access-Control-Allow-Origin", "Access-Control-Allow-Methods", "Access-Control-Allow-Headers",
			"Access-Control-Allow-Credentials", "Access-Control-Max-Age", "Access-Control-Expose-Headers",
		} {
			if value := got.header.Get(name); value != want[name] {
				t.Errorf("%s is %q, want %q", name, value, want[name])
			}
		}
	}
	for _, origin := range []string{"https://app.example", "https://x.apps.example"} {
		got := preflight("/app", origin, "PUT")
		got.want(http.StatusNoContent, "")
		check(got, map[string]string{
			"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Methods": "GET, PUT", "Access-Control-Allow-Headers": "Authorization, X-One",
			"Access-Control-Allow-Credentials": "true", "Access-Control-Max-Age": "60",
		})
		got = r.do(http.MethodGet, "/app", "", "Origin", origin)
		got.want(http.StatusOK, "get")
		check(got, map[string]string{"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "X-Two"})
		got = r.do(http.MethodGet, "/fails", "", "Origin", origin)
		got.problem(http.StatusInternalServerError, "INTERNAL")
		check(got, map[string]string{"Access-Control-Allow-Origin": origin, "Access-Control-Allow-Credentials": "true", "Access-Control-Expose-Headers": "X-Two"})
	}
	for _, origin := range []string{"http://app.example", "https://apps.example", "https://evil.example", "https://app.example.evil.example", "https://xapps.example", "null"} {
		got := preflight("/app", origin, "PUT")
		got.want(http.StatusNoContent, "")
		check(got, nil)
		got = r.do(http.MethodGet, "/app", "", "Origin", origin)
		got.want(http.StatusOK, "get")
		check(got, nil)
		if vary := got.header.Get("Vary"); vary != "Origin" {
			t.Errorf("Vary is %q: a cache would give this answer to other origins", vary)
		}
	}
	got := preflight("/open", "https://any.example", "POST")
	check(got, map[string]string{
		"Access-Control-Allow-Origin": "*", "Access-Control-Allow-Methods": "POST", "Access-Control-Allow-Headers": "x-one, x-three", "Access-Control-Max-Age": "600",
	})
	preflight("/app", "https://app.example", "DELETE").problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	preflight("/none", "https://app.example", "GET").problem(http.StatusMethodNotAllowed, "METHOD_NOT_ALLOWED")
	check(r.do(http.MethodGet, "/none", "", "Origin", "https://app.example"), nil)
}
