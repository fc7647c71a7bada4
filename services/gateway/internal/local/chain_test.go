package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/problem"
)

// failing returns a handler that fails with a text that is nobody's business.
func failing(text string) route.Handler {
	return gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { return nil, errors.New(text) })
}

func text(status int, body string) *route.Response {
	return &route.Response{Status: status, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte(body)}
}

// echo tells what a handler gets.
var echo = gatewaytest.Func(func(_ context.Context, r *route.Request) (*route.Response, error) {
	who := "nobody"
	if r.Principal != nil {
		who = r.Principal.ID
	}
	body, err := json.Marshal(m{
		"method": r.Method, "path": r.Path, "params": r.Params, "query": r.Query.Values(), "body": string(r.Body), "one": r.Header.Get("X-One"),
		"remote": r.Remote, "scheme": r.Scheme, "who": who, "inside": r.Inside, "id": r.ID,
	})
	return &route.Response{Status: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}, "X-Request-Id": {"not ours"}}, Body: body}, err
})

func setHeader(name, value string) any { return m{"headers": []m{{"name": name, "value": value}}} }

// A request passes the inbound policies in their order, the handler, and the outbound ones.
// An answer of a policy or a back end passes the outbound policies too, an error does not.
func TestChain(t *testing.T) {
	t.Parallel()
	inbound := func(o operation, names ...string) operation {
		return o.with("policies", m{"inbound": append([]string{}, names...), "outbound": []string{"mark", "mark-again"}})
	}
	r := newRig(t, files{
		"policies.json": policies(nil,
			[4]any{"key", "api-key-inbound", "ApiKeyInboundPolicy", m{}},
			[4]any{"one", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "first")},
			[4]any{"two", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "second $env(SET)")},
			[4]any{"mark", "set-headers-outbound", "SetHeadersOutboundPolicy", setHeader("X-Mark", "one")},
			[4]any{"mark-again", "set-headers-outbound", "SetHeadersOutboundPolicy", setHeader("X-Mark", "two")},
		),
		"a.oas.json": document(
			inbound(calls("POST", "/echo/{name}/{rest}", "echo"), "one", "two", "key"),
			inbound(calls("GET", "/teapot", "teapot"), "two", "one"),
			inbound(calls("GET", "/problem", "problem")),
		),
	}, module{
		"echo": echo,
		"teapot": gatewaytest.Func(func(_ context.Context, r *route.Request) (*route.Response, error) {
			return text(418, r.Header.Get("X-One")), nil
		}),
		"problem": gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
			return nil, problem.New(problem.Conflict, "Told.")
		}),
	})
	refused := r.do(http.MethodPost, "/echo/a/b", "")
	refused.problem(http.StatusUnauthorized, "UNAUTHENTICATED")
	if refused.header.Get("Www-Authenticate") == "" || refused.header.Get("X-Mark") != "" {
		t.Errorf("header of a refusal: %v", refused.header)
	}
	got := r.do(http.MethodPost, "/echo/a%20b/c%2Fd?q=1&q=2", "body", "X-API-Key", "good", "X-Request-Id", "given", "X-One", "mine")
	var heard m
	if err := json.Unmarshal([]byte(got.body), &heard); err != nil {
		t.Fatalf("%v: %s", err, got.body)
	}
	want := m{
		"method": "POST", "path": "/echo/a%20b/c%2Fd", "params": m{"name": "a b", "rest": "c/d"}, "query": m{"q": []any{"1", "2"}}, "body": "body",
		"one": "second value of SET", "remote": "127.0.0.1", "scheme": "http", "who": "test", "inside": false, "id": "given",
	}
	if fmt.Sprint(heard) != fmt.Sprint(want) {
		t.Errorf("the handler got %v\nwant %v", heard, want)
	}
	if got.header.Get("X-Mark") != "two" || len(got.header.Values("X-Mark")) != 1 || got.header.Get("X-Request-Id") != "given" {
		t.Errorf("header of the answer: %v", got.header)
	}
	tea := r.do(http.MethodGet, "/teapot", "")
	tea.want(http.StatusTeapot, "first")
	if tea.header.Get("X-Mark") != "two" {
		t.Error("an answer that is no 2xx has not passed the outbound policies")
	}
	told := r.do(http.MethodGet, "/problem", "")
	told.problem(http.StatusConflict, "CONFLICT")
	if told.header.Get("X-Mark") != "" {
		t.Error("a problem has passed the outbound policies")
	}
}

