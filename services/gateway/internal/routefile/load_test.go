package routefile_test

import (
	"net/http"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waybill.dev/services/gateway/internal/routefile"
)

// folder makes a folder of files: name, content, name, content …
func folder(files ...string) fstest.MapFS {
	dir := make(fstest.MapFS)
	for i := 0; i < len(files); i += 2 {
		dir[files[i]] = &fstest.MapFile{Data: []byte(files[i+1])}
	}
	return dir
}

func environment(name string) (string, bool) {
	value, ok := map[string]string{"HOST": "api.example.com", "KEY": "a \"secret\"\n", "EMPTY": "", "BAD": "\xff"}[name]
	return value, ok
}

// load reads a folder that must have no fault.
func load(t *testing.T, files ...string) *routefile.Set {
	t.Helper()
	set, faults := routefile.Load(nil, folder(files...), environment)
	if len(faults) > 0 {
		t.Fatalf("faults:\n%s", faults.Error())
	}
	return set
}

// faults reads a folder that has faults, and returns them a line each.
func faults(t *testing.T, files ...string) []string {
	t.Helper()
	set, found := routefile.Load(nil, folder(files...), environment)
	if set == nil {
		t.Fatalf("no set, with faults:\n%s", found.Error())
	}
	if len(found) == 0 {
		return nil
	}
	return strings.Split(found.Error(), "\n")
}

const (
	static = `{"module":"$import(@gateway/runtime)","export":"staticHandler"}`
	route  = `"x-gateway-route":{"handler":` + static + `}`
)

// document is a route file with paths.
func document(paths string) string { return `{"openapi":"3.1.0","paths":{` + paths + `}}` }

// get is a GET operation's path, with members of the operation.
func get(path, members string) string {
	return `"` + path + `":{"get":{` + members + `,` + route + `}}`
}

// with is like get, with members of x-gateway-route.
func with(path, members, extension string) string {
	return `"` + path + `":{"get":{` + members + `,"x-gateway-route":{"handler":` + static + `,` + extension + `}}}`
}

// first returns the first operation of the only file.
func first(t *testing.T, set *routefile.Set) *routefile.Operation {
	t.Helper()
	if len(set.Files) != 1 || len(set.Files[0].Operations) == 0 {
		t.Fatal("there is no operation")
	}
	return set.Files[0].Operations[0]
}

// Files come by name, operations in the order of their document.
func TestOrder(t *testing.T) {
	t.Parallel()
	set := load(t,
		"b.oas.json", document(get("/z", `"operationId":"z"`)+`,"/a":{"post":{"operationId":"a2",`+route+`},"get":{"operationId":"a1",`+route+`}}`),
		"a.oas.json", document(get("/y", `"operationId":"y"`)),
		"policies.json", `{}`,
		"other.json", `no JSON`,
		"sub/c.oas.json", `no JSON`,
		"dir.oas.json/x", `no JSON`,
	)
	var got []string
	for _, file := range set.Files {
		for _, o := range file.Operations {
			if o.File != file {
				t.Errorf("%s is of another file", o.ID)
			}
			got = append(got, file.Name+" "+o.Method+" "+o.Path+" "+o.ID)
		}
	}
	if diff := cmp.Diff([]string{"a.oas.json GET /y y", "b.oas.json GET /z z", "b.oas.json POST /a a2", "b.oas.json GET /a a1"}, got); diff != "" {
		t.Errorf("operations (-want +got):\n%s", diff)
	}
}

const whole = `{"openapi":"3.1.1","x-other":1,"paths":{
 "/things/{id}":{
  "x-gateway-path":{"pathMode":"open-api"},
  "parameters":[{"name":"id","in":"path","description":"which","schema":{"type":"integer"}},{"$ref":"#/components/parameters/trace"}],
  "put":{"operationId":"putThing","summary":"sum","description":"desc","tags":["a","b"],"x-internal":true,
   "parameters":[{"name":"x-trace","in":"header","required":true,"schema":{"type":"string","default":"no"}},{"name":"tags","in":"query","style":"pipeDelimited","schema":{"type":"array"}},{"name":"session","in":"cookie"},{"name":"accept","in":"header"}],
   "requestBody":{"$ref":"#/components/requestBodies/thing"},
   "responses":{"404":{"content":{"application/json":{"schema":{"type":"null"}}}},"200":{"content":{"text/plain":{"schema":{}}}},"201":{"content":{"application/json":{"schema":{"type":"object"}}}},"202":{"content":{"application/json":{"schema":{}}}}},
   "x-gateway-route":{
    "handler":{"module":"$import(./modules/things)","export":"put","options":{"url":"https://$env(HOST)/$env(HOST)","list":[{"key":"$env(KEY)"}],"$env(NAME)":"$env(EMPTY)","n":1.50}},
    "policies":{"inbound":["key","limit"],"outbound":["headers"]},
    "corsPolicy":"pages","timeoutSeconds":2.5,
    "mcp":{"type":"tool","name":"put.thing","description":"puts","enabled":false,"_meta":{"a":[1]},"annotations":{"title":"Put","readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}}}}}},
 "components":{
  "parameters":{"trace":{"name":"X-Trace","in":"header"}},
  "requestBodies":{"thing":{"description":"the thing","required":true,"content":{"text/plain":{},"application/problem+json":{"schema":{}},"application/json; charset=utf-8":{"schema":{"$ref":"#/components/schemas/thing"}}}}},
  "schemas":{"thing":{"type":"object"}}}}`

