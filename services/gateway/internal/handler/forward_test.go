package handler_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/handler"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/egress/hostile"
)

func forwardTo(base string, more ...string) string {
	return `{"baseUrl":"` + base + `"` + strings.Join(append([]string{""}, more...), ",") + `}`
}

func TestForward(t *testing.T) {
	t.Parallel()
	b := record(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Answer", "yes")
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "short and stout")
	})
	e := env(production(), "BACK", b.URL+"/api/")
	for _, row := range []struct{ options, path, query, want string }{
		{forwardTo(b.URL), "/pizza", "", "/pizza"},
		{forwardTo(b.URL + "/"), "/", "", "/"},
		{forwardTo(b.URL + "/v%31/a"), "/pizza/x%2Fy%20z", "b=2&a=1&b=%26", "/v%31/a/pizza/x%2Fy%20z?b=2&a=1&b=%26"},
		{forwardTo("${env.BACK}"), "/pizza", "q=x+y", "/api/pizza?q=x+y"},
		{forwardTo(b.URL, `"forwardSearch":false`), "/pizza", "q=1", "/pizza"},
		{forwardTo(b.URL), "//evil.example/x", "", "//evil.example/x"},
		{forwardTo(b.URL), "/pizza/x%5Cy", "", "/pizza/x%5Cy"},
		{forwardTo(b.URL), "/@evil.example/%40", "", "/@evil.example/%40"},
		{forwardTo(b.URL), "/a.b/..c/d..", "", "/a.b/..c/d.."},
	} {
		r := call("POST", row.path, row.query)
		r.Body = []byte("a body")
		response, err := newHandler(t, "urlForwardHandler", row.options, e).Handle(t.Context(), r)
		if err != nil {
			t.Errorf("%s: %v", row.path, err)
			continue
		}
		got := b.last(t)
		if response.Status != 418 || string(response.Body) != "short and stout" || response.Header.Get("X-Answer") != "yes" {
			t.Errorf("%s: answer %+v", row.path, response)
		}
		if want := "POST " + row.want; got.line != want || got.body != "a body" || got.length != 6 || got.host != strings.TrimPrefix(b.URL, "http://") {
			t.Errorf("%s: asked %+v, want %s", row.path, got, want)
		}
	}
}

