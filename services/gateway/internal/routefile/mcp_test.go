package routefile_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/routefile"
)

// Each rule of the mcp object, with the whole of what is said when it is broken.
func TestRulesOfMCP(t *testing.T) {
	t.Parallel()
	const id = `"operationId":"x"`
	mcp := func(members string) string { return with("/x", id, `"mcp":{`+members+`}`) }
	at := func(member, message string) []string {
		return []string{"a.oas.json: x: /paths/~1x/get/x-gateway-route/mcp/" + member + ": " + message}
	}
	resource := `"x-gateway-route":{"handler":` + static + `,"mcp":{"type":"resource"}}`
	for name, tc := range map[string]struct {
		paths string
		want  []string
	}{
		"good resource":                 {mcp(`"type":"resource","annotations":{"audience":["user","assistant"],"priority":0.5,"lastModified":"2026-01-02T03:04:05Z"},"mimeType":"text/html;profile=mcp-app"`), nil},
		"good prompt":                   {mcp(`"type":"prompt","name":"A_b.c/d-9"`), nil},
		"uri of a tool counts nothing":  {mcp(`"uri":"x","mimeType":"text/plain"`), nil},
		"unknown type":                  {mcp(`"type":"graphql"`), at("type", "must be tool, prompt or resource")},
		"empty type":                    {mcp(`"type":""`), at("type", "must be tool, prompt or resource")},
		"type is no text":               {mcp(`"type":null`), at("type", "must be a string")},
		"resource by POST":              {`"/x":{"post":{` + id + `,` + resource + `}}`, []string{"a.oas.json: x: /paths/~1x/post/x-gateway-route/mcp/type: a resource is read by GET, and this is POST"}},
		"resource beside another":       {`"/x":{"get":{` + id + `,` + resource + `},"post":{},"delete":{}}`, at("type", "the path of a resource has one method, and this one has POST, DELETE as well")},
		"resource beside a route":       {`"/x":{"get":{` + id + `,` + resource + `},"post":{"operationId":"y",` + route + `}}`, at("type", "the path of a resource has one method, and this one has POST as well")},
		"resource beside one elsewhere": {`"/x":{"get":{` + id + `,` + resource + `}},"/x/":{"put":{"operationId":"y",` + route + `}}`, []string{"a.oas.json: x: /paths/~1x/get: the path of a resource has one method, and y of a.oas.json is PUT"}},
		"name of a tool":                {mcp(`"name":"a b"`), at("name", "must be 1 to 64 of A-Z a-z 0-9 _ . / -")},
		"long name of a prompt":         {mcp(`"type":"prompt","name":"` + strings.Repeat("a", 65) + `"`), at("name", "must be 1 to 64 of A-Z a-z 0-9 _ . / -")},
		"empty name":                    {mcp(`"name":""`), at("name", "must have 1 to 256 characters")},
		"name of a resource":            {mcp(`"type":"resource","name":"a b","uri":"x:y"`), nil},
		"operationId that is no name":   {with("/x", `"operationId":"a b"`, `"mcp":{}`), nil},
		"uri is not absolute":           {mcp(`"type":"resource","uri":"/html"`), at("uri", "must be an absolute URI")},
		"uri is none":                   {mcp(`"type":"resource","uri":"http://[x"`), at("uri", "must be an absolute URI")},
		"uri with needless variables":   {mcp(`"type":"resource","uri":"test://{id}"`), at("uri", "has variables, and the path has no parameters")},
		"mimeType":                      {mcp(`"mimeType":"text"`), nil},
		"mimeType that is none":         {mcp(`"mimeType":"text/;"`), at("mimeType", "must be a media type")},
		"enabled":                       {mcp(`"enabled":"yes"`), at("enabled", "must be true or false")},
		"meta":                          {mcp(`"_meta":[]`), at("_meta", "must be an object")},
		"description":                   {mcp(`"description":7`), at("description", "must be a string")},
		"annotations":                   {mcp(`"annotations":true`), at("annotations", "must be an object")},
		"unknown annotation":            {mcp(`"annotations":{"readOnly":true,"idempotentHint":"yes"}`), append(at("annotations/idempotentHint", "must be true or false"), at("annotations/readOnly", "is not a known member")...)},
		"annotation of a resource":      {mcp(`"type":"resource","annotations":{"audience":["me"],"readOnlyHint":true}`), append(at("annotations/audience", "must hold user or assistant"), at("annotations/readOnlyHint", "is not a known member")...)},
		"annotation of a prompt":        {mcp(`"type":"prompt","annotations":{"title":"x"}`), at("annotations/title", "is not a known member")},
		"mcp is no object":              {with("/x", id, `"mcp":true`), []string{"a.oas.json: x: /paths/~1x/get/x-gateway-route/mcp: must be an object"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, faults(t, "a.oas.json", document(tc.paths))); diff != "" {
				t.Errorf("faults (-want +got):\n%s", diff)
			}
		})
	}
}

