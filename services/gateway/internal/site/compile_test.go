package site_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const routes = `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{
	"/text":{"get":{"operationId":"text","x-gateway-route":{"policies":{"inbound":["limit"]},
		"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"$env(GREETING)","contentType":"text/plain"}}}}},
	"/orders/{id}":{"get":{"operationId":"orders","x-gateway-route":{
		"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"http://orders.internal:8080/v1"}}}}},
	"/own":{"get":{"operationId":"own","x-gateway-route":{"handler":{"module":"$import(./modules/shop)","export":"own"}}}},
	"/mcp":{"post":{"operationId":"mcp","x-gateway-route":{
		"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[{"file":"a.oas.json","id":"text"}]}}}}}}}`

const policies = `{"policies":[
	{"name":"limit","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy",
		"options":{"rateLimitBy":"all","requestsAllowed":2,"timeWindowMinutes":60}}},
	{"name":"idle","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy",
		"options":{"rateLimitBy":"ip","requestsAllowed":5,"timeWindowMinutes":1}}}]}`

func folder(files ...string) fs.FS {
	f := fstest.MapFS{}
	for i := 0; i < len(files); i += 2 {
		f[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return f
}

// never is a handler that must not be called.
func never(t *testing.T) route.Handler {
	return gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
		t.Error("a handler was called")
		return nil, errors.New("called")
	})
}

// A site depends on what it is compiled of and on nothing else: it says what it will need,
// and opens none of it.
func TestCompile(t *testing.T) {
	t.Parallel()
	limits := site.Limits{Modules: map[string]map[string]route.Handler{"shop": {"own": never(t)}}}
	s, faults := site.Compile(folder("a.oas.json", routes, "policies.json", policies), site.Variables{"GREETING": "hello"}, limits)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	var paths []string
	for _, r := range s.Routes() {
		paths = append(paths, r.Method+" "+r.Path)
	}
	if diff := cmp.Diff([]string{"GET /text", "GET /orders/{id}", "GET /own", "POST /mcp"}, paths); diff != "" || s.Files() != 1 {
		t.Errorf("of %d files (-want +got):\n%s", s.Files(), diff)
	}
	if n := len(s.Upstreams()); n != 1 {
		t.Errorf("%d back ends", n)
	}
}

// What is wrong is said for every file at once, with what the limits forbid.
func TestCompileFaults(t *testing.T) {
	t.Parallel()
	_, faults := site.Compile(folder("a.oas.json", routes, "policies.json", policies, "b.oas.json", "{"), nil, site.Limits{Reserved: []string{"/own", "/orders/{x}"}})
	var said strings.Builder
	for _, fault := range faults {
		said.WriteString(fault.Error() + "\n")
	}
	for _, want := range []string{
		"a.oas.json: text: ", "the environment has no GREETING", "b.oas.json: ", "own: /paths/~1own/get/x-gateway-route: Waybill itself serves this path, as /own",
		"orders: /paths/~1orders~1{id}/get/x-gateway-route: Waybill itself serves this path, as /orders/{x}", "own: /paths/~1own/get/x-gateway-route: no handler own of a module shop is registered",
	} {
		if !strings.Contains(said.String(), want) {
			t.Errorf("not said: %s\n%s", want, &said)
		}
	}
}

// What is wrong with MCP servers is said with the rest, and once; a route at / is never asked.
func TestCompileFaultsOfMCPServers(t *testing.T) {
	t.Parallel()
	tool := func(path, id, mcp string) string {
		return `"` + path + `":{"get":{"operationId":"` + id + `","x-gateway-route":{"mcp":` + mcp + `,
			"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x","contentType":"text/plain"}}}}}`
	}
	text := `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{` +
		tool("/a", "a", `{"type":"tool","name":"same"}`) + "," + tool("/b", "b", `{"type":"tool","name":"same"}`) + "," + tool("/c", "c", `{"type":"weird"}`) + "," +
		tool("/", "root", `{"type":"tool"}`) + `,"/mcp":{"get":{"operationId":"mcp","x-gateway-route":{
			"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[
				{"file":"a.oas.json","id":"a"},{"file":"a.oas.json","id":"b"},{"file":"a.oas.json","id":"c"},{"file":"b.oas.json","id":"a"},{"file":"a.oas.json","id":"missing"}]}}}}}}}`
	_, faults := site.Compile(folder("a.oas.json", text), nil, site.Limits{Reserved: []string{"/"}})
	var said strings.Builder
	for _, fault := range faults {
		said.WriteString(fault.Error() + "\n")
	}
	for _, want := range []string{
		`the tool name "same" is taken by operation a`, "an MCP server must be a POST route", "/mcp/type: must be tool, prompt or resource",
		"operations names the file b.oas.json, which is not there", "operations names the operation missing of a.oas.json, which is not there", "root: /paths/~1/get/x-gateway-route: Waybill itself serves this path, as /",
	} {
		if strings.Count(said.String(), want) != 1 {
			t.Errorf("not said once: %s\n%s", want, &said)
		}
	}
	if len(faults) != 6 {
		t.Errorf("%d faults, want 6:\n%s", len(faults), &said)
	}
}

