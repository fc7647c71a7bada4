package jsonschema_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	library "github.com/santhosh-tekuri/jsonschema/v6"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/jsonscan/attack"
)

// greedy are schemas that have something to say about everything.
var greedy = map[string]string{
	"anything":          `{}`,
	"no members":        `{"additionalProperties":false}`,
	"members of a type": `{"additionalProperties":{"additionalProperties":{"type":"string"},"items":{"type":"object"}},"items":{"type":"object"}}`,
	"every level":       `{"additionalProperties":{"$ref":"#"},"items":{"$ref":"#"},"maxLength":1,"maximum":1,"maxProperties":1}`,
	"names":             `{"propertyNames":{"pattern":"^(a|b)+$"},"additionalProperties":{"$ref":"#"},"items":{"$ref":"#"}}`,
	"unevaluated":       `{"anyOf":[{"properties":{"a":true}},{"patternProperties":{"^b":true}}],"unevaluatedProperties":false,"unevaluatedItems":false}`,
	"unevaluated below": `{"additionalProperties":{"unevaluatedProperties":{"type":"string"},"unevaluatedItems":{"type":"object"}}}`,
	"choices":           `{"oneOf":[{"type":"array","items":{"$ref":"#"}},{"type":"object","additionalProperties":{"$ref":"#"}},{"type":"integer","minimum":5},{"type":"string","enum":["a","b"]}]}`,
	"choices that grow": `{"anyOf":[{"additionalProperties":{"$ref":"#"},"items":{"$ref":"#"},"minProperties":9},{"additionalProperties":{"$ref":"#"},"items":{"$ref":"#"},"maxProperties":1}],"not":{"items":{"$ref":"#"}}}`,
	"all of":            `{"allOf":[{"additionalProperties":{"$ref":"#"}},{"items":{"$ref":"#"}},{"required":["x"]},{"type":"number"}]}`,
	"unique":            `{"uniqueItems":true,"items":{"$ref":"#"},"additionalProperties":{"$ref":"#"}}`,
	"contains":          `{"contains":{"const":{"a":[1]}},"additionalProperties":{"contains":{"enum":["a",1.5]}}}`,
	"exact numbers":     `{"items":{"multipleOf":0.3,"maximum":1e300},"additionalProperties":{"multipleOf":7}}`,
	"patterns":          `{"items":{"pattern":"(a|aa)*b$"},"additionalProperties":{"pattern":"^([^x]{1,50}){1,20}$"},"patternProperties":{"(n|nn)*x":false}}`,
	"formats":           `{"items":{"anyOf":[{"format":"uri"},{"format":"regex"},{"format":"json-pointer"},{"format":"email"},{"format":"uri-template"}]}}`,
	"where it is met":   `{"$dynamicAnchor":"a","additionalProperties":{"$dynamicRef":"#a"},"items":{"$dynamicRef":"#a"},"type":"object"}`,
	"choices where met": `{"$dynamicAnchor":"a","type":["object","array"],"minProperties":1,"minItems":1,"additionalProperties":{"anyOf":[{"$dynamicRef":"#a"},{"$dynamicRef":"#a"}]},"items":{"anyOf":[{"$dynamicRef":"#a"},{"$dynamicRef":"#a"}]}}`,
	"choices of a root": `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"type":["object","array"],"minProperties":1,"minItems":1,"additionalProperties":{"anyOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]},"items":{"anyOf":[{"$recursiveRef":"#"},{"$recursiveRef":"#"}]}}`,
	"an earlier draft":  `{"$schema":"http://json-schema.org/draft-07/schema#","items":[{"type":"string"}],"additionalItems":false,"dependencies":{"a":["b"]},"additionalProperties":{"items":{"$ref":"#"}}}`,
}

// Whatever a schema asks for, of whatever is sent: checking costs no more than the size of
// the body allows, and no more than a hundred faults are told.
func TestAttacks(t *testing.T) {
	for name, text := range greedy {
		schema, err := jsonschema.Compile([]byte(text))
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range attack.Bodies(96 << 10) {
			t.Run(name+"/"+body.Name, func(t *testing.T) { hold(t, schema, body.Text) })
		}
	}
	for _, name := range []string{"choices that grow", "choices where met", "choices of a root"} {
		schema, err := jsonschema.Compile([]byte(greedy[name]))
		if err != nil {
			t.Fatal(err)
		}
		t.Run(name+"/40 levels", func(t *testing.T) { hold(t, schema, []byte(strings.Repeat("[", 40)+strings.Repeat("]", 40))) })
	}
	schema, err := jsonschema.Compile([]byte(greedy["every level"]))
	if err != nil {
		t.Fatal(err)
	}
	for _, body := range attack.Bodies(1 << 20) {
		t.Run("1 MiB/"+body.Name, func(t *testing.T) { hold(t, schema, body.Text) })
	}
}

