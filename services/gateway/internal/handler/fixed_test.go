package handler_test

import (
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/route"
)

func TestStatic(t *testing.T) {
	t.Parallel()
	e := env(production())
	e.Folder = fstest.MapFS{
		"pages/home.html": {Data: []byte("<p>home</p>")}, "data.JSON": {Data: []byte("{}")}, "raw": {Data: []byte{0, 1}},
		"full.txt": {Data: make([]byte, route.MaxResponse)}, "readme.md": {Data: []byte("# x")},
	}
	for _, row := range []struct {
		options, body, media string
		status               int
	}{
		{`{"body":"hello"}`, "hello", "text/plain; charset=utf-8", 200},
		{`{"body":"a\u0041\n"}`, "aA\n", "text/plain; charset=utf-8", 200},
		{`{"body":""}`, "", "text/plain; charset=utf-8", 200},
		{`{"body":{"b": 1, "a": [2]}}`, `{"b": 1, "a": [2]}`, "application/json", 200},
		{`{"body":[1]}`, `[1]`, "application/json", 200},
		{`{"body":null}`, `null`, "application/json", 200},
		{`{"body":"<p>","contentType":"text/html+skybridge"}`, "<p>", "text/html+skybridge", 200},
		{`{"body":"x","headers":{"content-type":"text/css"}}`, "x", "text/css", 200},
		{`{"body":"x","status":404}`, "x", "text/plain; charset=utf-8", 404},
		{`{"status":204}`, "", "", 204},
		{`{"file":"pages/home.html"}`, "<p>home</p>", "text/html; charset=utf-8", 200},
		{`{"file":"./data.JSON"}`, "{}", "application/json", 200},
		{`{"file":"readme.md"}`, "# x", "text/markdown; charset=utf-8", 200},
		{`{"file":"raw"}`, "\x00\x01", "application/octet-stream", 200},
		{`{"file":"raw","contentType":"image/png"}`, "\x00\x01", "image/png", 200},
		{`{"file":"full.txt"}`, string(make([]byte, route.MaxResponse)), "text/plain; charset=utf-8", 200},
	} {
		response, err := newHandler(t, "staticHandler", row.options, e).Handle(t.Context(), call("GET", "/", ""))
		if err != nil {
			t.Fatal(err)
		}
		if response.Status != row.status || string(response.Body) != row.body || response.Header.Get("Content-Type") != row.media {
			t.Errorf("%s: %d %s %.40q", row.options, response.Status, response.Header, response.Body)
		}
	}
}

// What is done to one answer is not seen in the next.
func TestStaticAnswersAreApart(t *testing.T) {
	t.Parallel()
	h := newHandler(t, "staticHandler", `{"body":"x","headers":{"X-A":"1","x-b":"2"}}`, env(production()))
	for range 2 {
		response, err := h.Handle(t.Context(), call("GET", "/", ""))
		if err != nil {
			t.Fatal(err)
		}
		want := http.Header{"Content-Type": {"text/plain; charset=utf-8"}, "X-A": {"1"}, "X-B": {"2"}}
		if diff := cmp.Diff(want, response.Header); diff != "" || string(response.Body) != "x" || response.Status != 200 {
			t.Errorf("%d %q (-want +got):\n%s", response.Status, response.Body, diff)
		}
		response.Header.Set("X-A", "9")
		response.Header.Del("X-B")
		response.Status, response.Body = 500, nil
	}
}