// Of a document with operations that can't be served, each is told at once with what leaves it out. Without them the rest is served.
func TestLeftOut(t *testing.T) {
	t.Parallel()
	operation := func(id, members, more string) string {
		return `"/` + id + `":{"get":{"operationId":"` + id + `",` + members + `"ROUTE":{` + more + `"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x"}}}}}`
	}
	const wavy, faulty = `"parameters":[{"name":"q","in":"query","style":"wavy"}],`, `"parameters":[{"name":"q","in":"query","schema":{"type":7}}],`
	document := func(schema, style, tool string) string {
		return `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{` + strings.Join([]string{
			strings.ReplaceAll(operation("good", "", ""), "ROUTE", "x-gateway-route"), strings.ReplaceAll(operation("schema", faulty, ""), "ROUTE", schema),
			strings.ReplaceAll(operation("style", wavy, `"policies":{"inbound":["check"]},`), "ROUTE", style), strings.ReplaceAll(operation("tool", wavy, `"mcp":{"enabled":`+tool+`},`), "ROUTE", "x-gateway-route"),
		}, ",") + `}}`
	}
	const checked = `{"policies":[{"name":"check","policyType":"request-validation-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy"}}]}`
	_, faults := site.Compile(folder("a.oas.json", document("x-gateway-route", "x-gateway-route", "true"), "policies.json", checked), nil, site.Limits{})
	said := faults.Error()
	for id, way := range map[string]string{
		"schema": "without x-gateway-route the operation is left out", "style": "a route without the policy, or with none for this place, passes it unchecked", "tool": "with enabled false it is left out for AI clients",
	} {
		if !regexp.MustCompile(`(?m)^a\.oas\.json: ` + id + `: .*; ` + way + `$`).MatchString(said) {
			t.Errorf("not told of %s:\n%s", id, said)
		}
	}
	if len(faults) != 3 {
		t.Errorf("%d faults:\n%s", len(faults), said)
	}
	s, faults := site.Compile(folder("a.oas.json", document("x-no-route", "x-no-route", "false"), "policies.json", checked), nil, site.Limits{})
	if len(faults) > 0 || len(s.Routes()) != 2 {
		t.Errorf("the rest is not served: %v", faults)
	}
}

