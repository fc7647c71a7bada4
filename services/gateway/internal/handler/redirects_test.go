package handler_test

import (
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/route"
)

// redirector answers every path but /end with a redirect that the query asks for.
func redirector(t *testing.T) *recorder {
	t.Helper()
	return record(t, func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/end" {
			_, _ = io.WriteString(w, "the end")
			return
		}
		status := map[string]int{"": 302, "301": 301, "303": 303, "307": 307, "308": 308, "300": 300}[r.URL.Query().Get("status")]
		w.Header()["Location"] = []string{r.URL.Query().Get("to")}
		w.WriteHeader(status)
		_, _ = io.WriteString(w, "elsewhere")
	})
}

func asking(method, to, status string) *route.Request {
	r := call(method, "/begin", "")
	r.Query = route.ParseQuery(&url.URL{RawQuery: url.Values{"to": {to}, "status": {status}}.Encode()})
	r.Header.Set("Content-Type", "text/plain")
	r.Header.Set("X-Tenant", "a")
	r.Header.Set("Accept", "text/html")
	r.Outgoing = http.Header{"Authorization": {"Bearer of-the-back-end"}}
	r.Body = []byte("body")
	return r
}

func TestRedirectsAreNotFollowed(t *testing.T) {
	t.Parallel()
	b := redirector(t)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(dev()))
	response, err := h.Handle(t.Context(), asking("GET", "/end", ""))
	if err != nil || response.Status != 302 || response.Header.Get("Location") != "/end" || string(response.Body) != "elsewhere" || b.count() != 1 {
		t.Errorf("%+v, %v; %d requests", response, err, b.count())
	}
}

func TestRedirectsOfTheBackEndItself(t *testing.T) {
	t.Parallel()
	b := redirector(t)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL, `"followRedirects":true`), env(production()))
	for _, row := range []struct{ method, to, status, line, body string }{
		{"GET", "/end", "", "GET /end", ""},
		{"GET", "end?a=b#fragment", "301", "GET /end?a=b", ""},
		{"GET", b.URL + "/end", "308", "GET /end", ""},
		{"POST", "/end", "301", "GET /end", ""},
		{"POST", "/end", "303", "GET /end", ""},
		{"PUT", "/end", "307", "PUT /end", "body"},
		{"POST", "/end", "308", "POST /end", "body"},
		{"HEAD", "/end", "303", "HEAD /end", ""},
	} {
		status, body := outcome(t.Context(), t, h, asking(row.method, row.to, row.status))
		got := b.last(t)
		if status != 200 || body != "the end" && row.method != "HEAD" || got.line != row.line || got.body != row.body {
			t.Errorf("%s %s %s: %d %q, asked %+v", row.method, row.status, row.to, status, body, got)
		}
		if got.header.Get("Authorization") != "Bearer of-the-back-end" || got.header.Get("X-Tenant") != "a" || (got.header.Get("Content-Type") == "") != (row.body == "") {
			t.Errorf("%s %s: header %v", row.method, row.to, got.header)
		}
	}
	for _, row := range []struct{ to, status string }{{"", ""}, {"/end", "300"}, {"http://[::1", ""}, {"http:///x", ""}} {
		if status, body := outcome(t.Context(), t, h, asking("GET", row.to, row.status)); status < 300 || status > 399 || body != "elsewhere" {
			t.Errorf("%q %s: %d %q", row.to, row.status, status, body)
		}
	}
	round := record(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, "/round", http.StatusFound) })
	h = newHandler(t, "urlForwardHandler", forwardTo(round.URL, `"followRedirects":true`), env(production()))
	if status, _ := outcome(t.Context(), t, h, call("GET", "/", "")); status != 502 || round.count() != 6 {
		t.Errorf("in a circle: %d after %d requests", status, round.count())
	}
}

// To other hosts a redirect leads only where callbacks may go, and nothing goes there that
// was meant for the back end.
func TestRedirectsElsewhere(t *testing.T) {
	t.Parallel()
	b := redirector(t)
	other := record(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") })
	strict := newHandler(t, "urlForwardHandler", forwardTo(b.URL, `"followRedirects":true`), env(production()))
	for _, to := range []string{
		other.URL + "/", strings.Replace(other.URL, "http://", "https://", 1), strings.Replace(other.URL, "http:", "", 1),
		"http://169.254.169.254/latest/meta-data", "https://169.254.169.254/", "https://localhost/", "https://[::1]/", "https://[::ffff:127.0.0.1]/",
		"https://127.1/", "https://2130706433/", "file:///etc/passwd", "ftp://127.0.0.1/", "gopher://127.0.0.1:1/x", "https://user@127.0.0.1/",
	} {
		if status, body := outcome(t.Context(), t, strict, asking("GET", to, "")); status != 502 && (status != 302 || body != "elsewhere") {
			t.Errorf("%s: %d %q", to, status, body)
		}
	}
	if n := other.connections.Load(); n != 0 {
		t.Fatalf("the other one was connected to %d times", n)
	}

	open := newHandler(t, "urlForwardHandler", forwardTo(b.URL, `"followRedirects":true`), env(dev()))
	if status, body := outcome(t.Context(), t, open, asking("POST", other.URL+"/x", "303")); status != 200 || body != "other" {
		t.Errorf("where callbacks may go: %d %q", status, body)
	}
	got := other.last(t)
	want := http.Header{"Accept": {"text/html"}, "Accept-Encoding": {"identity"}, "User-Agent": {"Waybill"}, "X-Request-Id": {"req-1"}}
	if diff := cmp.Diff(want, got.header); diff != "" || got.line != "GET /x" || got.body != "" {
		t.Errorf("asked %+v (-want +got):\n%s", got, diff)
	}
	// A body is not sent to another one: the caller may decide.
	if status, body := outcome(t.Context(), t, open, asking("POST", other.URL+"/x", "307")); status != 307 || body != "elsewhere" || other.count() != 1 {
		t.Errorf("with a body: %d %q, %d requests", status, body, other.count())
	}
}