// Nothing that callers say in headers makes a back end take them for somebody else, or
// take the request for another one; and what they show the gateway stays with it.
func TestForwardHeaders(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
	r := call("POST", "/x", "")
	r.Streams, r.Body = true, []byte("four")
	r.Header = http.Header{
		"Accept": {"text/plain"}, "Content-Type": {"text/plain"}, "User-Agent": {"tester"}, "X-Tenant": {"a", "b"}, "Traceparent": {"00-1"},
		"Authorization": {"Bearer secret"}, "X-Api-Key": {"secret"}, "Cookie": {"secret"}, "X_Api_Key": {"secret"}, "Cookie2": {"secret"},
		"Connection": {"keep-alive, X-Drop", "x_drop_too"}, "X-Drop": {"1"}, "X-Drop-Too": {"1"}, "Keep-Alive": {"1"}, "Te": {"trailers"},
		"Trailer": {"X-T"}, "Upgrade": {"h2c"}, "Http2-Settings": {"x"}, "Proxy-Authorization": {"secret"}, "Proxy-Connection": {"x"},
		"Transfer-Encoding": {"chunked"}, "Content-Length": {"1"}, "Host": {"evil.example"}, "Expect": {"100-continue"},
		"X-Forwarded-For": {"127.0.0.1"}, "X-Forwarded-Host": {"evil.example"}, "X-Forwarded-Proto": {"http"}, "X-Forwarded-User": {"root"},
		"Proxy": {"http://evil.example"}, "Remote-User": {"root"}, "Remote_User": {"root"}, "X-Remote-User": {"root"}, "X-Remote-Group": {"root"}, "X.Remote.User": {"root"},
		"X-Client-Cert": {"x"}, "X-Client-Cert-Dn": {"x"}, "X-Ssl-Client-Cert": {"x"}, "X_ssl_client_verify": {"SUCCESS"}, "Ssl-Client-Cert": {"x"}, "X-Remote-Addr": {"127.0.0.1"},
		"X_Forwarded_For": {"127.0.0.1"}, "Forwarded": {"for=127.0.0.1"}, "X-Real-Ip": {"127.0.0.1"}, "Via": {"1.1 x"},
		"X-Http-Method-Override": {"DELETE"}, "X-Original-Url": {"/admin"}, "X-Rewrite-Url": {"/admin"}, "X-Request-Id": {"evil"},
		"Accept-Encoding": {"gzip"},
	}
	if status, _ := outcome(t.Context(), t, h, r); status != 200 {
		t.Fatalf("status %d", status)
	}
	got := b.last(t)
	want := http.Header{
		"Accept": {"text/plain"}, "Content-Type": {"text/plain"}, "User-Agent": {"tester"}, "X-Tenant": {"a", "b"}, "Traceparent": {"00-1"},
		"Content-Length": {"4"}, "X-Forwarded-For": {"192.0.2.7"}, "X-Forwarded-Host": {"gateway.example"}, "X-Forwarded-Proto": {"https"},
		"X-Request-Id": {"req-1"}, "Accept-Encoding": {"gzip"},
	}
	if diff := cmp.Diff(want, got.header); diff != "" || got.body != "four" || got.host != strings.TrimPrefix(b.URL, "http://") {
		t.Errorf("%s %q (-want +got):\n%s", got.host, got.body, diff)
	}
	if len(r.Header["Authorization"]) != 1 {
		t.Error("the request's own header was changed")
	}

	// What policies set for the back end gets there, whatever its name.
	r.Outgoing = http.Header{"Authorization": {"Bearer of-the-back-end"}, "Cookie": {"a=b"}, "Connection": {"X-Tenant"}}
	if status, _ := outcome(t.Context(), t, h, r); status != 200 {
		t.Fatalf("status %d", status)
	}
	want["Authorization"], want["Cookie"] = []string{"Bearer of-the-back-end"}, []string{"a=b"}
	if diff := cmp.Diff(want, b.last(t).header); diff != "" {
		t.Errorf("with those of policies (-want +got):\n%s", diff)
	}
}

// Headers that would become two, or end the header, are not sent.
func TestForwardSmuggling(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
	for _, header := range []http.Header{
		{"X-A": {"a\r\nX-B: b"}},
		{"X-A": {"a\r\n\r\nGET /admin HTTP/1.1\r\nHost: x\r\n\r\n"}},
		{"X-A\r\nX-B": {"b"}},
		{"X-A: 1\r\nX-B": {"b"}},
		{"": {"b"}},
	} {
		r := call("POST", "/x", "")
		r.Header, r.Body = header, []byte("GET /admin HTTP/1.1\r\n\r\n")
		if status, _ := outcome(t.Context(), t, h, r); status != 502 {
			t.Errorf("%q: %d", header, status)
		}
	}
	r := call("POST", "/x", "a=%0d%0aX-B:%20b&b=%20HTTP/1.1")
	r.Host, r.Remote = "x\r\nX-B: b", ""
	if status, _ := outcome(t.Context(), t, h, r); status != 502 {
		t.Errorf("a host of two lines: %d", status)
	}
	if n := b.count(); n != 0 {
		t.Fatalf("the back end was asked %d times", n)
	}
	r.Host = ""
	if status, _ := outcome(t.Context(), t, h, r); status != 200 {
		t.Errorf("a query of two lines: %d", status)
	}
	if got := b.last(t); got.line != "POST /x?a=%0d%0aX-B:%20b&b=%20HTTP/1.1" || got.header.Get("X-B") != "" {
		t.Errorf("asked %+v", got)
	}
}