// What goes wrong inside is told as a problem, which says nothing of the inside.
func TestFailures(t *testing.T) {
	t.Parallel()
	const secret = "wbk_of_somebody"
	handle := func(f func() (*route.Response, error)) route.Handler {
		return gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { return f() })
	}
	r := newRig(t, files{"a.oas.json": document(
		calls("GET", "/panics", "panics"), calls("GET", "/out-of-range", "outOfRange"), calls("GET", "/fails", "fails"), calls("GET", "/nothing", "nothing"),
		calls("GET", "/odd-status", "oddStatus"), calls("GET", "/long", "long"), calls("GET", "/full", "full"), calls("GET", "/no-type", "noType"),
		calls("GET", "/no-content", "noContent"), calls("GET", "/empty-404", "empty404"),
	)}, module{
		"panics":     handle(func() (*route.Response, error) { panic(secret) }),
		"outOfRange": handle(func() (*route.Response, error) { return text(200, []string{}[len(secret)-15]), nil }),
		"fails":      failing(secret),
		"nothing":    handle(func() (*route.Response, error) { return nil, nil }),
		"oddStatus":  handle(func() (*route.Response, error) { return text(101, "?"), nil }),
		"long":       handle(func() (*route.Response, error) { return text(200, strings.Repeat("x", route.MaxResponse+1)), nil }),
		"full":       handle(func() (*route.Response, error) { return text(200, strings.Repeat("x", route.MaxResponse)), nil }),
		"noType":     handle(func() (*route.Response, error) { return &route.Response{Status: 200, Body: []byte("<html>")}, nil }),
		"noContent": handle(func() (*route.Response, error) {
			return &route.Response{Status: 204, Header: http.Header{"X-One": {"1"}}}, nil
		}),
		"empty404": handle(func() (*route.Response, error) { return &route.Response{Status: 404}, nil }),
	})
	for path, want := range map[string]struct {
		status int
		code   string
	}{
		"/panics": {500, "INTERNAL"}, "/out-of-range": {500, "INTERNAL"}, "/fails": {500, "INTERNAL"}, "/nothing": {500, "INTERNAL"},
		"/odd-status": {502, "BAD_GATEWAY"}, "/long": {502, "BAD_GATEWAY"},
	} {
		got := r.do(http.MethodGet, path, "")
		got.problem(want.status, want.code)
		if strings.Contains(got.body, secret) || strings.Contains(got.body, "index") {
			t.Errorf("%s tells of the inside: %s", path, got.body)
		}
	}
	logs := r.logs.String()
	if strings.Contains(logs, "panic: "+secret) || !strings.Contains(logs, "index out of range") || !strings.Contains(logs, "chain_test.go") || strings.Count(logs, `"level":"ERROR"`) != 4 || strings.Count(logs, `"level":"WARN"`) != 2 {
		t.Errorf("the log should name each failure with its place, but no value of a panic:\n%s", logs)
	}
	if got := r.do(http.MethodGet, "/full", ""); got.status != 200 || len(got.body) != route.MaxResponse {
		t.Errorf("an answer of the longest kind: %d, %d bytes", got.status, len(got.body))
	}
	if media := r.do(http.MethodGet, "/no-type", "").header.Get("Content-Type"); media != "application/octet-stream" {
		t.Errorf("a body without a type is called %q", media)
	}
	got := r.do(http.MethodGet, "/no-content", "")
	got.want(204, "")
	if got.header.Get("X-One") != "1" {
		t.Error("the header of a 204 is lost")
	}
	r.do(http.MethodGet, "/empty-404", "").want(404, "")
}

// Requests are taken up to a bound, whatever they say of their length.
func TestRequestBound(t *testing.T) {
	t.Parallel()
	size := gatewaytest.Func(func(_ context.Context, r *route.Request) (*route.Response, error) {
		return text(200, strconv.Itoa(len(r.Body))), nil
	})
	r := newRig(t, files{"a.oas.json": document(
		calls("POST", "/size", "size"),
		operation{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"operations": []any{}})},
	)}, module{"size": size})
	post := func(path string, n int, chunked bool) answer {
		t.Helper()
		request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, r.url+path, bytes.NewReader(make([]byte, n)))
		if err != nil {
			t.Fatal(err)
		}
		if chunked {
			request.Body = io.NopCloser(request.Body)
			request.ContentLength = -1
		}
		return r.send(request)
	}
	for _, chunked := range []bool{false, true} {
		post("/size", route.MaxRequest, chunked).want(200, strconv.Itoa(route.MaxRequest))
		post("/size", route.MaxRequest+1, chunked).problem(413, "TOO_LARGE")
		if got := post("/mcp", route.MaxMCPRequest, chunked); got.status == 413 {
			t.Errorf("4 MiB for an MCP server: %d", got.status)
		}
		if got := post("/mcp", route.MaxMCPRequest+1, chunked); got.status != 413 {
			t.Errorf("more than 4 MiB for an MCP server: %d", got.status)
		}
	}
	post("/size", 0, false).want(200, "0")
}

