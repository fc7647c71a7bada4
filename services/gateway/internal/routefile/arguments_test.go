package routefile_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/routefile"
)

// operation reads a file with one operation, POST by the path, and schemas.
func operation(t *testing.T, version, path, members, schemas string) *routefile.Operation {
	t.Helper()
	if members != "" {
		members += ","
	}
	mode := "open-api"
	if strings.ContainsAny(path, ":*") {
		mode = "url-pattern"
	}
	text := `{"openapi":"` + version + `","paths":{"` + path + `":{"x-gateway-path":{"pathMode":"` + mode + `"},"post":{` + members + route + `}}},"components":{"schemas":{` + schemas + `}}}`
	return first(t, load(t, "a.oas.json", text))
}

func body(schema string) string {
	return `"requestBody":{"content":{"application/json":{"schema":` + schema + `}}}`
}

func parameters(list string) string { return `"parameters":[` + list + `]` }

func TestInput(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ path, members, schemas, want string }{
		"nothing":                      {"/x", "", "", `{"type":"object","properties":{},"additionalProperties":false}`},
		"a body, verbatim":             {"/x", body(`{ "type":"object", "$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"x-mcp-header":"A","$ref":"#/$defs/a"}},"$defs":{"a":{"type":"number","maximum":1.50}} }`), "", `{"type":"object","$schema":"https://json-schema.org/draft/2020-12/schema","properties":{"a":{"x-mcp-header":"A","$ref":"#/$defs/a"}},"$defs":{"a":{"type":"number","maximum":1.50}}}`},
		"a body by reference":          {"/x", body(`{"$ref":"#/components/schemas/a"}`), `"a":{"type":"object","properties":{"b":{"$ref":"#/components/schemas/b"}}},"b":{}`, `{"type":"object","properties":{"b":{"$ref":"#/$defs/b"}},"$defs":{"b":{}}}`},
		"a body that contains itself":  {"/x", body(`{"$ref":"#/components/schemas/a"}`), `"a":{"type":"object","properties":{"a":{"$ref":"#/components/schemas/a"}}}`, `{"type":"object","properties":{"a":{"$ref":"#"}}}`},
		"a body that is no object":     {"/x", body(`{"type":"array"}`), "", `{"type":"object","properties":{"body":{"type":"array"}},"additionalProperties":false}`},
		"a body that must be there":    {"/x", `"requestBody":{"required":true,"description":"what","content":{"application/json":{}}}`, "", `{"type":"object","properties":{"body":{"description":"what"}},"required":["body"],"additionalProperties":false}`},
		"parameters":                   {"/x/{id}", parameters(`{"name":"q","in":"query","description":"ask","schema":{"type":"integer"}},{"name":"h","in":"header","required":true,"schema":{"type":"string","description":"own"}},{"name":"d","in":"query","required":true,"schema":{"default":1}}`), "", `{"type":"object","properties":{"q":{"description":"ask","type":"integer"},"h":{"type":"string","description":"own"},"d":{"default":1},"id":{"type":"string"}},"required":["h","id"],"additionalProperties":false}`},
		"parameters and a body":        {"/x/{id}", parameters(`{"name":"id","in":"path","schema":{"$ref":"#/components/schemas/id"}}`) + "," + body(`{"$ref":"#/components/schemas/a"}`), `"id":{"type":"string"},"a":{"type":"object","properties":{"id":{"$ref":"#/components/schemas/id"},"a":{"$ref":"#/components/schemas/a"}}}`, `{"type":"object","properties":{"id":{"$ref":"#/$defs/id"},"body":{"$ref":"#/$defs/a"}},"required":["id"],"additionalProperties":false,"$defs":{"id":{"type":"string"},"a":{"type":"object","properties":{"id":{"$ref":"#/$defs/id"},"a":{"$ref":"#/$defs/a"}}}}}`},
		"a body called body elsewhere": {"/x", body(`{"type":"object","properties":{"body":{}}}`), "", `{"type":"object","properties":{"body":{}}}`},
		"no JSON":                      {"/x", `"requestBody":{"content":{"text/plain":{}}}`, "", `{"type":"object","properties":{},"additionalProperties":false}`},
		"any media type":               {"/x", `"requestBody":{"content":{"*/*":{"schema":{"type":"object"}}}}`, "", `{"type":"object"}`},
		"a parameter as JSON":          {"/x", parameters(`{"name":"q","in":"query","content":{"application/json":{"schema":{"type":"object"}}}}`), "", `{"type":"object","properties":{"q":{"type":"object"}},"additionalProperties":false}`},
		"a path by pattern":            {`/x/:id(\\d+)`, "", "", `{"type":"object","properties":{"id":{"type":"string"}},"required":["id"],"additionalProperties":false}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := operation(t, "3.1.0", tc.path, tc.members, tc.schemas).Input()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
			if _, err := jsonschema.Compile(got); err != nil {
				t.Errorf("it does not stand for itself: %v", err)
			}
		})
	}
}

// What can't be told in arguments is said when it is asked for; the route is none the worse.
func TestNoInput(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x", parameters(`{"name":"body","in":"query"}`)+","+body(`{}`), "")
	if schema, err := o.Input(); err == nil {
		t.Errorf("schema is %s", schema)
	}
	if call, found := o.Arguments(t.Context(), []byte(`{}`)); call != nil || len(found) != 1 || found[0].Detail != "the query parameter body and the request's body would be one argument" {
		t.Errorf("call is %v, violations are %v", call, found)
	}
}

func TestOpenAPI30Input(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.0.3", "/x", parameters(`{"name":"q","in":"query","schema":{"type":"integer","nullable":true,"minimum":1,"exclusiveMinimum":true}}`)+","+body(`{"$ref":"#/components/schemas/a","description":"not counted"}`), `"a":{"type":"object","nullable":true}`)
	got, err := o.Input()
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{"q":{"type":["integer","null"],"exclusiveMinimum":1},"body":{"$ref":"#/$defs/a"}},"additionalProperties":false,"$defs":{"a":{"type":["object","null"]}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("schema (-want +got):\n%s", diff)
	}
	call, found := o.Arguments(t.Context(), []byte(`{"q":null,"body":null}`))
	if len(found) > 0 || call.Query != "" || string(call.Body) != "null" {
		t.Errorf("call is %+v, violations are %v", call, found)
	}
	if _, found = o.Arguments(t.Context(), []byte(`{"q":1}`)); len(found) != 1 || found[0].Pointer != "/q" {
		t.Errorf("violations are %v", found)
	}
}

func TestArguments(t *testing.T) {
	t.Parallel()
	type call = routefile.Call
	object := body(`{"type":"object","properties":{"a":{"default":1}}}`)
	for name, tc := range map[string]struct {
		path, members, args string
		want                call
	}{
		"nothing":                     {"/x", "", "", call{Path: "/x"}},
		"the body, byte for byte":     {"/x", object, ` {"b" : 1.50, "a":"é\u00e9"}`, call{Path: "/x", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(` {"b" : 1.50, "a":"é\u00e9"}`)}},
		"no body":                     {"/x", object, ``, call{Path: "/x"}},
		"no members":                  {"/x", object, ` {} `, call{Path: "/x"}},
		"a body that must be there":   {"/x", strings.Replace(object, `{`, `{"required":true,`, 1), `{}`, call{Path: "/x", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`{}`)}},
		"another JSON":                {"/x", `"requestBody":{"required":true,"content":{"application/merge-patch+json":{"schema":{"type":"object"}}}}`, ``, call{Path: "/x", Header: http.Header{"Content-Type": {"application/merge-patch+json"}}, Body: []byte(`{}`)}},
		"the first JSON":              {"/x", `"requestBody":{"content":{"text/plain":{},"application/a+json":{"schema":{"type":"object"}},"application/b+json":{}}}`, `{"a":1}`, call{Path: "/x", Header: http.Header{"Content-Type": {"application/a+json"}}, Body: []byte(`{"a":1}`)}},
		"a body that is no object":    {"/x", body(`{"type":"array"}`), `{"body": [ 1 ]}`, call{Path: "/x", Header: http.Header{"Content-Type": {"application/json"}}, Body: []byte(`[ 1 ]`)}},
		"parameters and a body":       {"/x/{id}", parameters(`{"name":"q","in":"query"},{"name":"X-H","in":"header"}`) + "," + object, `{"q":"v","body":{"id": 2},"id":"1","X-H":"h"}`, call{Path: "/x/1", Params: map[string]string{"id": "1"}, Query: "q=v", Header: http.Header{"Content-Type": {"application/json"}, "X-H": {"h"}}, Body: []byte(`{"id": 2}`)}},
		"parameters and no body":      {"/x/{id}", object, `{"id":"1"}`, call{Path: "/x/1", Params: map[string]string{"id": "1"}}},
		"defaults":                    {"/x/{id}", parameters(`{"name":"id","in":"path","schema":{"default":"d"}},{"name":"q","in":"query","schema":{"type":"array","default":[1,2]}},{"name":"X-H","in":"header","schema":{"default":false}},{"name":"n","in":"query"}`), `{}`, call{Path: "/x/d", Params: map[string]string{"id": "d"}, Query: "q=1&q=2", Header: http.Header{"X-H": {"false"}}}},
		"what is given is no default": {"/x", parameters(`{"name":"q","in":"query","schema":{"default":1}}`), `{"q":0}`, call{Path: "/x", Query: "q=0"}},
		"null is not there":           {"/x", parameters(`{"name":"q","in":"query"}`), `{"q":null}`, call{Path: "/x"}},
		"an empty text is":            {"/x", parameters(`{"name":"q","in":"query"}`), `{"q":""}`, call{Path: "/x", Query: "q="}},
		"numbers as they are":         {"/x", parameters(`{"name":"q","in":"query"}`), `{"q":12345678901234567890.10}`, call{Path: "/x", Query: "q=12345678901234567890.10"}},
		"whole numbers have digits":   {"/x", parameters(`{"name":"q","in":"query"}`), `{"q":[7.0,1e3,-0.0,1.5,1e400,9007199254740993.0]}`, call{Path: "/x", Query: "q=7&q=1000&q=0&q=1.5&q=1e400&q=9007199254740993.0"}},
		"a slash in a value":          {"/x/{id}/y", "", `{"id":"a/b%2f c?#é"}`, call{Path: "/x/a%2Fb%252f%20c%3F%23%C3%A9/y", Params: map[string]string{"id": "a/b%2f c?#é"}}},
		"parts of a segment":          {"/x/{a}-{b}.json", "", `{"a":"1","b":"2"}`, call{Path: "/x/1-2.json", Params: map[string]string{"a": "1", "b": "2"}}},
		"a literal that is escaped":   {"/x%20y/(ü)/{id}", "", `{"id":"1"}`, call{Path: "/x%20y/%28%C3%BC%29/1", Params: map[string]string{"id": "1"}}},
		"a pattern":                   {`/x/:id(\\d+)/y`, "", `{"id":"12"}`, call{Path: "/x/12/y", Params: map[string]string{"id": "12"}}},
		"lists":                       {"/x/{p}", parameters(`{"name":"p","in":"path","schema":{"type":"array"}},{"name":"f","in":"query"},{"name":"e","in":"query","explode":false},{"name":"s","in":"query","style":"spaceDelimited"},{"name":"b","in":"query","style":"pipeDelimited"},{"name":"X-H","in":"header"}`), `{"p":[1,"a"],"f":["a b",true,{"c":[1]}],"e":[1,2],"s":[1,2],"b":[1,2],"X-H":[1,2]}`, call{Path: "/x/1,a", Params: map[string]string{"p": "1,a"}, Query: "f=a%20b&f=true&f=%7B%22c%22%3A%5B1%5D%7D&e=1,2&s=1%202&b=1%7C2", Header: http.Header{"X-H": {"1,2"}}}},
		"objects":                     {"/x/{p}", parameters(`{"name":"p","in":"path","explode":true},{"name":"f","in":"query"},{"name":"e","in":"query","explode":false},{"name":"d","in":"query","style":"deepObject"},{"name":"j","in":"query","content":{"application/json":{"schema":{}}}}`), `{"p":{"a":1},"f":{"b":2,"c":"x"},"e":{"g":3},"d":{"h":4},"j":{"i": 5}}`, call{Path: "/x/a=1", Params: map[string]string{"p": "a=1"}, Query: "b=2&c=x&e=g,3&d%5Bh%5D=4&j=%7B%22i%22%3A%205%7D"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, found := operation(t, "3.1.0", tc.path, tc.members, "").Arguments(t.Context(), []byte(tc.args))
			if len(found) > 0 {
				t.Fatalf("violations are %v", found)
			}
			if diff := cmp.Diff(&tc.want, got, cmpopts.EquateEmpty()); diff != "" {
				t.Errorf("call (-want +got):\n%s", diff)
			}
			if (got.Body == nil) != (tc.want.Body == nil) {
				t.Errorf("a body: %v", got.Body != nil)
			}
		})
	}
}

// No argument leaves its place, whatever it says.
func TestArgumentsThatClimb(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x/{id}/y", "", "")
	for _, value := range []string{
		"", ".", "..", "../y", "a/..", "a/../../b", `..\\b`, `a\\..\\b`, "%2e%2e", "%2E.", "a%2f..%2fb", "%252e%252e%252f", "a%5c..", "..;/b", "..;a=b",
		"100%/%2e%2e", `a\u0000`, `a\nb`, `\u007f`,
	} {
		if call, found := o.Arguments(t.Context(), []byte(`{"id":"`+value+`"}`)); len(found) != 1 || found[0].Pointer != "/id" || call != nil {
			t.Errorf("%q: call is %+v, violations are %v", value, call, found)
		}
	}
	if _, found := o.Arguments(t.Context(), []byte(`{"id":""}`)); len(found) != 1 || found[0].Detail != "must not be empty: it is a part of the path" {
		t.Errorf("nothing: violations are %v", found)
	}
	matcher, err := o.Matcher()
	if err != nil {
		t.Fatal(err)
	}
	for _, value := range []string{"a/b", "...", "a..b", "%2f", "a%2fb", "?a=b#c", "y/z/", "//", "é 😀", "a;b", "100%", "%zz", "{id}"} {
		call, found := o.Arguments(t.Context(), []byte(`{"id":"`+value+`"}`))
		if len(found) > 0 {
			t.Errorf("%q is refused: %v", value, found)
			continue
		}
		if params, ok := matcher(call.Path); !ok || params["id"] != value || strings.Count(call.Path, "/") != 3 {
			t.Errorf("%q is %s, which is read as %q", value, call.Path, params["id"])
		}
	}
	two := operation(t, "3.1.0", "/x/{a}-{b}", "", "")
	if call, found := two.Arguments(t.Context(), []byte(`{"a":"1","b":"2-3"}`)); call != nil || len(found) != 2 || found[0].Detail != "can't be a part of the path" {
		t.Errorf("another reading of the path: %+v, %v", call, found)
	}
	dots := operation(t, "3.1.0", "/x/.{a}", "", "")
	if call, found := dots.Arguments(t.Context(), []byte(`{"a":"."}`)); call != nil || len(found) != 1 {
		t.Errorf("dots that come together: %+v, %v", call, found)
	}
	pattern := operation(t, "3.1.0", `/x/:id(\\d+)`, "", "")
	if call, found := pattern.Arguments(t.Context(), []byte(`{"id":"12a"}`)); call != nil || len(found) != 1 || found[0].Pointer != "/id" {
		t.Errorf("a value that the pattern does not match: %+v, %v", call, found)
	}
	header := operation(t, "3.1.0", "/x", parameters(`{"name":"X-H","in":"header"}`), "")
	for _, value := range []string{`a\r\nX-Other: b`, `a\u0000`, `\t`} {
		if call, found := header.Arguments(t.Context(), []byte(`{"X-H":"`+value+`"}`)); call != nil || len(found) != 1 || found[0].Pointer != "/X-H" {
			t.Errorf("%q in a header: %+v, %v", value, call, found)
		}
	}
}

// Arguments are held to the schema, all faults at once, before there is a call.
func TestArgumentsThatDoNotFit(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x/{id}", parameters(`{"name":"id","in":"path","schema":{"type":"integer"}},{"name":"q","in":"query","required":true,"schema":{"enum":["a"]}}`)+","+body(`{"type":"object","properties":{"b":{"type":"string"}},"required":["c"]}`), "")
	for args, want := range map[string][]jsonschema.Violation{
		`{"id":"secret","q":"secret","body":{"b":1},"more":1}`: {
			{Pointer: "/body/b", Detail: "must be of type string"}, {Pointer: "/body/c", Detail: "is required"},
			{Pointer: "/id", Detail: "must be of type integer"}, {Pointer: "/more", Detail: "is not a known member"}, {Pointer: "/q", Detail: `must be one of "a"`},
		},
		``:                     {{Pointer: "/id", Detail: "is required"}, {Pointer: "/q", Detail: "is required"}},
		`[]`:                   {{Detail: "must be of type object"}},
		`null`:                 {{Detail: "must be of type object"}},
		`{"id":1,"id":2}`:      {{Pointer: "/id", Detail: "is given twice"}},
		`{`:                    {{Detail: "The value is not valid JSON, from byte 1 on."}},
		`{"id":1e999,"q":"a"}`: {{Pointer: "/id", Detail: "is a number with too many digits"}},
	} {
		call, found := o.Arguments(t.Context(), []byte(args))
		if diff := cmp.Diff(want, found); diff != "" || call != nil {
			t.Errorf("violations of %s (-want +got):\n%s", args, diff)
		}
	}
}

// A resource's uri has texts; the route gets what its schema asks for.
func TestExpand(t *testing.T) {
	t.Parallel()
	o := operation(t, "3.1.0", "/x/{id}/{on}/{name}/{list}", parameters(
		`{"name":"id","in":"path","schema":{"type":"integer","minimum":1}},{"name":"on","in":"path","schema":{"type":"boolean"}},{"name":"list","in":"path","schema":{"type":"array","items":{"type":"integer"}}},{"name":"q","in":"query","schema":{"default":"d"}}`), "")
	got, found := o.CallFromPath(t.Context(), map[string]string{"id": "7", "on": "true", "name": "7", "list": "1,2"})
	if len(found) > 0 {
		t.Fatalf("violations are %v", found)
	}
	want := &routefile.Call{Path: "/x/7/true/7/1,2", Params: map[string]string{"id": "7", "on": "true", "name": "7", "list": "1,2"}, Query: "q=d"}
	if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" {
		t.Errorf("call (-want +got):\n%s", diff)
	}
	for name, tc := range map[string]struct {
		params map[string]string
		want   []jsonschema.Violation
	}{
		"of other types": {map[string]string{"id": "0", "on": "yes", "name": "..", "list": "1,x"}, []jsonschema.Violation{{Pointer: "/id", Detail: "must be 1 or more"}, {Pointer: "/list/1", Detail: "must be of type integer"}, {Pointer: "/on", Detail: "must be of type boolean"}}},
		"a part is left": {map[string]string{"id": "1", "on": "true", "name": "a"}, []jsonschema.Violation{{Pointer: "/list", Detail: "is required"}}},
		"an unknown one": {map[string]string{"id": "1", "on": "true", "name": "a", "list": "1", "q": "x"}, []jsonschema.Violation{{Detail: "has a parameter that the path does not have"}}},
		"climbing":       {map[string]string{"id": "1", "on": "true", "name": "..", "list": "1"}, []jsonschema.Violation{{Pointer: "/name", Detail: "must not have a part . or .. : it is a part of the path"}}},
	} {
		call, found := o.CallFromPath(t.Context(), tc.params)
		if diff := cmp.Diff(tc.want, found); diff != "" || call != nil {
			t.Errorf("%s: violations (-want +got):\n%s", name, diff)
		}
	}
}

// What stands in a resource's uri is read in the types that the schema names, so that it can
// be held to it.
func TestExpandedTypes(t *testing.T) {
	t.Parallel()
	object := `{"type":"object","properties":{"a":{"type":"integer"},"b":{"type":"string"}}}`
	for name, tc := range map[string]struct {
		parameter, text, path string
		found                 []jsonschema.Violation
	}{
		"no integer":      {`"schema":{"type":"integer"}`, "5x", "", []jsonschema.Violation{{Pointer: "/p", Detail: "must be of type integer"}}},
		"spaces":          {`"schema":{"type":"integer"}`, " 5", "", []jsonschema.Violation{{Pointer: "/p", Detail: "must be of type integer"}}},
		"text or integer": {`"schema":{"type":["integer","string"]}`, "5", "/x/5", nil},
		"null":            {`"schema":{"type":["integer","null"]}`, "null", "", []jsonschema.Violation{{Pointer: "/p", Detail: "must not be empty: it is a part of the path"}}},
		"by reference":    {`"schema":{"$ref":"#/components/schemas/i"}`, "5", "/x/5", nil},
		"object":          {`"schema":` + object, "a,1,b,2", "/x/a,1,b,2", nil},
		"no such object":  {`"schema":` + object, "a,x,b,2", "", []jsonschema.Violation{{Pointer: "/p/a", Detail: "must be of type integer"}}},
		"exploded object": {`"explode":true,"schema":` + object, "a=1,b=2", "/x/a=1,b=2", nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := operation(t, "3.1.0", "/x/{p}", parameters(`{"name":"p","in":"path","required":true,`+tc.parameter+`}`), `"i":{"type":"integer"}`)
			call, found := o.CallFromPath(t.Context(), map[string]string{"p": tc.text})
			if diff := cmp.Diff(tc.found, found); diff != "" {
				t.Fatalf("violations (-want +got):\n%s", diff)
			}
			if call != nil && call.Path != tc.path {
				t.Errorf("path %s, want %s", call.Path, tc.path)
			}
		})
	}
}