// dotted are paths that mean another one to somebody.
func dotted() []string {
	return []string{
		"/a/../admin", "/a/./b", "/..", "/.", "/a/%2e%2e/admin", "/a/.%2E/admin", "/a/..%2fadmin", "/a/x%2f..%2fadmin", "/a%2f..",
		"/a/%252e%252e/admin", "/a/..%252fadmin", "/a/%25252e%25252e/admin", "/a/..%5cadmin", "/a/x%5c..", "/a/..;/admin",
		"/a/..;x=y/admin", "/a/%2e%2e;/admin", "/a/..%3b/admin", "/a/..%3bx/",
		"/a/%252e%252e/admin/%25zz", "/a/%252e%252e%252fadmin/100%25",
	}
}

func TestForwardTraversal(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL+"/public"), env(production()))
	for _, path := range dotted() {
		if status, _ := outcome(t.Context(), t, h, call("GET", path, "")); status != 400 {
			t.Errorf("%s: %d", path, status)
		}
	}
	for _, path := range []string{"", "x", "?a", "http://evil.example/", "/%", "/%zz", "/a b", "/a?b", "/a#b", "/\x00", "/\r\n"} {
		if _, err := h.Handle(t.Context(), call("GET", path, "")); err == nil {
			t.Errorf("%q is asked for", path)
		}
	}
	if n := b.count(); n != 0 {
		t.Errorf("the back end was asked %d times: %+v", n, b.last(t))
	}
}

func TestForwardAnswerHeaders(t *testing.T) {
	t.Parallel()
	b := record(t, func(w http.ResponseWriter, _ *http.Request) {
		for name, value := range map[string]string{
			"Content-Type": "text/plain", "Etag": `"1"`, "Location": "http://inside/", "Www-Authenticate": "Basic", "X-A": "1", "Retry-After": "3",
			"Connection": "X-Drop", "X-Drop": "1", "Keep-Alive": "1", "Upgrade": "x", "Proxy-Authenticate": "x", "Trailer": "X-T",
			"Set-Cookie": "session=1", "Alt-Svc": "h2=\":1\"", "Strict-Transport-Security": "max-age=1", "Access-Control-Allow-Origin": "*",
			"X-Request-Id": "other", "Date": "Mon, 02 Jan 2006 15:04:05 GMT", "X-Accel-Expires": "0",
		} {
			w.Header().Set(name, value)
		}
		w.WriteHeader(http.StatusFound)
		_, _ = io.WriteString(w, "there")
	})
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
	response, err := h.Handle(t.Context(), call("GET", "/x", ""))
	if err != nil {
		t.Fatal(err)
	}
	want := http.Header{
		"Content-Type": {"text/plain"}, "Etag": {`"1"`}, "Location": {"http://inside/"}, "Www-Authenticate": {"Basic"}, "X-A": {"1"}, "Retry-After": {"3"},
		"Date": {"Mon, 02 Jan 2006 15:04:05 GMT"}, "X-Accel-Expires": {"0"},
	}
	if diff := cmp.Diff(want, response.Header); diff != "" || response.Status != 302 || string(response.Body) != "there" {
		t.Errorf("%d %q (-want +got):\n%s", response.Status, response.Body, diff)
	}
}

// An answer may be as long as answers of routes may be, and no longer, whether it says so
// beforehand or not.
func TestForwardLength(t *testing.T) {
	t.Parallel()
	b := record(t, func(w http.ResponseWriter, r *http.Request) {
		size := route.MaxResponse
		if strings.Contains(r.URL.Path, "more") {
			size++
		}
		if strings.Contains(r.URL.Path, "told") {
			w.Header().Set("Content-Length", strconv.Itoa(size))
		}
		_, _ = w.Write(make([]byte, size))
	})
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
	for path, want := range map[string]int{"/told": 200, "/chunked": 200, "/told-more": 502, "/chunked-more": 502} {
		status, body := outcome(t.Context(), t, h, call("GET", path, ""))
		if status != want || want == 200 && len(body) != route.MaxResponse {
			t.Errorf("%s: %d with %d bytes", path, status, len(body))
		}
	}
	if status, body := outcome(t.Context(), t, h, call("HEAD", "/told-more", "")); status != 200 || body != "" {
		t.Errorf("HEAD, whose answer has no body: %d %q", status, body)
	}
}

