package handler_test

import (
	"bufio"
	"bytes"
	"encoding/json"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/shared/domain"
)

const callersKey = "wbk_hunter2"

const policiesFile = `{"policies":[
	{"name":"key","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"scopes":["mcp:use"]}}},
	{"name":"back","policyType":"set-headers-inbound","handler":{"module":"$import(@gateway/runtime)","export":"SetHeadersInboundPolicy",
		"options":{"headers":[{"name":"Authorization","value":"Bearer $env(BACK_KEY)"}]}}},
	{"name":"valid","policyType":"request-validation-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy","options":{}}},
	{"name":"twice","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy",
		"options":{"rateLimitBy":"user","requestsAllowed":2,"timeWindowMinutes":60}}},
	{"name":"bare","policyType":"remove-headers-outbound","handler":{"module":"$import(@gateway/runtime)","export":"RemoveHeadersOutboundPolicy","options":{"headers":["X-Powered-By"]}}}
]}`

// routesFile has a back end behind a key, called by its path, by a rewrite and as a tool.
const routesFile = `{"openapi":"3.1.0","info":{"title":"Orders","version":"1"},"paths":{
"/orders/{id}":{
	"get":{"operationId":"order","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string","maxLength":20}},
			{"name":"limit","in":"query","schema":{"type":"integer","minimum":1}}],
		"x-gateway-route":{"policies":{"inbound":["key","back","valid"],"outbound":["bare"]},
			"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"${env.BACK}/base"}}}},
	"post":{"operationId":"change","parameters":[{"name":"id","in":"path","required":true,"schema":{"type":"string"}}],
		"requestBody":{"required":true,"content":{"application/json":{"schema":{"$ref":"#/components/schemas/Change"}}}},
		"x-gateway-route":{"policies":{"inbound":["key","valid"]},
			"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"${env.BACK}/v2/${params.id}/change"}}}}},
"/limited":{"get":{"operationId":"limited","x-gateway-route":{"policies":{"inbound":["key","twice"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"file":"pages/home.html"}}}}},
"/limited-too":{"get":{"operationId":"limitedToo","x-internal":true,"x-gateway-route":{"policies":{"inbound":["key","twice"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"redirectHandler","options":{"location":"/orders/1"}}}}},
"/openapi.json":{"get":{"operationId":"spec","x-gateway-route":{
	"handler":{"module":"$import(@gateway/runtime)","export":"openApiSpecHandler","options":{"openApiFilePath":"./config/routes.oas.json"}}}}},
"/mcp":{"post":{"operationId":"mcp","x-internal":true,"x-gateway-route":{"policies":{"inbound":["key"]},
	"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[{"file":"routes.oas.json","id":"order"},{"file":"routes.oas.json","id":"change"}]}}}}}},
"components":{"schemas":{"Change":{"type":"object","required":["count"],"properties":{"count":{"type":"integer"}}}}}}`

// rig is a gateway on loopback, whose host and port are address.
type rig struct {
	back    *recorder
	logs    *gatewaytest.Logs
	address string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	r := &rig{logs: &gatewaytest.Logs{}}
	r.back = record(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("X-Powered-By", "hunter2")
		_, _ = io.WriteString(w, "answer of the back end")
	})
	dir := t.TempDir()
	gatewaytest.Files{"routes.oas.json": routesFile, "policies.json": policiesFile, "pages/home.html": "<p>home</p>"}.Write(t, dir)
	o := gatewaytest.Options(dir, r.logs)
	o.Authenticator = gatewaytest.Keys{callersKey: {Account: "default", ID: "tester", Scopes: []domain.Scope{domain.ScopeMCP}}}
	o.Variables = site.Variables{"BACK": r.back.URL, "BACK_KEY": "key-of-the-back-end"}
	_, url := gatewaytest.Serve(t, o)
	r.address = strings.TrimPrefix(url, "http://")
	return r
}

