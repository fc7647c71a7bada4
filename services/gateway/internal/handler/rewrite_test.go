package handler_test

import (
	"strings"
	"testing"
)

func TestRewrite(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	e := env(production(), "BACK", b.URL, "KEY", "k/1?&", "BASE", b.URL+"/v2?fixed=1", "PART", "one/two")
	for _, row := range []struct{ pattern, query, want string }{
		{b.URL, "", "/"},
		{b.URL + "/", "", "/"},
		{b.URL + "/v2/items/${params.id}", "", "/v2/items/a%2Fb%20c"},
		{b.URL + "/v2/items/${e(params.id)}/x", "", "/v2/items/a%2Fb%20c/x"},
		{b.URL + "${pathname}", "", "/orders/a%2Fb%20c/rest"},
		{b.URL + "/v2${pathname}", "z=1", "/v2/orders/a%2Fb%20c/rest?z=1"},
		{b.URL + "${pathname}${search}", "z=1", "/orders/a%2Fb%20c/rest?z=1"},
		{b.URL + "${search}", "z=1", "/?z=1"},
		{b.URL + "/v2${search}", "", "/v2"},
		{b.URL + "/v2?a=1&${search}", "z=1", "/v2?a=1&z=1"},
		{b.URL + "/v2?u=${e(search)}", "z=1", "/v2?u=%3Fz%3D1&z=1"},
		{b.URL + "/v2/${e(pathname)}", "", "/v2/%2Forders%2Fa%252Fb%2520c%2Frest"},
		{b.URL + "/v2?path=${pathname}", "", "/v2?path=%2Forders%2Fa%252Fb%2520c%2Frest"},
		{b.URL + "/q/${query.q}", "q=x%26y%3D%2F%3F%23%25", "/q/x%26y%3D%2F%3F%23%25?q=x%26y%3D%2F%3F%23%25"},
		{b.URL + "/q?name=${query.q}&fixed=1", "q=x%26admin%3Dtrue%23", "/q?name=x%26admin%3Dtrue%23&fixed=1&q=x%26admin%3Dtrue%23"},
		{b.URL + "/q?name=${query.missing}", "", "/q?name="},
		{b.URL + "/q?role=user", "role=admin&z=1&role=root", "/q?role=user&z=1"},
		{b.URL + "/t/${headers.x-tenant}", "", "/t/acme%20%26%20co"},
		{b.URL + "/t?t=${headers.X-Tenant}", "", "/t?t=acme%20%26%20co"},
		{b.URL + "/m/${method}", "", "/m/GET"},
		{"${env.BACK}/x", "", "/x"},
		{"${env.BASE}&id=${params.id}", "fixed=2&z=1", "/v2?fixed=1&id=a%2Fb%20c&z=1"},
		{"${env.BACK}/${env.PART}/${e(env.KEY)}", "", "/one/two/k%2F1%3F%26"},
		{b.URL + "/a%2Fb/${params.id}?x=%20", "", "/a%2Fb/a%2Fb%20c?x=%20"},
	} {
		h := newHandler(t, "urlRewriteHandler", `{"rewritePattern":"`+row.pattern+`"}`, e)
		r := call("GET", "/orders/a%2Fb%20c/rest", row.query)
		r.Params = map[string]string{"id": "a/b c", "rest": "rest"}
		r.Header.Set("X-Tenant", "acme & co")
		status, detail := outcome(t.Context(), t, h, r)
		if status != 200 {
			t.Errorf("%s: %d %s", row.pattern, status, detail)
			continue
		}
		if got := b.last(t); got.line != "GET "+row.want || got.host != strings.TrimPrefix(b.URL, "http://") {
			t.Errorf("%s: asked %s at %s, want %s", row.pattern, got.line, got.host, row.want)
		}
	}
	h := newHandler(t, "urlRewriteHandler", `{"rewritePattern":"`+b.URL+`/x","forwardSearch":false}`, e)
	if status, _ := outcome(t.Context(), t, h, call("GET", "/", "a=b")); status != 200 || b.last(t).line != "GET /x" {
		t.Errorf("without the query: %d, asked %s", status, b.last(t).line)
	}
}