func TestForwardDeadlines(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	hang := func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/body" {
			_, _ = io.WriteString(w, "the beginning")
			_ = http.NewResponseController(w).Flush()
		}
		select {
		case <-release:
		case <-r.Context().Done():
		}
	}
	b := record(t, hang)
	t.Cleanup(func() { close(release) })
	own := newHandler(t, "urlForwardHandler", forwardTo(b.URL, `"timeoutSeconds":0.1`), env(production()))
	for _, path := range []string{"/", "/body"} {
		if status, _ := outcome(t.Context(), t, own, call("GET", path, "")); status != 504 {
			t.Errorf("%s, its own deadline: %d", path, status)
		}
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
		if status, _ := outcome(ctx, t, h, call("GET", path, "")); status != 504 {
			t.Errorf("%s, the call's deadline: %d", path, status)
		}
		cancel()
		gone, hangUp := context.WithCancel(t.Context())
		go hangUp()
		if _, err := h.Handle(gone, call("GET", path, "")); !errors.Is(err, context.Canceled) {
			t.Errorf("%s, the caller is gone: %v", path, err)
		}
	}
}

// Whatever a back end does, the answer comes in time and is a whole one or a problem, and
// who asks another back end notices nothing of it.
func TestForwardToHostileBackEnds(t *testing.T) { // not parallel: the neighbour's time is measured
	neighbour := record(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "fine") })
	next := newHandler(t, "urlForwardHandler", forwardTo(neighbour.URL), env(production()))
	for _, sink := range hostile.Sinks() {
		t.Run(sink.Name, func(t *testing.T) {
			base, _, _ := strings.Cut(sink.Start(t), "?")
			h := newHandler(t, "urlForwardHandler", forwardTo(strings.TrimSuffix(base, "/"), `"timeoutSeconds":0.2`), env(production()))
			type result struct {
				status int
				took   time.Duration
			}
			results := make(chan result, 5)
			for range cap(results) {
				go func() {
					start := time.Now()
					r := call("POST", "/", "")
					r.Body = make([]byte, 64<<10)
					status, _ := outcome(t.Context(), t, h, r)
					results <- result{status, time.Since(start)}
				}()
			}
			start := time.Now()
			if status, body := outcome(t.Context(), t, next, call("GET", "/", "")); status != 200 || body != "fine" || time.Since(start) > 2*time.Second {
				t.Errorf("the neighbour got %d %q after %s", status, body, time.Since(start))
			}
			for range cap(results) {
				got := <-results
				if got.took > 2*time.Second {
					t.Errorf("it took %s", got.took)
				}
				if sink.Status == 0 && got.status != 502 && got.status != 504 || sink.Status != 0 && got.status != sink.Status && got.status != 502 && got.status != 504 {
					t.Errorf("status %d", got.status)
				}
			}
		})
	}
}

// What is told of a failure has nothing of the request or the back end in it; neither has
// the log the path or the query, where secrets of back ends are kept by some.
func TestForwardFailureTellsNothing(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	gone := b.URL
	b.Close()
	h := newHandler(t, "urlForwardHandler", forwardTo(gone+"/base-hunter2"), env(production()))
	r := call("GET", "/path-hunter2", "query=hunter2")
	r.Header.Set("X-Secret", "hunter2")
	_, err := h.Handle(t.Context(), r)
	if err == nil || strings.Contains(err.Error(), "hunter2") || !strings.Contains(err.Error(), "connect_refused") {
		t.Errorf("for the log: %v", err)
	}
	if status, detail := outcome(t.Context(), t, h, r); status != 502 || detail != "The back end can't be reached." {
		t.Errorf("for the caller: %d %q", status, detail)
	}
}