// raw sends a text as it stands and returns the answer.
func (r *rig) raw(t *testing.T, text string) (status int, header http.Header, body string) {
	t.Helper()
	conn, err := net.Dial("tcp", r.address)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if err := conn.SetDeadline(time.Now().Add(20 * time.Second)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
	all, err := io.ReadAll(conn)
	if err != nil {
		t.Fatal(err)
	}
	method, _, _ := strings.Cut(text, " ")
	response, err := http.ReadResponse(bufio.NewReader(bytes.NewReader(all)), &http.Request{Method: method})
	if err != nil {
		t.Fatalf("%q: %q: %v", text, all, err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, response.Header, string(content)
}

// ask sends a request with a few header lines.
func (r *rig) ask(t *testing.T, line, body string, headers ...string) (status int, header http.Header, content string) {
	t.Helper()
	lines := append([]string{line + " HTTP/1.1", "Host: gateway.example", "Connection: close", "X-API-Key: " + callersKey}, headers...)
	if body != "" {
		lines = append(lines, "Content-Type: application/json", "Content-Length: "+strconv.Itoa(len(body)))
	}
	return r.raw(t, strings.Join(lines, "\r\n")+"\r\n\r\n"+body)
}

func TestBackEndThroughTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	status, header, body := r.ask(t, "GET /orders/a%2Fb?limit=3", "", "Cookie: session=hunter2", "X-Tenant: acme")
	if status != 200 || body != "answer of the back end" || header.Get("X-Powered-By") != "" {
		t.Fatalf("%d %v %q", status, header, body)
	}
	got := r.back.last(t)
	if got.line != "GET /base/orders/a%2Fb?limit=3" || got.header.Get("Authorization") != "Bearer key-of-the-back-end" ||
		got.header.Get("X-Tenant") != "acme" || got.header.Get("X-Forwarded-For") != "127.0.0.1" || got.header.Get("X-Forwarded-Host") != "gateway.example" {
		t.Errorf("asked %+v", got)
	}
	if status, _, body := r.ask(t, "POST /orders/7", `{"count":1}`); status != 200 {
		t.Errorf("a rewrite: %d %s", status, body)
	}
	if got := r.back.last(t); got.line != "POST /v2/7/change" || got.body != `{"count":1}` || got.header.Get("Authorization") != "" {
		t.Errorf("asked %+v", got)
	}
	// A backslash stays within its segment, as an escaped slash does, however it is written.
	for _, path := range []string{`a\b`, "a%5cb", "a%5Cb"} {
		if status, _, body := r.ask(t, "GET /orders/"+path, ""); status != 200 {
			t.Errorf("%s: %d %s", path, status, body)
		}
		if got := r.back.last(t); !strings.EqualFold(got.line, "GET /base/orders/a%5Cb") {
			t.Errorf("%s: asked %s", path, got.line)
		}
	}
	// The URL may be as long as the header lets it be.
	for size, want := range map[int]int{2100: 200, 10_000: 200, 16_000: 200, 16 << 10: 414} {
		before := r.back.count()
		status, _, body := r.ask(t, "GET /orders/1?q="+strings.Repeat("x", size), "")
		if status != want || want == 414 && (r.back.count() != before || !strings.Contains(body, "URI_TOO_LONG")) {
			t.Errorf("a query of %d bytes: %d %.200s", size, status, body)
		}
	}
	before := r.back.count()
	for _, row := range []struct {
		line, body string
		want       int
	}{
		{"GET /orders/123456789012345678901", "", 400},
		{"GET /orders/1?limit=0", "", 400},
		{"POST /orders/1", `{"count":"1"}`, 400},
		{"POST /orders/1", "", 400},
	} {
		if status, _, body := r.ask(t, row.line, row.body); status != row.want {
			t.Errorf("%s %s: %d %s", row.line, row.body, status, body)
		}
	}
	if status, _, _ := r.raw(t, "GET /orders/1 HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); status != 401 {
		t.Errorf("without a key: %d", status)
	}
	if r.back.count() != before {
		t.Errorf("the back end was asked: %+v", r.back.last(t))
	}
	r.tellsNoSecret(t)
}

// tellsNoSecret looks for what must stay where it is.
func (r *rig) tellsNoSecret(t *testing.T) {
	t.Helper()
	r.back.mu.Lock()
	defer r.back.mu.Unlock()
	for _, got := range r.back.requests {
		text, err := json.Marshal(got.header)
		if err != nil || strings.Contains(string(text)+got.line+got.body, "hunter2") {
			t.Errorf("the caller's key or cookie went to the back end: %+v", got)
		}
	}
	if text := r.logs.String(); strings.Contains(text, "hunter2") || strings.Contains(text, "key-of-the-back-end") {
		t.Errorf("a secret is in the log: %s", text)
	}
}

// Raw requests that two readers could read in two ways reach the back end as one plain
// request, or not at all.
func TestSmugglingThroughTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	const inner = "GET /admin HTTP/1.1\r\nHost: x\r\n\r\n"
	for _, headers := range [][]string{
		{"Transfer-Encoding: chunked", "Content-Length: 4"},
		{"Transfer-Encoding: xchunked"},
		{"Transfer-Encoding : chunked"},
		{"Content-Length: 5", "Content-Length: 6"},
		{"Content-Length: +5"},
		{"Connection: close, Authorization, X-Forwarded-For, Content-Length"},
		{"X-Api_Key: hunter2", "X_Forwarded_For: 10.0.0.1"},
		{"Upgrade: h2c", "Connection: Upgrade, HTTP2-Settings", "HTTP2-Settings: AAMAAABkAAQCAAAAAAIAAAAA"},
		{"Expect: 100-continue"},
		{"X-HTTP-Method-Override: DELETE"},
		{" X-Folded: a", " b: c"},
		{"X-Original-URL: /admin"},
	} {
		text := "GET /orders/1 HTTP/1.1\r\nHost: gateway.example\r\nConnection: close\r\nX-API-Key: " + callersKey + "\r\n" + strings.Join(headers, "\r\n") + "\r\n\r\n0\r\n\r\n" + inner
		status, _, body := r.raw(t, text)
		if status >= 500 && status != 501 { // which is net/http's word for a transfer coding that it does not know
			t.Errorf("%q: %d %s", headers, status, body)
		}
	}
	for _, path := range []string{"/orders/..%2fadmin", "/orders/%2e%2e", "/orders/..", "/orders/..%5cadmin", "/orders/%252e%252e%252fadmin", "/orders/..%3bx", "/orders/.%00"} {
		if status, _, _ := r.ask(t, "GET "+path, ""); status == 200 && path != "/orders/.%00" {
			t.Errorf("%s: %d", path, status)
		}
	}
	if n := r.back.count(); n < 5 {
		t.Errorf("only %d requests were passed on", n)
	}
	r.back.mu.Lock()
	for _, got := range r.back.requests {
		if got.line != "GET /base/orders/1" && got.line != "GET /base/orders/.%00" {
			t.Errorf("the back end was asked %s", got.line)
		}
		for _, name := range []string{"Transfer-Encoding", "X-Http-Method-Override", "X-Original-Url", "Upgrade", "Http2-Settings", "Expect"} {
			if got.header.Get(name) != "" {
				t.Errorf("the back end got %s: %q", name, got.header.Get(name))
			}
		}
		if got.header.Get("Authorization") != "Bearer key-of-the-back-end" || got.header.Get("X-Forwarded-For") != "127.0.0.1" {
			t.Errorf("the caller has taken a header away or set it: %v", got.header)
		}
	}
	r.back.mu.Unlock()
	r.tellsNoSecret(t)
}

// As a tool, a back end gets what it gets else: its own key, and not the caller's.
func TestBackEndAsATool(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	call := func(name, arguments string) string {
		t.Helper()
		message := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"` + name + `","arguments":` + arguments + `}}`
		status, _, body := r.raw(t, "POST /mcp HTTP/1.1\r\nHost: "+r.address+"\r\nConnection: close\r\nX-API-Key: "+callersKey+
			"\r\nAccept: application/json, text/event-stream\r\nContent-Length: "+strconv.Itoa(len(message))+"\r\n\r\n"+message)
		if status != 200 {
			t.Errorf("%s %s: %d %s", name, arguments, status, body)
		}
		return body
	}
	if got := call("order", `{"id":"a/b","limit":2}`); !strings.Contains(got, "answer of the back end") {
		t.Error(got)
	}
	if got := r.back.last(t); got.line != "GET /base/orders/a%2Fb?limit=2" || got.header.Get("Authorization") != "Bearer key-of-the-back-end" {
		t.Errorf("asked %+v", got)
	}
	before := r.back.count()
	for _, arguments := range []string{`{"id":".."}`, `{"id":"../admin"}`, `{"id":"%2e%2e/admin"}`, `{"id":"..\\admin"}`, `{"id":""}`, `{"id":"..;/x"}`} {
		if got := call("order", arguments); strings.Contains(got, "answer of the back end") {
			t.Errorf("%s: %s", arguments, got)
		}
	}
	if r.back.count() != before {
		t.Errorf("the back end was asked %s", r.back.last(t).line)
	}
	if got := call("change", `{"id":"7","body":{"count":1}}`); !strings.Contains(got, "answer of the back end") {
		t.Error(got)
	}
	if got := r.back.last(t); got.line != "POST /v2/7/change" || got.body != `{"count":1}` || got.header.Get("Content-Type") != "application/json" {
		t.Errorf("asked %+v", got)
	}
	r.tellsNoSecret(t)
}

func TestFixedAnswersThroughTheGateway(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	if status, header, body := r.ask(t, "GET /limited", ""); status != 200 || body != "<p>home</p>" || header.Get("Content-Type") != "text/html; charset=utf-8" {
		t.Errorf("%d %v %q", status, header, body)
	}
	if status, header, _ := r.ask(t, "GET /limited-too", ""); status != 302 || header.Get("Location") != "/orders/1" {
		t.Errorf("%d %v", status, header)
	}
	if status, header, body := r.ask(t, "GET /limited", ""); status != 429 || header.Get("Retry-After") == "" {
		t.Errorf("the third of two, shared by two routes: %d %v %s", status, header, body)
	}
	status, _, body := r.ask(t, "GET /openapi.json", "")
	if status != 200 || strings.Contains(body, "x-gateway") || strings.Contains(body, "limitedToo") || strings.Contains(body, `"mcp"`) || !strings.Contains(body, "waybillBearer") {
		t.Errorf("the published document: %d %s", status, body)
	}
}