// No value leaves its place in the URL: what would is refused, and so is one that is
// missing where the path would become another.
func TestRewriteKeepsValuesInTheirPlace(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	h := newHandler(t, "urlRewriteHandler", `{"rewritePattern":"`+b.URL+`/public/${params.id}${params.rest}/x"}`, env(production()))
	for _, row := range []struct {
		id, rest string
		want     int
	}{
		{"..", "/admin", 400},
		{".", ".", 400},
		{"../admin", "/", 400},
		{"a/../..", "/b", 400},
		{"..\\admin", "/", 400},
		{"..;a", "/", 400},
		{"%2e%2e", "%2fadmin", 400},
		{"", "/x", 400},
		{"x", "", 400},
		{"a", "..", 200},
		{"a\r\nX-B: b", "?c#d", 200},
		{"https://evil.example", "@evil.example", 200},
	} {
		r := call("GET", "/orders/1/2", "")
		r.Params = map[string]string{"id": row.id, "rest": row.rest}
		before := b.count()
		if status, detail := outcome(t.Context(), t, h, r); status != row.want || (b.count() == before) != (row.want == 400) {
			t.Errorf("%q and %q: %d %s", row.id, row.rest, status, detail)
		}
	}
	if got := b.last(t); got.line != "GET /public/https%3A%2F%2Fevil.example%40evil.example/x" || got.host != strings.TrimPrefix(b.URL, "http://") {
		t.Errorf("asked %s at %s", got.line, got.host)
	}
	whole := newHandler(t, "urlRewriteHandler", `{"rewritePattern":"`+b.URL+`/public${pathname}"}`, env(production()))
	before := b.count()
	for _, path := range dotted() {
		if status, _ := outcome(t.Context(), t, whole, call("GET", path, "")); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
	if b.count() != before {
		t.Errorf("the back end was asked for %s", b.last(t).line)
	}
	missing := newHandler(t, "urlRewriteHandler", `{"rewritePattern":"`+b.URL+`/public/${headers.x-tenant}/${query.q}"}`, env(production()))
	if status, _ := outcome(t.Context(), t, missing, call("GET", "/", "")); status != 400 {
		t.Errorf("a header that is missing: %d", status)
	}
}

func TestRewriteFaults(t *testing.T) {
	t.Parallel()
	e := env(production(), "HOST", "example.com", "BAD", "hunter2 x", "META", "http://169.254.169.254/")
	const host = "must begin with http://, https:// or service:// and a host that does not come from the request"
	const form = "must be a URL of ASCII characters, without a fragment"
	for pattern, want := range map[string]string{
		"https://${params.id}":                         host,
		"https://${query.q}/x":                         host,
		"https://${headers.host}/x":                    host,
		"https://${params.id}.example.com/":            host,
		"https://example.com${params.id}":              host,
		"https://example.com${query.q}/x":              host,
		"https://example.com${e(pathname)}":            host,
		"https://example.com${e(search)}":              host,
		"https://example.com${method}":                 host,
		"${params.id}":                                 host,
		"${query.q}://example.com/":                    host,
		"${pathname}":                                  host,
		"/x":                                           host,
		"ftp://example.com/":                           host,
		"//example.com/":                               host,
		"https:/${pathname}":                           host,
		"https://example.com:${params.id}/":            "must have a port of 1 to 65535, or none",
		"https://user@${env.HOST}/":                    "must not have a user name or password",
		"${env.META}":                                  "has an address that is not allowed",
		"https://${env.HOST}/${env.BAD}":               form,
		"https://${env.UNSET}/":                        "names a variable of the environment that is not set",
		"https://example.com/${params.other}":          "names a parameter that the path does not have",
		"https://example.com/${params.q}":              "names a parameter that the path does not have",
		"https://example.com/${headers.authorization}": "must not have the caller's key or cookies in it",
		"https://example.com/?k=${headers.X_API_Key}":  "must not have the caller's key or cookies in it",
		"https://example.com/${e(headers.cookie)}":     "must not have the caller's key or cookies in it",
		"https://example.com/#x":                       form,
		"https://example.com/?a#x":                     form,
		"https://example.com/a b":                      form,
		"https://example.com/ä":                        form,
		"https://example.com/%zz":                      form,
		"https://example.com/?%zz":                     form,
		"https://example.com/${params.id":              "has ${ without }",
	} {
		if got := faultsOf(t, "urlRewriteHandler", `{"rewritePattern":"`+pattern+`"}`, e); got != "handler/options/rewritePattern "+want {
			t.Errorf("%s: %q, want %q", pattern, got, want)
		}
	}
	for _, expression := range []string{"id", "params", "params.", "params[\"id\"]", "request.url", "e(params.id", "e()", "e(e(params.id))", "pathname.x", "process.env.X", ""} {
		escaped := strings.ReplaceAll(expression, `"`, `\"`)
		got := faultsOf(t, "urlRewriteHandler", `{"rewritePattern":"https://example.com/${`+escaped+`}"}`, e)
		if !strings.HasPrefix(got, "handler/options/rewritePattern has an unknown expression") {
			t.Errorf("%s: %q", expression, got)
		}
	}
	if got := faultsOf(t, "urlRewriteHandler", `{}`, e); got != "handler/options/rewritePattern is required" {
		t.Errorf("nothing: %q", got)
	}
}
