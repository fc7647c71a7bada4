package local_test

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/body"
	"waybill.dev/shared/body/bodytest"
)

// Policies that need headers alone refuse a request of which nothing but the header has come.
func TestHeaderPoliciesComeBeforeTheBody(t *testing.T) {
	t.Parallel()
	anything := module{"echo": echo}
	post := func(path string, inbound ...string) operation {
		o := calls("POST", "/"+path, "echo").with("policies", m{"inbound": inbound, "outbound": []string{}})
		o.id = path
		return o
	}
	asked := strings.Replace(document(post("asked", "set", "drop", "query", "plain", "validate")),
		`"operationId":"asked"`, `"operationId":"asked","parameters":[{"name":"q","in":"query","required":true,"schema":{"type":"string"}}]`, 1)
	r := newRig(t, files{
		"policies.json": policies(nil,
			[4]any{"key", "api-key-inbound", "ApiKeyInboundPolicy", m{}},
			[4]any{"elsewhere", "ip-restriction-inbound", "IpRestrictionInboundPolicy", m{"deny": []string{"127.0.0.0/8"}}},
			[4]any{"rarely", "rate-limit-inbound", "RateLimitInboundPolicy", m{"rateLimitBy": "ip", "requestsAllowed": 1, "timeWindowMinutes": 60}},
			[4]any{"set", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "first")},
			[4]any{"drop", "remove-headers-inbound", "RemoveHeadersInboundPolicy", m{"headers": []string{"X-Two"}}},
			[4]any{"query", "set-query-params-inbound", "SetQueryParamsInboundPolicy", m{"params": []m{{"name": "a", "value": "b"}}}},
			[4]any{"plain", "remove-query-params-inbound", "RemoveQueryParamsInboundPolicy", m{"params": []string{"a"}}},
			[4]any{"validate", "request-validation-inbound", "RequestValidationInboundPolicy", m{}},
		),
		"a.oas.json": document(post("key", "set", "drop", "query", "plain", "key"), post("address", "elsewhere"), post("limit", "rarely")),
		"b.oas.json": asked,
	}, anything)
	r.do(http.MethodPost, "/limit", "x")
	for path, status := range map[string]int{"/key": 401, "/address": 403, "/limit": 429, "/asked": 400} {
		conn, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", strings.TrimPrefix(r.url, "http://"))
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = conn.Close() })
		_ = conn.SetDeadline(time.Now().Add(10 * time.Second)) // the server's own is 15 s
		fmt.Fprintf(conn, "POST %s HTTP/1.1\r\nHost: x\r\nContent-Length: 1000000\r\n\r\n", path)
		answer := make([]byte, len("HTTP/1.1 401"))
		if _, err := io.ReadFull(conn, answer); err != nil || string(answer) != fmt.Sprint("HTTP/1.1 ", status) {
			t.Errorf("%s: %q, %v, want %d before the body", path, answer, err, status)
		}
	}
}

// Policies are asked in the order in which they stand, also when one of them needs the body.
func TestABodyPolicyKeepsItsPlace(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{
		"policies.json": policies(nil,
			[4]any{"small", "request-size-limit-inbound", "RequestSizeLimitInboundPolicy", m{"maxSizeInBytes": 3}},
			[4]any{"key", "api-key-inbound", "ApiKeyInboundPolicy", m{}},
		),
		"a.oas.json": document(calls("POST", "/x", "echo").with("policies", m{"inbound": []string{"small", "key"}, "outbound": []string{}})),
	}, module{"echo": echo})
	r.do(http.MethodPost, "/x", "long").problem(http.StatusRequestEntityTooLarge, "TOO_LARGE")
	r.do(http.MethodPost, "/x", "abc").problem(http.StatusUnauthorized, "UNAUTHENTICATED")
}

// The time that a route has begins after the body, however long that took.
func TestSlowBodyOfARoute(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	(&rig{t: t, dir: dir}).write(files{"a.oas.json": document(calls("POST", "/x", "had").with("timeoutSeconds", 1))})
	synctest.Test(t, func(t *testing.T) {
		var had time.Duration
		o := options(dir, module{"had": gatewaytest.Func(func(ctx context.Context, r *route.Request) (*route.Response, error) {
			deadline, _ := ctx.Deadline()
			had = time.Until(deadline)
			return text(200, strconv.Itoa(len(r.Body))), nil
		})}, io.Discard)
		g, err := local.New(o)
		if err != nil {
			t.Fatal(err)
		}
		s := bodytest.StartServer(t, g)()
		s.Head("/x", 200_000)
		s.Send(strings.Repeat("x", 200_000), 5_000) // 40 s
		if response, answer := s.Read(); response.StatusCode != http.StatusOK || answer != "200000" || had != time.Second || response.Close {
			t.Errorf("status %d %q, and the handler had %s; closed %t", response.StatusCode, answer, had, response.Close)
		}
		s = bodytest.StartServer(t, g)()
		s.Head("/x", 200_000)
		go s.Send(strings.Repeat("x", 200_000), 500)
		if response, answer := s.Read(); response.StatusCode != http.StatusRequestTimeout || !strings.Contains(answer, "REQUEST_TIMEOUT") {
			t.Errorf("a body of 500 bytes a second: %d %s", response.StatusCode, answer)
		}
	})
}

// What a back end answers is held in the same memory as bodies, and no longer than the call:
// all of it where the whole is needed, and a part of what is passed on.
func TestAnswersShareTheMemoryOfBodies(t *testing.T) {
	t.Parallel()
	backEnd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/long" {
			_, _ = w.Write(make([]byte, 900_000))
		}
	}))
	t.Cleanup(backEnd.Close)
	dir := t.TempDir()
	forward := func(path, id string) operation {
		return operation{method: "POST", path: path, id: id, handler: runtimeHandler("urlForwardHandler", m{"baseUrl": backEnd.URL})}
	}
	(&rig{t: t, dir: dir}).write(files{"a.oas.json": document(forward("/long", "long"), forward("/short", "short"),
		operation{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"operations": []m{{"file": "a.oas.json", "id": "long"}}})})})
	o := options(dir, nil, io.Discard)
	registry := prometheus.NewRegistry()
	o.Memory = body.NewMemory(512<<10, registry)
	g, err := local.New(o)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for path, want := range map[string]int{"/long": 900_000, "/short": 0} {
			recorder := httptest.NewRecorder()
			request := httptest.NewRequest(http.MethodPost, path, strings.NewReader(strings.Repeat("x", 200<<10)))
			g.ServeHTTP(recorder, request)
			if recorder.Code != http.StatusOK || recorder.Body.Len() != want {
				t.Errorf("%s: %d with %d bytes, want %d", path, recorder.Code, recorder.Body.Len(), want)
			}
		}
		recorder := httptest.NewRecorder()
		g.ServeHTTP(recorder, httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"long"}}`)))
		if recorder.Code != http.StatusOK || !strings.Contains(recorder.Body.String(), "UNAVAILABLE") {
			t.Errorf("a tool, whose answer must be whole: %d %.300s", recorder.Code, recorder.Body)
		}
	}
	closed(t, g)
}

// closed closes what the routes have open.
func closed(t *testing.T, g *local.Routes) {
	t.Helper()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if err := g.Run(ended); err != nil {
		t.Error(err)
	}
}