const wholePolicies = `{"$schema":"x","policies":[
 {"name":"key","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{"scopes":["$env(HOST)"]}}},
 {"name":"limit","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"x"}},
 {"name":"headers","policyType":"set-headers-outbound","handler":{"module":"$import(./modules/mine)","export":"x","options":{}}}],
 "corsPolicies":[{"name":"pages","allowedOrigins":["https://example.com"],"allowedMethods":["GET"],"allowedHeaders":["a"],"exposeHeaders":["b"],"maxAge":600,"allowCredentials":true}]}`

func TestWhole(t *testing.T) {
	t.Parallel()
	set := load(t, "routes.oas.json", whole, "policies.json", wholePolicies)
	got := first(t, set)
	want := &routefile.Operation{
		File: set.Files[0], Path: "/things/{id}", Mode: routefile.OpenAPI, Method: "PUT", ID: "putThing", Summary: "sum", Description: "desc", Tags: []string{"a", "b"},
		Parameters: []routefile.Parameter{
			{Name: "id", In: "path", Description: "which", Required: true, Pointer: "/paths/~1things~1{id}/parameters/0/schema", Schema: []byte(`{"type":"integer"}`), Style: "simple"},
			{Name: "x-trace", In: "header", Required: true, Pointer: "/paths/~1things~1{id}/put/parameters/0/schema", Schema: []byte(`{"type":"string","default":"no"}`), Style: "simple", Default: []byte(`"no"`)},
			{Name: "tags", In: "query", Pointer: "/paths/~1things~1{id}/put/parameters/1/schema", Schema: []byte(`{"type":"array"}`), Style: "pipeDelimited"},
		},
		Cookies: []routefile.Parameter{{Name: "session", In: "cookie", Schema: []byte("{}"), Style: "form", Explode: true}},
		Media: []routefile.Media{
			{Type: "text/plain"},
			{Type: "application/problem+json", Pointer: "/components/requestBodies/thing/content/application~1problem+json/schema"},
			{Type: "application/json", Pointer: "/components/requestBodies/thing/content/application~1json; charset=utf-8/schema"},
		},
		BodyRequired: true,
		Body:         &routefile.Body{Required: true, Pointer: "/components/requestBodies/thing/content/application~1json; charset=utf-8/schema", Schema: []byte(`{"$ref":"#/components/schemas/thing"}`), MediaType: "application/json", Description: "the thing"},
		Handler: routefile.HandlerDef{Module: "things", Export: "put", Options: []byte(
			`{"url":"https://api.example.com/api.example.com","list":[{"key":"a \"secret\"\n"}],"$env(NAME)":"","n":1.50}`)},
		Inbound: []string{"key", "limit"}, Outbound: []string{"headers"}, CORSPolicy: "pages",
		MCP: &routefile.MCPDef{
			Type: routefile.Tool, Name: "put.thing", Description: "puts", Meta: []byte(`{"a":[1]}`),
			Annotations: []byte(`{"title":"Put","readOnlyHint":false,"destructiveHint":true,"idempotentHint":true,"openWorldHint":false}`),
		},
		Internal: true, Timeout: 2500 * time.Millisecond,
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreUnexported(routefile.Operation{}, routefile.Parameter{}), cmpopts.IgnoreFields(routefile.Operation{}, "File")); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	if file := set.Files[0]; file.Version != "3.1.1" || string(file.Raw) != whole || file.Schemas == nil {
		t.Errorf("file is %+v", file)
	}
	wantSet := &routefile.Set{
		Policies: []routefile.PolicyDef{
			{Name: "key", Type: "api-key-inbound", Module: routefile.Runtime, Export: "ApiKeyInboundPolicy", Options: []byte(`{"scopes":["api.example.com"]}`), Pointer: "/policies/0"},
			{Name: "limit", Type: "rate-limit-inbound", Module: routefile.Runtime, Export: "x", Options: []byte(`{}`), Pointer: "/policies/1"},
			{Name: "headers", Type: "set-headers-outbound", Module: "mine", Export: "x", Options: []byte(`{}`), Pointer: "/policies/2"},
		},
		CORS: []routefile.CORSDef{{
			Name: "pages", AllowedOrigins: []string{"https://example.com"}, AllowedMethods: []string{"GET"},
			AllowedHeaders: []string{"a"}, ExposeHeaders: []string{"b"}, MaxAge: 600, AllowCredentials: true, Pointer: "/corsPolicies/0",
		}},
	}
	if diff := cmp.Diff(wantSet, set, cmpopts.IgnoreFields(routefile.Set{}, "Files")); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
}

