package mcpserver_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"go.uber.org/goleak"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/gateway"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type object = map[string]any

// item is an operation of a route file; what is empty has a default.
type item struct {
	path, method, id string
	handler          object
	mcp              object // nil: none
	inbound          []string
	cors             string
	more             object // of the operation
}

func (i item) operation() (path, method string, operation object) {
	extension := object{"handler": i.handler}
	if i.handler == nil {
		extension["handler"] = static("text of "+i.id, "text/plain")
	}
	if i.mcp != nil {
		extension["mcp"] = i.mcp
	}
	if i.inbound != nil {
		extension["policies"] = object{"inbound": i.inbound}
	}
	if i.cors != "" {
		extension["corsPolicy"] = i.cors
	}
	operation = object{"x-gateway-route": extension, "responses": object{"200": object{"description": "OK"}}}
	if i.id != "" {
		operation["operationId"] = i.id
	}
	maps.Copy(operation, i.more)
	if path = i.path; path == "" {
		path = "/" + i.id
	}
	if method = strings.ToLower(i.method); method == "" {
		method = "get"
	}
	return path, method, operation
}

func runtime(export string, options object) object {
	return object{"module": "$import(@gateway/runtime)", "export": export, "options": options}
}

func static(body, contentType string) object {
	return runtime("staticHandler", object{"body": body, "contentType": contentType})
}

func module(export string) object {
	return object{"module": "$import(./modules/test)", "export": export}
}

// server is the MCP route over operations, in their order, with other options.
func server(options object, operations ...string) item {
	all := maps.Clone(options)
	if all == nil {
		all = object{}
	}
	list := []object{}
	for _, id := range operations {
		list = append(list, object{"file": "routes.oas.json", "id": id})
	}
	all["operations"] = list
	return item{path: "/mcp", method: "POST", id: "mcp", handler: runtime("mcpServerHandler", all)}
}

// over is the MCP route over all the items, with them.
func over(options object, items ...item) []item {
	ids := make([]string, len(items))
	for i := range items {
		ids[i] = items[i].id
	}
	return append([]item{server(options, ids...)}, items...)
}

func document(t testing.TB, items []item) []byte {
	t.Helper()
	paths := make(map[string]object)
	for _, i := range items {
		path, method, operation := i.operation()
		if paths[path] == nil {
			paths[path] = object{}
		}
		paths[path][method] = operation
	}
	b, err := json.Marshal(object{
		"openapi": "3.1.0", "info": object{"title": "Test", "version": "1"}, "paths": paths,
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

const policies = `{"policies":[
	{"name":"key","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{}}},
	{"name":"optional","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"allowUnauthenticatedRequests":true}}},
	{"name":"write","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"scopes":["webhooks:write"]}}}],
	"corsPolicies":[{"name":"pages","allowedOrigins":["https://app.example"],"allowedHeaders":["content-type"]}]}`

// keys are those of the tests.
type keys struct{}

func (keys) Authenticate(_ context.Context, key string) (auth.Principal, error) {
	switch key {
	case "reader":
		return auth.Principal{Account: "a", ID: "reader", Scopes: []domain.Scope{domain.ScopeWebhooksRead}}, nil
	case "writer":
		return auth.Principal{Account: "a", ID: "writer", Scopes: []domain.Scope{domain.ScopeWebhooksRead, domain.ScopeWebhooksWrite}}, nil
	}
	return auth.Principal{}, auth.ErrUnauthenticated
}

// rig is a gateway over route files. It is asked by plain HTTP.
type rig struct {
	testing.TB
	dir     string
	gateway *gateway.Gateway
	url     string
	path    string
	logs    *bytes.Buffer
}

type handlers = map[string]route.Handler

func start(t testing.TB, module handlers, items ...item) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), path: "/mcp", logs: new(bytes.Buffer)}
	r.write(items)
	g, err := r.open(module)
	if err != nil {
		t.Fatal(err)
	}
	r.gateway = g
	server := httptest.NewServer(g)
	t.Cleanup(server.Close)
	r.url = server.URL
	return r
}

func (r *rig) write(items []item) {
	r.Helper()
	r.writeFile("routes.oas.json", string(document(r, items)))
	r.writeFile("policies.json", policies)
}

func (r *rig) writeFile(name, text string) {
	r.Helper()
	if err := os.WriteFile(filepath.Join(r.dir, name), []byte(text), 0o600); err != nil {
		r.Fatal(err)
	}
}

func (r *rig) open(module handlers) (*gateway.Gateway, error) {
	return gateway.New(gateway.Options{
		Dir:           r.dir,
		Modules:       map[string]map[string]route.Handler{"test": module},
		Getenv:        func(string) (string, bool) { return "", false },
		Egress:        &egress.Policy{},
		Authenticator: keys{},
		Logger:        slog.New(slog.NewJSONHandler(r.logs, nil)),
		Registerer:    prometheus.NewRegistry(),
	})
}

// faults returns what is wrong with route files.
func faults(t *testing.T, items ...item) string {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), path: "/mcp", logs: new(bytes.Buffer)}
	r.write(items)
	_, err := r.open(handlers{"text": text("x")})
	if err == nil {
		t.Fatal("the routes are taken")
	}
	return err.Error()
}

// reply is an HTTP answer.
type reply struct {
	t      testing.TB
	status int
	header http.Header
	body   []byte
}

// curl is what `curl -H 'accept: application/json, text/event-stream' -d` sends.
func curl() http.Header {
	return http.Header{
		"Accept":       {"application/json, text/event-stream"},
		"Content-Type": {"application/x-www-form-urlencoded"},
		"User-Agent":   {"curl/8.5.0"},
	}
}