// A call that takes too long is cut off at its deadline, also when the handler does not
// look at it, and nobody else notices.
func TestDeadline(t *testing.T) {
	t.Parallel()
	release := make(chan struct{})
	t.Cleanup(sync.OnceFunc(func() { close(release) }))
	r := newRig(t, files{"a.oas.json": document(
		calls("GET", "/deaf", "deaf").with("timeoutSeconds", 1), calls("GET", "/obedient", "obedient").with("timeoutSeconds", 1), static("GET", "/neighbour", "fine"),
	)}, module{
		"deaf": gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
			<-release
			return text(200, "late"), nil
		}),
		"obedient": gatewaytest.Func(func(ctx context.Context, _ *route.Request) (*route.Response, error) {
			<-ctx.Done()
			return nil, fmt.Errorf("wait: %w", ctx.Err())
		}),
	})
	var calls sync.WaitGroup
	for _, path := range []string{"/deaf", "/obedient", "/deaf", "/obedient"} {
		calls.Go(func() {
			started := time.Now()
			r.do(http.MethodGet, path, "").problem(http.StatusGatewayTimeout, "GATEWAY_TIMEOUT")
			if took := time.Since(started); took < 900*time.Millisecond || took > 5*time.Second {
				t.Errorf("%s answered after %s, want 1 s", path, took)
			}
		})
	}
	calls.Go(func() {
		for started := time.Now(); time.Since(started) < 900*time.Millisecond; {
			r.do(http.MethodGet, "/neighbour", "").want(200, "fine")
		}
	})
	calls.Wait()
}

// A call may take longer than the server gives its other connections.
func TestLongCall(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(calls("POST", "/long", "long").with("timeoutSeconds", 30))}, module{
		"long": gatewaytest.Func(func(ctx context.Context, _ *route.Request) (*route.Response, error) {
			select {
			case <-ctx.Done():
				return nil, ctx.Err()
			case <-time.After(time.Second):
				return text(200, "done"), nil
			}
		}),
	})
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		answer, _ := r.gateway.Match(request)
		answer(w, request, "id")
	}))
	server.Config.ReadTimeout, server.Config.WriteTimeout = 300*time.Millisecond, 300*time.Millisecond
	server.Start()
	defer server.Close()
	response, err := r.client.Post(server.URL+"/long", "text/plain", strings.NewReader("x"))
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	if body, err := io.ReadAll(response.Body); err != nil || string(body) != "done" {
		t.Errorf("%s, %v", body, err)
	}
}

// A back end that hangs, or answers without end, is cut off. See also TestAnswersThatBreakOff.
func TestBadBackEnds(t *testing.T) {
	t.Parallel()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, request *http.Request) {
		switch request.URL.Path {
		case "/hangs":
			<-request.Context().Done()
		default:
			_, _ = io.WriteString(w, "fine") // net/http leaves it out for HEAD
		}
	}))
	defer back.Close()
	gone, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	closed := "http://" + gone.Addr().String()
	_ = gone.Close()
	forward := func(path, to string) operation {
		return operation{method: "GET", path: path, id: "forward" + path[1:], route: m{"timeoutSeconds": 1}, handler: runtimeHandler("urlForwardHandler", m{"baseUrl": to})}
	}
	r := newRig(t, files{"a.oas.json": document(
		forward("/hangs", back.URL), forward("/fine", back.URL), forward("/gone", closed),
	)}, nil)
	var calls sync.WaitGroup
	for path, want := range map[string]int{"/hangs": 504, "/gone": 502} {
		calls.Go(func() {
			code := map[int]string{502: "BAD_GATEWAY", 504: "GATEWAY_TIMEOUT"}[want]
			r.do(http.MethodGet, path, "").problem(want, code)
		})
	}
	calls.Go(func() {
		for started := time.Now(); time.Since(started) < 900*time.Millisecond; {
			r.do(http.MethodGet, "/fine", "").want(200, "fine")
		}
	})
	calls.Wait()
	head := r.do(http.MethodHead, "/fine", "")
	head.want(200, "")
	if length := head.header.Get("Content-Length"); length == "0" {
		t.Error("HEAD tells of an empty body, which GET's is not")
	}
}
