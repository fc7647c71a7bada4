package jsonschema_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
)

func document(t *testing.T, version, text string) *jsonschema.Document {
	t.Helper()
	root, err := jsontree.Parse([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	d, err := jsonschema.NewDocument(root, version, nil)
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// components returns a document with schemas.
func components(t *testing.T, version, schemas string) *jsonschema.Document {
	t.Helper()
	return document(t, version, `{"components":{"schemas":{`+schemas+`}}}`)
}

const at = "/components/schemas/"

func TestBundle(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schemas, want string }{
		"verbatim":                       {`"a": { "type" : "object", "x-more":[ 1.50 ], "enum":[{"$ref":"#/nowhere"}] }`, `{ "type" : "object", "x-more":[ 1.50 ], "enum":[{"$ref":"#/nowhere"}] }`},
		"a boolean":                      {`"a": true`, `true`},
		"own definitions stay":           {`"a":{"$defs":{"x":{"type":"string"}},"items":{"$ref":"#/$defs/x"}}`, `{"$defs":{"x":{"type":"string"}},"items":{"$ref":"#/$defs/x"}}`},
		"an anchor stays":                {`"a":{"$defs":{"x":{"$anchor":"y"}},"items":{"$ref":"#y"}}`, `{"$defs":{"x":{"$anchor":"y"}},"items":{"$ref":"#y"}}`},
		"a resource stays":               {`"a":{"$id":"https://example.com/a","$defs":{"x":{}},"items":{"$ref":"#/$defs/x"}}`, `{"$id":"https://example.com/a","$defs":{"x":{}},"items":{"$ref":"#/$defs/x"}}`},
		"what it refers to comes along":  {`"a":{"properties":{"p":{"$ref":"#/components/schemas/b"}}},"b":{"type":"string"}`, `{"properties":{"p":{"$ref":"#/$defs/b"}},"$defs":{"b":{"type":"string"}}}`},
		"and what that refers to":        {`"a":{"not":{"$ref":"#/components/schemas/b"}},"b":{"not":{"$ref":"#/components/schemas/c"}},"c":{}`, `{"not":{"$ref":"#/$defs/b"},"$defs":{"b":{"not":{"$ref":"#/$defs/c"}},"c":{}}}`},
		"definitions are added":          {`"a":{"$defs":{"b":{"type":"null"}},"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/components/schemas/b"}]},"b":{}`, `{"$defs":{"b":{"type":"null"},"b-2":{}},"anyOf":[{"$ref":"#/$defs/b"},{"$ref":"#/$defs/b-2"}]}`},
		"nothing but a reference":        {`"a":{"$ref":"#/components/schemas/b"},"b":{"$ref":"#/components/schemas/c"},"c":{"type":"object"}`, `{"type":"object"}`},
		"a reference with something":     {`"a":{"$ref":"#/components/schemas/b","title":"A"},"b":{}`, `{"$ref":"#/$defs/b","title":"A","$defs":{"b":{}}}`},
		"recursion":                      {`"a":{"items":{"$ref":"#/components/schemas/a"}}`, `{"items":{"$ref":"#"}}`},
		"recursion of another":           {`"a":{"not":{"$ref":"#/components/schemas/b"}},"b":{"items":{"$ref":"#/components/schemas/b"},"not":{"$ref":"#/components/schemas/a"}}`, `{"not":{"$ref":"#/$defs/b"},"$defs":{"b":{"items":{"$ref":"#/$defs/b"},"not":{"$ref":"#"}}}}`},
		"recursion of its own":           {`"a":{"items":{"$ref":"#"}}`, `{"items":{"$ref":"#"}}`},
		"local references move along":    {`"a":{"not":{"$ref":"#/components/schemas/b"}},"b":{"$defs":{"x":{}},"not":{"$ref":"#/$defs/x"}}`, `{"not":{"$ref":"#/$defs/b"},"$defs":{"b":{"$defs":{"x":{}},"not":{"$ref":"#/$defs/b/$defs/x"}}}}`},
		"a part of another":              {`"a":{"not":{"$ref":"#/components/schemas/b/properties/p%20q"}},"b":{"properties":{"p q":{"type":"null"}}}`, `{"not":{"$ref":"#/$defs/p_q"},"$defs":{"p_q":{"type":"null"}}}`},
		"a name that begins the same":    {`"a":{"not":{"$ref":"#/components/schemas/ab"}},"ab":{}`, `{"not":{"$ref":"#/$defs/ab"},"$defs":{"ab":{}}}`},
		"two of one name":                {`"a":{"not":{"$ref":"#/components/schemas/b"},"if":{"$ref":"#/components/schemas/c/properties/b"}},"b":{},"c":{"properties":{"b":true}}`, `{"not":{"$ref":"#/$defs/b"},"if":{"$ref":"#/$defs/b-2"},"$defs":{"b":{},"b-2":true}}`},
		"names with escapes":             {`"a":{"properties":{"x/y":{"type":"null"},"z":{"$ref":"#/components/schemas/a/properties/x~1y"}}}`, `{"properties":{"x/y":{"type":"null"},"z":{"$ref":"#/properties/x~1y"}}}`},
		"a property called $ref is none": {`"a":{"properties":{"$ref":{"type":"string"}},"default":{"$ref":"x"}}`, `{"properties":{"$ref":{"type":"string"}},"default":{"$ref":"x"}}`},
		"every keyword":                  {everyKeyword("#/components/schemas/b") + `,"b":{}`, strings.TrimSuffix(strings.TrimPrefix(everyKeyword("#/$defs/b"), `"a":`), "}") + `,"$defs":{"b":{}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := components(t, "3.1.0", tc.schemas).Bundle(at+"a", jsonschema.Requests)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("bundle (-want +got):\n%s", diff)
			}
			if _, err := jsonschema.Compile(got); err != nil {
				t.Errorf("it does not stand for itself: %v", err)
			}
		})
	}
}

func everyKeyword(reference string) string {
	r := `{"$ref":"` + reference + `"}`
	text := `"a":{"dependentSchemas":{"x":` + r + `},"patternProperties":{"x":` + r + `},"prefixItems":[` + r + `],"allOf":[` + r + `],"oneOf":[` + r + `]`
	single := []string{"items", "additionalProperties", "unevaluatedProperties", "unevaluatedItems", "propertyNames", "contains", "not", "if", "then", "else", "contentSchema"}
	return text + `,"` + strings.Join(single, `":`+r+`,"`) + `":` + r + "}"
}

// What a schema needs and the document does not have is said when it is asked for, and
// nothing is fetched.
func TestReferencesThatLeadNowhere(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schemas, want string }{
		"another document":       {`"a":{"items":{"$ref":"https://example.com/schema.json"}}`, "it refers to https://example.com/schema.json, which is not in the document"},
		"a file":                 {`"a":{"$ref":"other.json#/x"}`, "it refers to other.json#/x, which is not in the document"},
		"nothing":                {`"a":{"not":{"$ref":"#/components/schemas/b"}}`, "it refers to #/components/schemas/b, which is not a schema in the document"},
		"nothing, further on":    {`"a":{"not":{"$ref":"#/components/schemas/b"}},"b":{"not":{"$ref":"#/c"}}`, at + "b: it refers to #/c, which is not a schema in the document"},
		"a text":                 {`"a":{"not":{"$ref":"#/x"},"x":"y"}`, "it refers to #/x, which is not a schema in the document"},
		"itself":                 {`"a":{"$ref":"#/components/schemas/b"},"b":{"$ref":"#/components/schemas/a"}`, "it refers only to itself"},
		"out of a resource":      {`"a":{"$id":"https://example.com/a","items":{"$ref":"#/components/schemas/b"}},"b":{}`, "a schema with an $id refers to the document around it, which can't be told apart"},
		"no text":                {`"a":{"$ref":1}`, "a reference is a text"},
		"not there":              {`"b":{}`, "there is no schema"},
		"a number":               {`"a":1`, "a schema is an object, true or false"},
		"compiled: an anchor":    {`"a":{"$ref":"#x"}`, "compile schema: "},
		"compiled: a URL by $id": {`"a":{"$id":"https://example.com/a","$ref":"https://example.com/b"}`, "compile schema: it refers to https://example.com/b, which is not in the document"},
		"compiled: a type":       {`"a":{"properties":{"b":{"type":"strng"}}}`, "compile schema: /properties/b/type fits none of the allowed forms"},
		"compiled: a pattern":    {`"a":{"pattern":"(?=x)"}`, "compile schema: /pattern must have the format regex"},
		"compiled: a dialect":    {`"a":{"$schema":"https://example.com/dialect"}`, "compile schema: it refers to https://example.com/dialect, which is not in the document"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := components(t, "3.1.0", tc.schemas)
			_, err := d.Compile(at + "a")
			if err == nil || !strings.HasPrefix(err.Error(), tc.want) {
				t.Errorf("error is %v, want %s", err, tc.want)
			}
			if _, err := d.Bundle(at+"a", jsonschema.Requests); (err == nil) != strings.HasPrefix(name, "compiled") {
				t.Errorf("bundled with error %v", err)
			}
		})
	}
}

func TestOpenAPI30(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ schema, want string }{
		"nullable":                    {`{"type":"string","nullable":true}`, `{"type":["string","null"]}`},
		"not nullable":                {`{"nullable":false,"type":"string"}`, `{"type":"string"}`},
		"nullable without a type":     {`{"nullable":true,"enum":[1]}`, `{"enum":[1]}`},
		"exclusive bounds":            {`{"minimum":1,"exclusiveMinimum":true,"maximum":9,"exclusiveMaximum":true}`, `{"exclusiveMinimum":1,"exclusiveMaximum":9}`},
		"inclusive bounds":            {`{"minimum":1,"exclusiveMinimum":false}`, `{"minimum":1}`},
		"only a reference counts":     {`{"$ref":"#/components/schemas/b","type":"string"}`, `{"type":["integer","null"]}`},
		"within":                      {`{"properties":{"nullable":{"type":"string","nullable":true}},"allOf":[{"items":{"nullable":true,"type":"null"}}]}`, `{"properties":{"nullable":{"type":["string","null"]}},"allOf":[{"items":{"type":["null","null"]}}]}`},
		"nothing to change":           {`{ "type" : "string" }`, `{ "type" : "string" }`},
		"values are no schemas":       {`{"enum":[{"nullable":true}],"default":{"nullable":true},"example":{"nullable":true}}`, `{"enum":[{"nullable":true}],"default":{"nullable":true},"example":{"nullable":true}}`},
		"a number is left as a bound": {`{"exclusiveMinimum":3}`, `{"exclusiveMinimum":3}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text := `{"paths":{"/x":{"post":{"parameters":[{"schema":` + tc.schema + `,"example":{"schema":{"nullable":true}}}]}}},` +
				`"components":{"schemas":{"a":` + tc.schema + `,"b":{"type":"integer","nullable":true}}}}`
			for _, pointer := range []string{at + "a", "/paths/~1x/post/parameters/0/schema"} {
				got, err := document(t, "3.0.3", text).Bundle(pointer, jsonschema.Requests)
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tc.want, string(got)); diff != "" {
					t.Errorf("%s (-want +got):\n%s", pointer, diff)
				}
			}
			if got, err := document(t, "3.1.0", text).Bundle("/paths/~1x/post/parameters/0/schema", jsonschema.Requests); err == nil && !strings.Contains(tc.schema, "$ref") && string(got) != tc.schema {
				t.Errorf("3.1 is changed: %s", got)
			}
		})
	}
	got, err := document(t, "3.0.3", `{"paths":{"/x":{"example":{"schema":{"nullable":true}}}}}`).Bundle("/paths/~1x/example/schema", jsonschema.Requests)
	if err != nil || string(got) != `{"nullable":true}` {
		t.Errorf("an example is changed: %s, %v", got, err)
	}
}

func TestObject(t *testing.T) {
	t.Parallel()
	d := components(t, "3.1.0", `"id":{"type":"string"},"node":{"description":"own","items":{"$ref":"#/components/schemas/node"},"not":{"$ref":"#/components/schemas/id"}}`)
	got, err := d.Object([]jsonschema.Property{
		{Name: "a/b", Pointer: at + "node", Description: "other", Required: true},
		{Name: "id", Pointer: at + "id", Description: "which"},
		{Name: "plain", Schema: []byte(`{}`), Description: "any", Required: true},
		{Name: "all", Schema: []byte(`true`), Description: "any"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"type":"object","properties":{` +
		`"a/b":{"description":"own","items":{"$ref":"#/properties/a~1b"},"not":{"$ref":"#/$defs/id"}},` +
		`"id":{"description":"which","type":"string"},"plain":{"description":"any"},"all":true},` +
		`"required":["a/b","plain"],"additionalProperties":false,"$defs":{"id":{"type":"string"}}}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
	schema, err := jsonschema.Compile(got)
	if err != nil {
		t.Fatal(err)
	}
	wrong := schema.Validate(t.Context(), []byte(`{"a/b":[[1],"x"],"plain":1,"id":2,"more":3}`))
	if diff := cmp.Diff([]jsonschema.Violation{
		{Pointer: "/a~1b/1", Detail: "has a form that is not allowed"},
		{Pointer: "/id", Detail: "must be of type string"},
		{Pointer: "/more", Detail: "is not a known member"},
	}, wrong); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	if empty, err := d.Object(nil); err != nil || string(empty) != `{"type":"object","properties":{},"additionalProperties":false}` {
		t.Errorf("no properties: %s, %v", empty, err)
	}
	if _, err := d.Object([]jsonschema.Property{{Name: "x", Pointer: "/nowhere"}}); err == nil {
		t.Error("a schema that is not there is taken")
	}
}

func TestBundleObject(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		schemas string
		want    string // empty: no object
	}{
		"an object":             {`"a":{ "type":"object" }`, `{ "type":"object" }`},
		"a list of one type":    {`"a":{"type":["object"],"title":"x"}`, `{"type":"object","title":"x"}`},
		"by its members":        {`"a":{"properties":{}}`, `{"type":"object","properties":{}}`},
		"by a reference":        {`"a":{"$ref":"#/components/schemas/b","title":"x"},"b":{"type":"object"}`, `{"type":"object","$ref":"#/$defs/b","title":"x","$defs":{"b":{"type":"object"}}}`},
		"by one part":           {`"a":{"allOf":[{"title":"x"},{"required":["y"]}]}`, `{"type":"object","allOf":[{"title":"x"},{"required":["y"]}]}`},
		"by all choices":        {`"a":{"oneOf":[{"type":"object"},{"additionalProperties":false}]}`, `{"type":"object","oneOf":[{"type":"object"},{"additionalProperties":false}]}`},
		"one choice is none":    {`"a":{"anyOf":[{"type":"object"},{"type":"string"}]}`, ""},
		"null is another type":  {`"a":{"type":["object","null"]}`, ""},
		"an array":              {`"a":{"type":"array","properties":{}}`, ""},
		"anything":              {`"a":{}`, ""},
		"true":                  {`"a":true`, ""},
		"round in a circle":     {`"a":{"allOf":[{"$ref":"#/components/schemas/a"}]}`, ""},
		"round in many circles": {`"a":{"allOf":[` + strings.Repeat(`{"not":{},"allOf":[{"$ref":"#/components/schemas/a"},{"$ref":"#/components/schemas/a"}]},`, 20) + `true]}`, ""},
		"nothing":               {`"b":{}`, ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			d := components(t, "3.1.0", tc.schemas)
			if is := d.IsObject(at + "a"); is != (tc.want != "") {
				t.Fatalf("is an object: %v", is)
			}
			if tc.want == "" {
				return
			}
			got, err := d.BundleObject(at+"a", jsonschema.Requests)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("schema (-want +got):\n%s", diff)
			}
		})
	}
}

