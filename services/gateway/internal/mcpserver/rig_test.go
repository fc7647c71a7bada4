package mcpserver_test

import (
	"context"
	"encoding/json"
	"maps"
	"net/http"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/domain"
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
	{"name":"write","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"scopes":["webhooks:write"]}}},
	{"name":"validate","policyType":"request-validation-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy"}}],
	"corsPolicies":[{"name":"pages","allowedOrigins":["https://app.example"],"allowedHeaders":["content-type"]}]}`

// keys are those of the tests.
func keys() gatewaytest.Keys {
	return gatewaytest.Keys{
		"reader": {Account: "a", ID: "reader", Scopes: []domain.Scope{domain.ScopeWebhooksRead}},
		"writer": {Account: "a", ID: "writer", Scopes: []domain.Scope{domain.ScopeWebhooksRead, domain.ScopeWebhooksWrite}},
	}
}

// rig is a gateway over route files. It is asked by plain HTTP.
type rig struct {
	testing.TB
	dir     string
	gateway *local.Routes
	url     string
	path    string
	logs    *gatewaytest.Logs
}

type handlers = map[string]route.Handler

func start(t testing.TB, module handlers, items ...item) *rig {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), path: "/mcp", logs: new(gatewaytest.Logs)}
	r.write(items)
	r.gateway, r.url = gatewaytest.Serve(t, r.options(module))
	return r
}

func (r *rig) write(items []item) {
	r.Helper()
	gatewaytest.Files{"routes.oas.json": string(document(r, items)), "policies.json": policies}.Write(r, r.dir)
}

func (r *rig) options(module handlers) local.Options {
	o := gatewaytest.Options(r.dir, r.logs)
	o.Modules = map[string]map[string]route.Handler{"test": module}
	o.Authenticator, o.Account = keys(), "a"
	return o
}

// faults returns what is wrong with route files.
func faults(t *testing.T, items ...item) string {
	t.Helper()
	r := &rig{TB: t, dir: t.TempDir(), path: "/mcp", logs: new(gatewaytest.Logs)}
	r.write(items)
	_, err := local.New(r.options(handlers{"text": text("x")}))
	if err == nil {
		t.Fatal("the routes are taken")
	}
	return err.Error()
}

// text is a handler that answers with a text.
func text(body string) route.Handler { return answer(200, "text/plain; charset=utf-8", body) }

func answer(status int, contentType, body string) route.Handler {
	return gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
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