func TestStaticFaults(t *testing.T) {
	t.Parallel()
	e := env(production())
	e.Folder = fstest.MapFS{
		"dir/x.txt": {Data: []byte("x")}, "long.txt": {Data: make([]byte, route.MaxResponse+1)}, "pipe": {Mode: fs.ModeNamedPipe},
	}
	const outside = "handler/options/file must be the relative path of a file in the folder of the route files"
	const missing = "handler/options/file is not a readable file in the folder of the route files"
	for options, want := range map[string]string{
		`{}`:                                              "handler/options must have body or file",
		`{"body":"x","file":"dir/x.txt"}`:                 "handler/options/file must not be given together with body",
		`{"body":"x","status":204}`:                       "handler/options/status is a status whose answers have no body",
		`{"body":"x","status":199}`:                       "handler/options/status must be from 200 to 599",
		`{"body":"x","status":"200"}`:                     "handler/options/status must be a whole number",
		`{"body":"x","contentType":"hunter2/"}`:           "handler/options/contentType must be a media type",
		`{"body":"x","contentType":"a/b; x=\"a\nb\""}`:    "handler/options/contentType must be a media type",
		`{"body":"x","headers":{"a b":"x","C":"x\r\ny"}}`: "handler/options/headers/C is not a valid header value; handler/options/headers/a b is not a valid header name",
		`{"body":"x","headers":{"Content-Length":"9"}}`:   "handler/options/headers/Content-Length belongs to the connection",
		`{"body":"x","bodyy":"x"}`:                        "handler/options/bodyy is not a known member",
		`{"file":1}`:                                      "handler/options/file must be a string",
		`{"file":"../secret"}`:                            outside,
		`{"file":"dir/../../secret"}`:                     outside,
		`{"file":"/etc/passwd"}`:                          outside,
		`{"file":"dir\\..\\x"}`:                           outside,
		`{"file":"././dir/x.txt"}`:                        outside,
		`{"file":"dir"}`:                                  missing,
		`{"file":"pipe"}`:                                 missing,
		`{"file":"nothing"}`:                              missing,
		`{"file":"long.txt"}`:                             "handler/options/file is longer than 1048576 bytes",
		`"x"`:                                             "handler/options must be an object",
	} {
		if got := faultsOf(t, "staticHandler", options, e); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
	if got := faultsOf(t, "statikHandler", `{}`, e); got != "handler/export is not one of @gateway/runtime: staticHandler, urlForwardHandler, urlRewriteHandler, redirectHandler, openApiSpecHandler, mcpServerHandler" {
		t.Errorf("a handler that is none: %q", got)
	}
}

func TestRedirect(t *testing.T) {
	t.Parallel()
	e := env(production(), "SITE", "https://www.example.com", "BAD", "java script:x")
	for _, row := range []struct {
		options, location string
		status            int
	}{
		{`{"location":"/new?a=b"}`, "/new?a=b", 302},
		{`{"location":"https://example.com/","status":308}`, "https://example.com/", 308},
		{`{"location":"${env.SITE}/new","status":301}`, "https://www.example.com/new", 301},
	} {
		response, err := newHandler(t, "redirectHandler", row.options, e).Handle(t.Context(), call("GET", "/x", "location=//evil"))
		if err != nil || response.Status != row.status || response.Header.Get("Location") != row.location || len(response.Body) > 0 {
			t.Errorf("%s: %+v, %v", row.options, response, err)
		}
	}
	for options, want := range map[string]string{
		`{}`:                                   "handler/options/location is required",
		`{"location":"javascript:alert(1)"}`:   "handler/options/location must be an http or https URL, or a path that begins with a slash",
		`{"location":"x"}`:                     "handler/options/location must be an http or https URL, or a path that begins with a slash",
		`{"location":"/a\r\nb"}`:               "handler/options/location must be an http or https URL, or a path that begins with a slash",
		`{"location":"${env.BAD}"}`:            "handler/options/location must be an http or https URL, or a path that begins with a slash",
		`{"location":"${env.UNSET}"}`:          "handler/options/location names a variable of the environment that is not set",
		`{"location":"https://${query.host}"}`: "handler/options/location may have ${env.NAME}, and nothing of a request",
		`{"location":"/${"}`:                   "handler/options/location has ${ without }",
		`{"location":"/","status":304}`:        "handler/options/status must be 301, 302, 303, 307 or 308",
	} {
		if got := faultsOf(t, "redirectHandler", options, e); got != want {
			t.Errorf("%s: %q, want %q", options, got, want)
		}
	}
	if got := faultsOf(t, "redirectHandler", `{"location":"${evn.X}"}`, e); !strings.HasPrefix(got, "handler/options/location has an unknown expression") {
		t.Errorf("an expression that is none: %q", got)
	}
}