// Connections are used again, and closed as soon as the routes are others.
func TestForwardConnections(t *testing.T) {
	t.Parallel()
	b := record(t, nil)
	h := newHandler(t, "urlForwardHandler", forwardTo(b.URL), env(production()))
	for range 5 {
		outcome(t.Context(), t, h, call("GET", "/", ""))
	}
	if n := b.connections.Load(); n != 1 {
		t.Errorf("%d connections for five requests, one after the other", n)
	}
	h.(*served).pools.Keep(nil)
	deadline := time.After(10 * time.Second)
	for b.open.Load() > 0 {
		select {
		case <-deadline:
			t.Fatalf("%d connections are open", b.open.Load())
		case <-time.After(time.Millisecond):
		}
	}
	if status, _ := outcome(t.Context(), t, h, call("GET", "/", "")); status != 200 {
		t.Errorf("a call that has begun before: %d", status)
	}
}

func TestForwardFaults(t *testing.T) {
	t.Parallel()
	e := env(production(), "BAD", "hunter2", "META", "http://169.254.169.254")
	for options, want := range map[string]string{
		`{}`: "handler/options/baseUrl is required",
		`{"baseUrl":"https://example.com","baseURL":"x"}`:                    "handler/options/baseURL is not a known member",
		`{"baseUrl":1,"forwardSearch":1,"followRedirects":"no"}`:             "handler/options/baseUrl must be a string; handler/options/followRedirects must be true or false; handler/options/forwardSearch must be true or false",
		`{"baseUrl":"example.com"}`:                                          "handler/options/baseUrl must be an absolute http or https URL",
		`{"baseUrl":"ftp://example.com"}`:                                    "handler/options/baseUrl must be an http or https URL",
		`{"baseUrl":"https://a:b@example.com"}`:                              "handler/options/baseUrl must not have a user name or password",
		`{"baseUrl":"https://example.com?a=b"}`:                              "handler/options/baseUrl must not have a query",
		`{"baseUrl":"https://example.com#a"}`:                                "handler/options/baseUrl must not have a fragment",
		`{"baseUrl":"${env.BAD}"}`:                                           "handler/options/baseUrl must be an absolute http or https URL",
		`{"baseUrl":"${env.META}"}`:                                          "handler/options/baseUrl has an address that is not allowed",
		`{"baseUrl":"${env.UNSET}"}`:                                         "handler/options/baseUrl names a variable of the environment that is not set",
		`{"baseUrl":"https://${params.id}.example.com"}`:                     "handler/options/baseUrl may have ${env.NAME}, and nothing of a request",
		`{"baseUrl":"https://${headers.host}"}`:                              "handler/options/baseUrl may have ${env.NAME}, and nothing of a request",
		`{"baseUrl":"https://example.com","timeoutSeconds":0}`:               "handler/options/timeoutSeconds must be from 0.001 to 60",
		`{"baseUrl":"https://example.com","timeoutSeconds":11}`:              "handler/options/timeoutSeconds must not be longer than the time limit of the call: 10 seconds, unless the route's timeoutSeconds is larger",
		`{"baseUrl":"https://example.com","mtlsCertificate":"/etc/hunter2"}`: "handler/options/mtlsCertificate is not a known member",
	} {
		if got := faultsOf(t, "urlForwardHandler", options, e); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
	op := operation("urlForwardHandler", `{"baseUrl":"https://example.com"}`)
	op.Method = "TRACE"
	if _, faults := handler.New(op, e); !cmp.Equal(faults, []string{"handler/options can't be used for TRACE"}) {
		t.Errorf("TRACE: %v", faults)
	}
	e.Egress = nil // where nothing is to be asked, but only checked
	op.Method, op.Timeout = "GET", 30*time.Second
	op.Handler.Options = []byte(`{"baseUrl":"https://example.com","timeoutSeconds":30}`)
	if _, faults := handler.New(op, e); len(faults) > 0 {
		t.Errorf("as long as the route may take: %v", faults)
	}
}