// A resource whose path has parameters has a uri with the same.
func TestResourceTemplates(t *testing.T) {
	t.Parallel()
	for uri, want := range map[string]string{
		"test://{a}/data/{b}": "",
		"test://x{b}{a}":      "",
		"test://{a}":          "must have the path's parameters as variables: {a}, {b}",
		"test://{a}/{b}/{c}":  "must have the path's parameters as variables: {a}, {b}",
		"test://{a}/{b}/{b}":  "must have the path's parameters as variables: {a}, {b}",
		"test://{a}/{+b}":     "has braces that hold no name",
		"test://{a}/{b":       "has braces that hold no name",
		"test://{a}/b}":       "has braces that hold no name",
		"":                    "must have the path's parameters as variables: {a}, {b}",
		"{a}/{b}":             "must be an absolute URI",
	} {
		extension := `"mcp":{"type":"resource","name":"x"`
		if uri != "" {
			extension += `,"uri":"` + uri + `"`
		}
		var lines []string
		if want != "" {
			lines = []string{"a.oas.json: x: /paths/~1{b}~1{a}/get/x-gateway-route/mcp/uri: " + want}
		}
		if diff := cmp.Diff(lines, faults(t, "a.oas.json", document(with("/{b}/{a}", `"operationId":"x"`, extension+"}")))); diff != "" {
			t.Errorf("faults of %s (-want +got):\n%s", uri, diff)
		}
	}
	pattern := `"/x/*":{"x-gateway-path":{"pathMode":"url-pattern"},` + strings.TrimPrefix(with("", `"operationId":"x"`, `"mcp":{"type":"resource"}`), `"":{`)
	if diff := cmp.Diff([]string{"a.oas.json: x: /paths/~1x~1*/get/x-gateway-route/mcp/uri: a resource's path has no part without a name"}, faults(t, "a.oas.json", document(pattern))); diff != "" {
		t.Errorf("faults (-want +got):\n%s", diff)
	}
}

// What the document does not say of an operation has its fallback.
func TestExposed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		members, extension string
		want               routefile.MCPDef
	}{
		"no mcp object":          {`"operationId":"x"`, `"corsPolicy":"none"`, routefile.MCPDef{Type: "tool", Name: "x", Description: "GET /x", Enabled: true}},
		"a tool is the default":  {`"operationId":"x"`, `"mcp":{}`, routefile.MCPDef{Type: "tool", Name: "x", Description: "GET /x", Enabled: true}},
		"generated name":         {`"summary":"sum"`, `"mcp":{}`, routefile.MCPDef{Type: "tool", Name: "get-x", Description: "sum", Enabled: true}},
		"the route's own words":  {`"summary":"sum","description":"desc","operationId":"x"`, `"mcp":{"type":"prompt"}`, routefile.MCPDef{Type: "prompt", Name: "x", Description: "desc", Enabled: true}},
		"everything":             {`"summary":"sum","description":"desc","operationId":"x"`, `"mcp":{"type":"resource","name":"n","description":"d","uri":"ui://html","mimeType":"text/html","enabled":false,"_meta":{"a":1}}`, routefile.MCPDef{Type: "resource", Name: "n", Description: "d", URI: "ui://html", MimeType: "text/html", Meta: []byte(`{"a":1}`)}},
		"a resource's uri":       {`"operationId":"x"`, `"mcp":{"type":"resource","name":"my page"}`, routefile.MCPDef{Type: "resource", Name: "my page", Description: "GET /x", URI: "mcp://resources/my%20page", Enabled: true}},
		"a resource's own id":    {`"operationId":"x"`, `"mcp":{"type":"resource"}`, routefile.MCPDef{Type: "resource", Name: "x", Description: "GET /x", URI: "mcp://resources/x", Enabled: true}},
		"enabled may be written": {`"operationId":"x"`, `"mcp":{"enabled":true}`, routefile.MCPDef{Type: "tool", Name: "x", Description: "GET /x", Enabled: true}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := first(t, load(t, "a.oas.json", document(with("/x", tc.members, tc.extension))))
			if diff := cmp.Diff(tc.want, o.Exposed()); diff != "" {
				t.Errorf("exposed (-want +got):\n%s", diff)
			}
			if (o.MCP == nil) != (name == "no mcp object") {
				t.Errorf("the document's own object is %v", o.MCP)
			}
		})
	}
}

// An operationId that clients don't take has a name that is always the same, and no other's.
func TestDerivedNames(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("listShipments", 8)
	seen := make(map[string]string)
	for id, want := range map[string]string{
		"fine": "fine", "a/b.c-d_e": "a/b.c-d_e", "Carriers$List": "Carriers_List_402db483", "Carriers List": "Carriers_List_", long: "listShipmentslistShipments", long + "2": "listShipmentslistShipments",
		"größe": "gr_e_", "$$": "operation_", strings.Repeat("a", 64): strings.Repeat("a", 64), strings.Repeat("a", 65): "aaaa",
	} {
		o := routefile.Operation{ID: id}
		name := o.Exposed().Name
		if !routefile.ValidName(name) || !strings.HasPrefix(name, want) || name != (&routefile.Operation{ID: id}).Exposed().Name {
			t.Errorf("%q is called %q", id, name)
		}
		if o.Derived() != (name != id) {
			t.Errorf("%q: derived is %v", id, o.Derived())
		}
		if other, taken := seen[name]; taken {
			t.Errorf("%q and %q are both called %q", id, other, name)
		}
		seen[name] = id
	}
	named := routefile.Operation{ID: "a b", MCP: &routefile.MCPDef{Type: routefile.Tool, Name: "ab"}}
	if named.Derived() || named.Exposed().Name != "ab" {
		t.Error("a name that is given is not taken")
	}
}