func hold(t *testing.T, schema *jsonschema.Schema, body []byte) {
	t.Helper()
	// All that is allocated is counted, and exact numbers leave much behind them that the
	// collector takes at once: none of it is held.
	attack.Hold(t, len(body), attack.Allowance{CPU: 3, Times: 72}, func() {
		found := schema.Validate(t.Context(), body)
		if len(found) > jsonscan.MaxFaults {
			t.Errorf("%d violations", len(found))
		}
		for _, v := range found {
			if len(v.Pointer) > jsonscan.MaxPointer {
				t.Errorf("a pointer of %d bytes", len(v.Pointer))
			}
		}
	})
}

// The work ends with the request.
func TestContext(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.Compile([]byte(greedy["choices that grow"]))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if got := schema.Validate(ctx, []byte(strings.Repeat("[", 40)+strings.Repeat("]", 40))); len(got) != 1 || got[0].Detail != "is too expensive to check against its schema" {
		t.Errorf("violations are %v", got)
	}
}

// FuzzValidate looks for a value that fits a schema here and not for the library, or the
// other way round, and for one that costs too much.
func FuzzValidate(f *testing.F) {
	for _, schema := range greedy {
		f.Add([]byte(schema), []byte(`{"a":[1,"b",{"c":null,"a":[1]}],"b":1.50,"x":{"a":1e2}}`))
		f.Add([]byte(schema), []byte(`[{"a":[1]},[1.0,1],"a","aab",100,1e2,0.30,-0,0,{}]`))
	}
	for _, seed := range [][2]string{
		{`{"const":{"a":[1,{"b":null}],"c":"é"}}`, `{"c":"\u00e9","a":[1.0,{"b":null}]}`},
		{`{"enum":[1,"1",null,true,[],{}]}`, `10e-1`},
		{`{"uniqueItems":true}`, `[1,1.0,{"a":1,"b":2},{"b":2,"a":1}]`},
		{`{"if":{"properties":{"a":{"const":1}}},"then":{"required":["b"]},"else":{"required":["c"]},"dependentSchemas":{"b":{"maxProperties":1}},"dependentRequired":{"c":["d"]}}`, `{"a":1,"b":2}`},
		{`{"prefixItems":[{"type":"integer"}],"items":false,"minContains":0,"contains":{"type":"string"}}`, `[1.0]`},
		{`{"$defs":{"a":{"type":["string","null"],"minLength":2}},"properties":{"a":{"$ref":"#/$defs/a"}},"required":["a"]}`, `{"a":"é"}`},
		{`{"allOf":[{"properties":{"a":true}},{"if":true,"then":{"properties":{"b":true}}}],"unevaluatedProperties":false}`, `{"a":1,"b":2,"c":3}`},
		{`{"prefixItems":[true],"contains":{"type":"string"},"unevaluatedItems":false}`, `[1,"a",2]`},
		{`{"$schema":"https://json-schema.org/draft/2019-09/schema","items":[true],"unevaluatedItems":{"type":"string"}}`, `[1,"a"]`},
		{`{"$schema":"http://json-schema.org/draft-04/schema#","minimum":1,"exclusiveMinimum":true}`, `1`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, text, value []byte) {
		if len(text) > 4<<10 || len(value) > 1<<20 {
			return
		}
		schema, err := jsonschema.Compile(text)
		if err != nil {
			return
		}
		hold(t, schema, value)
		found := schema.Validate(t.Context(), value)
		if len(value) > 4<<10 || len(found) == 1 && strings.HasPrefix(found[0].Detail, "is too expensive") {
			return
		}
		if faults, err := jsonscan.Check(t.Context(), value, jsonscan.Options{Exact: true}); err != nil || len(faults) > 0 {
			return
		}
		if fits := reference(t, text, value); fits != (len(found) == 0) {
			t.Errorf("%s and %s: %v, and for the library it fits: %t", text, value, found, fits)
		}
	})
}

// reference reports whether a value fits for the library.
func reference(t *testing.T, text, value []byte) bool {
	t.Helper()
	document, err := library.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	compiler := library.NewCompiler()
	compiler.AssertFormat()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource("https://schema.invalid/", document); err != nil {
		t.Fatal(err)
	}
	compiled, err := compiler.Compile("https://schema.invalid/")
	if err != nil {
		t.Fatal(err)
	}
	read, err := library.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		t.Fatal(err)
	}
	return compiled.Validate(read) == nil
}

type nowhere struct{}

func (nowhere) Load(string) (any, error) { return nil, errors.New("not here") }