// What is no fault, and yet good to know, is said of each route once.
func TestNotes(t *testing.T) {
	t.Parallel()
	operation := func(path, id, body string) string {
		return `"` + path + `":{"post":{"operationId":"` + id + `","requestBody":{"content":{"` + body + `":{"schema":{"type":"object"}}}},"x-gateway-route":{
			"policies":{"inbound":["check"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x","contentType":"text/plain"}}}}}`
	}
	server := func(path string) string {
		return `"` + path + `":{"post":{"operationId":"` + path + `","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[
			{"file":"a.oas.json","id":"Carriers$List"},{"file":"a.oas.json","id":"table"}]}}}}}`
	}
	text := `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{` + operation("/a", "Carriers$List", "application/json") + "," +
		operation("/b", "table", "text/csv") + "," + operation("/c", "xml", "application/xml") + "," + server("/one") + "," + server("/two") + `}}`
	checked := `{"policies":[{"name":"check","policyType":"request-validation-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy"}}]}`
	s, faults := site.Compile(folder("a.oas.json", text, "policies.json", checked), nil, site.Limits{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	got := make(map[string][]string)
	for _, r := range s.Routes() {
		if len(r.Notes) > 0 {
			got[r.Operation] = r.Notes
		}
	}
	want := map[string][]string{
		"Carriers$List": {"AI clients know the operation as Carriers_List_402db483: its operationId is no name for them, and mcp/name is not set"},
		"table":         {"policy check: bodies of text/csv pass unchecked", "AI clients call the operation without its body: its body is text/csv, but arguments are sent as JSON or as a form of named fields"},
		"xml":           {"policy check: bodies of application/xml pass unchecked"},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("notes (-want +got):\n%s", diff)
	}
}

// Two sites of the same folder go on with the same counts, each with variables of its own.
func TestSitesShareARuntime(t *testing.T) {
	t.Parallel()
	pools := upstream.NewPools(&egress.Policy{})
	t.Cleanup(pools.Close)
	called := 0
	runtime := &route.Runtime{
		RateLimits: ratelimit.NewPool(0, nil).Of(""), Upstreams: pools,
		Called: func(int, bool, int, time.Duration) { called++ },
	}
	limits := site.Limits{Modules: map[string]map[string]route.Handler{"shop": {"own": never(t)}}}
	for i, want := range []struct {
		status int
		body   string
	}{{200, "first"}, {200, "second"}, {429, "RATE_LIMITED"}} {
		s, faults := site.Compile(folder("a.oas.json", routes, "policies.json", policies), site.Variables{"GREETING": []string{"first", "second", "third"}[i]}, limits)
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		w := httptest.NewRecorder()
		s.Serve(runtime, w, httptest.NewRequest(http.MethodGet, "/text", http.NoBody))
		if w.Code != want.status || !strings.Contains(w.Body.String(), want.body) {
			t.Errorf("%d: %d %s, want %d %s", i, w.Code, w.Body, want.status, want.body)
		}
	}
	if called != 3 {
		t.Errorf("%d calls are told of", called)
	}
}

// Whatever route files refer to, and however often: what they take is bounded, and one fault says
// where it was too much. Each of these is within bounds once.
func TestBudget(t *testing.T) {
	t.Parallel()
	const body = `"requestBody":{"content":{"application/json":{"schema":{"properties":{"b":%s}}}}}`
	const handled = `"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":""}}`
	members := []string{`"p":true`}
	for i := range 500 {
		members = append(members, fmt.Sprintf(`"p%d":{"type":"string"}`, i))
	}
	large := `{"properties":{` + strings.Join(members, ",")
	referring := fmt.Sprintf(body, `{"$ref":"#/components/schemas/Big"}`)
	for name, operation := range map[string]string{
		"schemas":  `"/x%d":{"post":{"operationId":"op%d",` + referring + `,"x-gateway-route":{` + handled + `}}}`,
		"tools":    `"/x%d":{"post":{"operationId":"op%d",` + referring + `,"x-gateway-route":{"mcp":{"type":"tool"},` + handled + `}}}`,
		"patterns": `"/x%d":{"post":{"operationId":"op%d",` + fmt.Sprintf(body, `{"pattern":"(?:xxxxx){1000}%[1]d"}`) + `,"x-gateway-route":{` + handled + `}}}`,
		"paths":    `"/x%d/:id((?:xxxxx){1000})":{"x-gateway-path":{"pathMode":"url-pattern"},"get":{"operationId":"op%d","x-gateway-route":{` + handled + `}}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for count, want := range map[int]int{1: 0, 40: 1} {
				var operations []string
				for i := range count {
					operations = append(operations, fmt.Sprintf(operation, i, i))
				}
				file := `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"components":{"schemas":{"Big":` + large + `}}}},"paths":{` + strings.Join(operations, ",") + `}}`
				made, faults := site.Compile(folder("a.oas.json", file), nil, site.Limits{Uploaded: true, Schemas: jsonschema.NewBudget(10_000, nil)})
				if len(faults) != want || (made == nil) != (want > 0) {
					t.Fatalf("%d operations: %d faults: %.500s", count, len(faults), faults)
				}
				if want > 0 && (faults[0].File != "a.oas.json" || faults[0].Pointer == "" || !strings.Contains(faults[0].Message, "too large, each schema with all that it refers to")) {
					t.Errorf("%.500s", faults)
				}
			}
		})
	}
}

// What is ended looks at no more operations.
func TestEnded(t *testing.T) {
	t.Parallel()
	budget := jsonschema.NewBudget(10_000, nil)
	budget.End()
	made, faults := site.Compile(folder("a.oas.json", routes, "policies.json", policies), nil, site.Limits{Schemas: budget})
	if made != nil || len(faults) != 1 || !strings.Contains(faults[0].Message, "has been ended") {
		t.Errorf("%v", faults)
	}
}