func TestCompiledOnce(t *testing.T) {
	t.Parallel()
	d := components(t, "3.1.0", `"a":{"$ref":"#/components/schemas/b"},"b":{"type":"string"}`)
	a, err := d.Compile(at + "a")
	if err != nil {
		t.Fatal(err)
	}
	if b, err := d.Compile(at + "b"); err != nil || a != b {
		t.Errorf("compiled again: %v", err)
	}
}

// The schemas of a document share their regular expressions, in memory and in what a budget counts.
func TestPatternsAreShared(t *testing.T) {
	t.Parallel()
	const schemas = 100
	var text strings.Builder
	text.WriteString(`{"components":{"schemas":{`)
	for i := range schemas {
		fmt.Fprintf(&text, `"s%d":{"type":"string","pattern":"^[a-z]{1,900}$"},`, i)
	}
	text.WriteString(`"other":{"type":"string","pattern":"^[0-9]{1,900}$"}}}}`)
	root, err := jsontree.Parse([]byte(text.String()))
	if err != nil {
		t.Fatal(err)
	}
	budget := jsonschema.NewBudget(1<<20, nil)
	d, err := jsonschema.NewDocument(root, "3.1.0", budget)
	if err != nil {
		t.Fatal(err)
	}
	compile := func(name string) (taken int64) {
		before := budget.Spent()
		if _, err := d.Compile(at + name); err != nil {
			t.Fatal(err)
		}
		return budget.Spent() - before
	}
	first := compile("s0")
	for i := 1; i < schemas; i++ {
		if again := compile("s" + strconv.Itoa(i)); again > first/4 {
			t.Fatalf("a schema took %d values, one more with its pattern %d", first, again)
		}
	}
	if other := compile("other"); other < first/2 {
		t.Errorf("a schema took %d values, one with another pattern %d", first, other)
	}
}

// A file that is there is not read, either.
func TestNothingIsLoaded(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "other.json")
	if err := os.WriteFile(file, []byte(`{}`), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := jsonschema.Compile([]byte(`{"$ref":"file://` + file + `"}`)); err == nil || !strings.HasSuffix(err.Error(), "which is not in the document") {
		t.Errorf("error is %v", err)
	}
}