func TestDefaults(t *testing.T) {
	t.Parallel()
	o := first(t, load(t, "routes.oas.json", document(`"/a/b-{c}/":{"post":{"requestBody":{"content":{"text/plain":{}}},`+route+`}}`)))
	want := &routefile.Operation{
		Path: "/a/b-{c}/", Mode: routefile.OpenAPI, Method: "POST", ID: "post-a-b-c", CORSPolicy: routefile.CORSNone,
		Handler:    routefile.HandlerDef{Module: routefile.Runtime, Export: "staticHandler", Options: []byte(`{}`)},
		Parameters: []routefile.Parameter{{Name: "c", In: "path", Required: true, Schema: []byte(`{"type":"string"}`), Style: "simple"}},
		Media:      []routefile.Media{{Type: "text/plain"}},
	}
	if diff := cmp.Diff(want, o, cmpopts.IgnoreUnexported(routefile.Operation{}, routefile.Parameter{}), cmpopts.IgnoreFields(routefile.Operation{}, "File")); diff != "" {
		t.Errorf("operation (-want +got):\n%s", diff)
	}
	if set := load(t); len(set.Files) != 0 {
		t.Error("an empty folder has files")
	}
	if set := load(t, "routes.oas.json", `{"openapi":"3.0.3"}`); len(set.Files[0].Operations) != 0 {
		t.Error("a file without paths has operations")
	}
}

// An operation that says nothing of who answers is documentation.
func TestOnlyRoutedOperations(t *testing.T) {
	t.Parallel()
	set := load(t, "routes.oas.json", document(`"/a":{"get":{"operationId":"doc","requestBody":1},"x-more":{"get":{}},"post":{`+route+`}},"x-paths":1`))
	if got := set.Files[0].Operations; len(got) != 1 || got[0].Method != http.MethodPost {
		t.Errorf("operations are %v", got)
	}
}

func TestGeneratedIDs(t *testing.T) {
	t.Parallel()
	set := load(t, "routes.oas.json", document(`"/a":{"get":{`+route+`}},"/A/":{"get":{`+route+`}},"/b":{"get":{"operationId":"get-a-2",`+route+`}},"/`+strings.Repeat("long/", 20)+`":{"delete":{`+route+`}}`))
	var ids []string
	for _, o := range set.Files[0].Operations {
		ids = append(ids, o.ID)
		if !routefile.ValidName(o.ID) {
			t.Errorf("%s is no name of a tool", o.ID)
		}
	}
	if diff := cmp.Diff([]string{"get-a", "get-A", "get-a-2", "delete-long-long-long-long-long-long-long-long-long-long"}, ids); diff != "" {
		t.Errorf("ids (-want +got):\n%s", diff)
	}
	set = load(t, "routes.oas.json", document(`"/a":{"get":{`+route+`}},"/-a":{"get":{`+route+`}},"/b":{"get":{"operationId":"get-a-2",`+route+`}}`))
	if got := set.Files[0].Operations[1].ID; got != "get-a-3" {
		t.Errorf("the second id is %s", got)
	}
}

// Only where each answer of a success is documented in JSON, something can be promised of it.
func TestOutputs(t *testing.T) {
	t.Parallel()
	const json, one, two = `"content":{"application/json":{"schema":{"type":"object"}}}`, "/paths/~1x/get/responses/200/content/application~1json/schema", "/paths/~1x/get/responses/201/content/application~1json/schema"
	for responses, want := range map[string]struct {
		outputs []string
		answer  string
	}{
		`"200":{` + json + `}`:                                                  {[]string{one}, "application/json"},
		`"200":{` + json + `},"404":{},"default":{}`:                            {[]string{one}, "application/json"},
		`"200":{` + json + `},"201":{` + json + `}`:                             {[]string{one, two}, "application/json"},
		`"200":{` + json + `},"204":{}`:                                         {nil, "application/json"},
		`"204":{"description":"nothing"},"200":{` + json + `}`:                  {nil, "application/json"},
		`"200":{` + json + `},"202":{"content":{"application/json":{}}}`:        {nil, "application/json"},
		`"200":{"content":{"application/json":{"schema":{}},"text/csv":{}}}`:    {nil, ""},
		`"200":{"content":{"*/*":{"schema":{}}}}`:                               {[]string{"/paths/~1x/get/responses/200/content/*~1*/schema"}, ""},
		`"2XX":{"content":{"application/a+json; charset=utf-8":{"schema":{}}}}`: {[]string{"/paths/~1x/get/responses/2XX/content/application~1a+json; charset=utf-8/schema"}, "application/a+json"},
		`"200":{"content":{"image/png":{}}}`:                                    {nil, "image/png"},
		`"404":{` + json + `}`:                                                  {nil, ""},
	} {
		o := first(t, load(t, "routes.oas.json", `{"openapi":"3.1.0","info":{"title":"t","version":"1"},"paths":{"/x":{"get":{"responses":{`+responses+`},
			"x-gateway-route":{"handler":{"module":"$import(./modules/mine)","export":"x"}}}}}}`))
		if diff := cmp.Diff(want.outputs, o.Outputs); diff != "" || o.Answer != want.answer {
			t.Errorf("%s: %q (-want +got):\n%s", responses, o.Answer, diff)
		}
	}
}