// with returns curl's headers with others; an empty value removes one.
func with(pairs ...string) http.Header {
	header := curl()
	for i := 0; i < len(pairs); i += 2 {
		header.Del(pairs[i])
		if pairs[i+1] != "" {
			header.Set(pairs[i], pairs[i+1])
		}
	}
	return header
}

func (r *rig) send(method string, header http.Header, body string) reply {
	r.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, r.url+r.path, strings.NewReader(body))
	if err != nil {
		r.Fatal(err)
	}
	request.Header = header
	if host := header.Get("Host"); host != "" {
		request.Host = host
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.Fatal(err)
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil && !errors.Is(err, io.EOF) {
		r.Fatal(err)
	}
	return reply{r, response.StatusCode, response.Header, text}
}

// post sends a body as curl does.
func (r *rig) post(body string) reply {
	r.Helper()
	return r.send(http.MethodPost, curl(), body)
}

// ask sends a request as curl does; params is JSON, or empty.
func (r *rig) ask(method, params string, header ...string) reply {
	r.Helper()
	return r.send(http.MethodPost, with(header...), message(`"1"`, method, params))
}

func message(id, method, params string) string {
	if params != "" {
		params = `,"params":` + params
	}
	return `{"jsonrpc":"2.0","id":` + id + `,"method":"` + method + `"` + params + `}`
}

// modern sends a request of 2026-07-28.
func (r *rig) modern(method, params string, header ...string) reply {
	r.Helper()
	return r.send(http.MethodPost, modernHeader(method, params, header...), modernMessage(method, params))
}

func modernHeader(method, params string, header ...string) http.Header {
	h := http.Header{
		"Accept": {"application/json, text/event-stream"}, "Content-Type": {"application/json"},
		"Mcp-Protocol-Version": {"2026-07-28"}, "Mcp-Method": {method},
	}
	var named struct{ Name, URI string }
	if params != "" {
		_ = json.Unmarshal([]byte(params), &named)
	}
	if name := named.Name + named.URI; name != "" {
		h.Set("Mcp-Name", name)
	}
	for i := 0; i < len(header); i += 2 {
		h.Del(header[i])
		if header[i+1] != "" {
			h.Set(header[i], header[i+1])
		}
	}
	return h
}

const modernMeta = `"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}`

func modernMessage(method, params string) string {
	switch params {
	case "", "{}":
		params = "{" + modernMeta + "}"
	default:
		params = "{" + modernMeta + "," + params[1:]
	}
	return message(`"1"`, method, params)
}

// result returns the result of a reply, which must be one.
func (r reply) result() object {
	r.t.Helper()
	var m struct {
		JSONRPC string
		ID      json.RawMessage
		Result  object
		Error   any
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		r.t.Fatalf("%v in %d %s", err, r.status, r.body)
	}
	if r.status != http.StatusOK || m.JSONRPC != "2.0" || m.Result == nil || m.Error != nil {
		r.t.Fatalf("no result: %d %s", r.status, r.body)
	}
	return m.Result
}

// failure holds an error to a status and a code, and returns its data.
func (r reply) failure(status, code int) object {
	r.t.Helper()
	var m struct {
		JSONRPC string
		Result  any
		Error   struct {
			Code    int
			Message string
			Data    object
		}
	}
	if err := json.Unmarshal(r.body, &m); err != nil {
		r.t.Fatalf("%v in %d %s", err, r.status, r.body)
	}
	if r.status != status || m.Error.Code != code || m.Error.Message == "" || m.Result != nil || m.JSONRPC != "2.0" {
		r.t.Fatalf("%d %s; want %d with code %d", r.status, r.body, status, code)
	}
	if contentType := r.header.Get("Content-Type"); contentType != "application/json" {
		r.t.Fatalf("Content-Type is %q", contentType)
	}
	return m.Error.Data
}

// equal compares a value with JSON.
func equal(t testing.TB, got any, want string) {
	t.Helper()
	var wanted any
	if err := json.Unmarshal([]byte(want), &wanted); err != nil {
		t.Fatalf("%v in %s", err, want)
	}
	text, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	var found any
	if err := json.Unmarshal(text, &found); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(wanted, found); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// names returns the names in a list.
func (r reply) names(member string) string {
	r.t.Helper()
	list, ok := r.result()[member].([]any)
	if !ok {
		r.t.Fatalf("no %s in %s", member, r.body)
	}
	names := make([]string, len(list))
	for i := range list {
		names[i] = list[i].(object)["name"].(string)
	}
	return strings.Join(names, " ")
}

// text is a handler that answers with a text.
func text(body string) route.Handler { return answer(200, "text/plain; charset=utf-8", body) }

func answer(status int, contentType, body string) route.Handler {
	return route.Func(func(context.Context, *route.Request) (*route.Response, error) {
		header := make(http.Header)
		if contentType != "" {
			header.Set("Content-Type", contentType)
		}
		return &route.Response{Status: status, Header: header, Body: []byte(body)}, nil
	})
}

// seen is a handler that keeps what it is asked.
type seen struct{ requests []route.Request }

func (s *seen) Handle(_ context.Context, r *route.Request) (*route.Response, error) {
	s.requests = append(s.requests, *r)
	return &route.Response{Status: 200, Header: http.Header{"Content-Type": {"text/plain"}}, Body: []byte("seen")}, nil
}

// last returns the only request that there should have been.
func (s *seen) last(t testing.TB) route.Request {
	t.Helper()
	if len(s.requests) != 1 {
		t.Fatalf("the route was called %d times", len(s.requests))
	}
	return s.requests[0]
}
