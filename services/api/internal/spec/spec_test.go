package spec_test

import (
	"encoding/json"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/getkin/kin-openapi/openapi3"
	"github.com/google/go-cmp/cmp"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/apitest"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/services/api/internal/spec/source"
)

func documents(t *testing.T) *spec.Documents {
	t.Helper()
	d, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// operation is what the document and the code must agree about.
type operation struct {
	Method, Path, ID, Scope string
}

// object walks down a document.
func object(t *testing.T, value any, names ...string) map[string]any {
	t.Helper()
	for _, name := range names {
		v, ok := value.(map[string]any)
		if !ok {
			t.Fatalf("%v: no object at %s", names, name)
		}
		value = v[name]
	}
	v, ok := value.(map[string]any)
	if !ok {
		t.Fatalf("no object at %v", names)
	}
	return v
}

func decode(t *testing.T, body []byte) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal(body, &v); err != nil {
		t.Fatal(err)
	}
	return v
}

// documented lists the operations of the document.
func documented(t *testing.T, document map[string]any) []operation {
	t.Helper()
	var list []operation
	for path, item := range object(t, document, "paths") {
		for method, described := range object(t, item) {
			if method == "parameters" {
				continue
			}
			o := object(t, described)
			id, _ := o["operationId"].(string)
			scope, ok := o["x-scope"].(string)
			if !ok {
				t.Errorf("%s %s: no x-scope", method, path)
			}
			list = append(list, operation{
				Method: strings.ToUpper(method), Path: path, ID: id, Scope: scope,
			})
			checkSecurity(t, id, scope, o["security"])
		}
	}
	slices.SortFunc(list, func(a, b operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	return list
}

// checkSecurity holds an operation's security to its scope.
func checkSecurity(t *testing.T, id, scope string, security any) {
	t.Helper()
	want := []any{}
	for one := range strings.SplitSeq(scope, " or ") {
		roles := []any{}
		for role := range strings.SplitSeq(one, " and ") {
			if role != "any" {
				roles = append(roles, role)
			}
		}
		want = append(want, map[string]any{"bearer": roles}, map[string]any{"keyHeader": roles})
	}
	if scope == "" {
		want = []any{}
	}
	if diff := cmp.Diff(any(want), security); diff != "" {
		t.Errorf("security of %s (-want +got):\n%s", id, diff)
	}
}

// Every route is in the document, and nothing else is.
func TestRoutes(t *testing.T) {
	t.Parallel()
	var want []operation
	for _, r := range api.Routes() {
		scope := string(r.Scope)
		if r.Or != "" {
			scope += " or " + string(r.Or)
		}
		if r.And != "" {
			scope += " and " + string(r.And)
		}
		want = append(want, operation{r.Method, r.Path, r.Operation, scope})
	}
	slices.SortFunc(want, func(a, b operation) int { return strings.Compare(a.Path+a.Method, b.Path+b.Method) })
	if diff := cmp.Diff(want, documented(t, decode(t, documents(t).OpenAPI.Body))); diff != "" {
		t.Errorf("operations (-code +document):\n%s", diff)
	}
}

// The JSON that is served is what the YAML says.
func TestGenerated(t *testing.T) {
	t.Parallel()
	built, err := source.Build(".")
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range built {
		got, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(got)); diff != "" {
			t.Errorf("%s is not up to date: go generate ./internal/spec (-want +got):\n%s", name, diff)
		}
	}
}

// An independent reader finds the document valid, examples included.
func TestOpenAPIIsValid(t *testing.T) {
	t.Parallel()
	loader := openapi3.NewLoader()
	document, err := loader.LoadFromData(documents(t).OpenAPI.Body)
	if err != nil {
		t.Fatal(err)
	}
	if err := document.Validate(t.Context()); err != nil {
		t.Error(err)
	}
}

// Each operation is described, with an example of what it takes and of what it answers,
// and each example is as its schema says.
func TestExamples(t *testing.T) {
	t.Parallel()
	body := documents(t).OpenAPI.Body
	checker, err := apitest.New(body)
	if err != nil {
		t.Fatal(err)
	}
	document := decode(t, body)
	for _, part := range []string{"paths", "webhooks"} {
		for path, item := range object(t, document, part) {
			for method, described := range object(t, item) {
				if method == "parameters" {
					continue
				}
				o := object(t, described)
				at := "/" + part + "/" + escape(path) + "/" + method
				if text, _ := o["description"].(string); text == "" {
					t.Errorf("%s is not described", at)
				}
				if _, ok := o["requestBody"]; ok {
					checkContent(t, checker, at+"/requestBody", object(t, o, "requestBody"))
				}
				for status, response := range object(t, o, "responses") {
					if r := object(t, response); r["$ref"] == nil {
						checkContent(t, checker, at+"/responses/"+status, r)
					}
				}
			}
		}
	}
	for name, response := range object(t, document, "components", "responses") {
		checkContent(t, checker, "/components/responses/"+name, object(t, response))
	}
	for name, described := range object(t, document, "components", "parameters") {
		parameter := object(t, described)
		// One that may be left out has its example in the schema: pages that let one try the
		// operation out fill in the other form, and a filter then hides what is there.
		examples, _ := object(t, parameter, "schema")["examples"].([]any)
		if example, ok := parameter["example"]; ok {
			examples = append(examples, example)
		}
		named, _ := parameter["examples"].(map[string]any)
		for _, example := range named {
			examples = append(examples, object(t, example)["value"])
		}
		if len(examples) == 0 && name != "CursorParameter" {
			t.Errorf("parameter %s has no example", name)
		}
		for _, example := range examples {
			check(t, checker, "/components/parameters/"+name+"/schema", example)
		}
	}
}

func checkContent(t *testing.T, checker *apitest.Checker, at string, holder map[string]any) {
	t.Helper()
	content, _ := holder["content"].(map[string]any)
	for media, described := range content {
		m := object(t, described)
		here := at + "/content/" + escape(media)
		examples := []any{}
		if example, ok := m["example"]; ok {
			examples = append(examples, example)
		}
		if named, ok := m["examples"].(map[string]any); ok {
			for _, example := range named {
				examples = append(examples, object(t, example)["value"])
			}
		}
		if len(examples) == 0 {
			t.Errorf("%s has no example", here)
		}
		for _, example := range examples {
			check(t, checker, here+"/schema", example)
		}
	}
}

func check(t *testing.T, checker *apitest.Checker, pointer string, example any) {
	t.Helper()
	body, err := json.Marshal(example)
	if err != nil {
		t.Fatal(err)
	}
	if err := checker.Validate(pointer, body); err != nil {
		t.Errorf("example of %s: %v", pointer, err)
	}
}

func escape(name string) string { return strings.NewReplacer("~", "~0", "/", "~1").Replace(name) }

// Each operation is a tool, or it is said why it is none.
func TestOperationsAreTools(t *testing.T) {
	t.Parallel()
	tools := map[string]bool{}
	for _, name := range []string{"routes.oas.json", "operations.oas.json"} {
		body, err := os.ReadFile("../../../../config/" + name)
		if err != nil {
			t.Fatal(err)
		}
		for _, item := range object(t, decode(t, body), "paths") {
			for method, described := range object(t, item) {
				if method == "parameters" {
					continue
				}
				route := object(t, described, "x-gateway-route")
				if mcp, ok := route["mcp"].(map[string]any); ok && mcp["type"] == "tool" {
					export, _ := object(t, route, "handler")["export"].(string)
					tools[export] = true
					sets := slices.Collect(maps.Values(source.Toolsets()))
					if tags, _ := object(t, described)["tags"].([]any); len(tags) == 0 || slices.ContainsFunc(tags, func(tag any) bool { return !slices.Contains(sets, fmt.Sprint(tag)) }) {
						t.Errorf("%s is in the toolsets %v", export, tags)
					}
				}
			}
		}
	}
	without := source.NoTool()
	for _, r := range api.Routes() {
		if tools[r.Operation] == (without[r.Operation] != "") {
			t.Errorf("%s is a tool: %v; why it is none: %q", r.Operation, tools[r.Operation], without[r.Operation])
		}
		delete(without, r.Operation)
	}
	if len(without) > 0 {
		t.Errorf("there are no such operations: %v", without)
	}
}
