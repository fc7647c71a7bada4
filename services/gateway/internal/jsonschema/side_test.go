package jsonschema_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// What one side does not write is not asked of it, and is not shown where there is no need of it,
// wherever the mark and the list of what is required stand.
func TestSides(t *testing.T) {
	t.Parallel()
	const both = `"a":{"required":["id","n","p"],"properties":{"id":{"readOnly":true}, "n":{} ,"p":{"writeOnly":true}}}`
	for name, tc := range map[string]struct {
		side          jsonschema.Side
		schemas, want string
	}{
		"requests":                        {jsonschema.Requests, both, `{"required":["n","p"],"properties":{"id":{"readOnly":true}, "n":{} ,"p":{"writeOnly":true}}}`},
		"arguments":                       {jsonschema.Arguments, both, `{"required":["n","p"],"properties":{ "n":{} ,"p":{"writeOnly":true}}}`},
		"answers":                         {jsonschema.Answers, both, `{"required":["id","n"],"properties":{"id":{"readOnly":true}, "n":{}}}`},
		"all members":                     {jsonschema.Arguments, `"a":{"properties":{"x":{"readOnly":true},"y":{"readOnly":true}}}`, `{"properties":{}}`},
		"some between":                    {jsonschema.Arguments, `"a":{"properties":{"x":{"readOnly":true},"y":{"readOnly":true},"z":{},"u":{"readOnly":true},"v":{"readOnly":true},"w":{}}}`, `{"properties":{"z":{},"w":{}}}`},
		"a mark behind a reference":       {jsonschema.Arguments, `"a":{"required":["x"],"properties":{"x":{"$ref":"#/components/schemas/b"}}},"b":{"$ref":"#/components/schemas/c"},"c":{"readOnly":true}`, `{"required":[],"properties":{}}`},
		"a mark in allOf":                 {jsonschema.Requests, `"a":{"required":["x"],"properties":{"x":{"allOf":[{"type":"string"},{"readOnly":true}]}}}`, `{"required":[],"properties":{"x":{"allOf":[{"type":"string"},{"readOnly":true}]}}}`},
		"a mark beside allOf":             {jsonschema.Requests, `"a":{"required":["x"],"properties":{"x":{"allOf":[{"$ref":"#/components/schemas/b"}],"readOnly":true}}},"b":{}`, `{"required":[],"properties":{"x":{"allOf":[{"$ref":"#/$defs/b"}],"readOnly":true}},"$defs":{"b":{}}}`},
		"at depth":                        {jsonschema.Requests, `"a":{"items":{"properties":{"x":{"additionalProperties":{"required":["id"],"properties":{"id":{"readOnly":true}}}}}}}`, `{"items":{"properties":{"x":{"additionalProperties":{"required":[],"properties":{"id":{"readOnly":true}}}}}}}`},
		"required beside what marks":      {jsonschema.Requests, `"a":{"allOf":[{"$ref":"#/components/schemas/b"},{"required":["id","n"]}]},"b":{"properties":{"id":{"readOnly":true},"n":{}}}`, `{"allOf":[{"$ref":"#/$defs/b"},{"required":["n"]}],"$defs":{"b":{"properties":{"id":{"readOnly":true},"n":{}}}}}`},
		"required around what marks":      {jsonschema.Requests, `"a":{"required":["id","n"],"allOf":[{"$ref":"#/components/schemas/b"}]},"b":{"allOf":[{"$ref":"#/components/schemas/c"}]},"c":{"properties":{"id":{"readOnly":true}}}`, `{"required":["n"],"allOf":[{"$ref":"#/$defs/b"}],"$defs":{"b":{"allOf":[{"$ref":"#/$defs/c"}]},"c":{"properties":{"id":{"readOnly":true}}}}}`},
		"required by what is referred to": {jsonschema.Requests, `"a":{"allOf":[{"$ref":"#/components/schemas/b"}],"properties":{"id":{"readOnly":true},"o":{"$ref":"#/components/schemas/b"}}},"b":{"required":["id"]}`, `{"allOf":[{"$ref":"#/$defs/b"}],"properties":{"id":{"readOnly":true},"o":{"$ref":"#/$defs/b-2"}},"$defs":{"b":{"required":[]},"b-2":{"required":["id"]}}}`},
		"shown by what is referred to":    {jsonschema.Arguments, `"a":{"$ref":"#/components/schemas/b","properties":{"id":{"readOnly":true}}},"b":{"properties":{"id":{"type":"string"},"n":{}}}`, `{"$ref":"#/$defs/b","properties":{},"$defs":{"b":{"properties":{"n":{}}}}}`},
		"what is left out is referred to": {jsonschema.Arguments, `"a":{"properties":{"id":{"readOnly":true,"type":"string"},"o":{"items":{"$ref":"#/components/schemas/a/properties/id"}}}}`, `{"properties":{"o":{"items":{"$ref":"#/$defs/id"}}},"$defs":{"id":{"readOnly":true,"type":"string"}}}`},
		"recursion":                       {jsonschema.Arguments, `"a":{"required":["id"],"properties":{"id":{"readOnly":true},"next":{"$ref":"#/components/schemas/a"}}}`, `{"required":[],"properties":{"next":{"$ref":"#"}}}`},
		"a name that tells forms apart":   {jsonschema.Requests, `"a":{"properties":{"id":{"readOnly":true}},"oneOf":[{"required":["id"]},{"required":["n"]},{"required":["id","m"]}]}`, `{"properties":{"id":{"readOnly":true}},"oneOf":[{"required":["id"]},{"required":["n"]},{"required":["m"]}]}`},
		"not is left alone":               {jsonschema.Requests, `"a":{"properties":{"id":{"readOnly":true}},"not":{"required":["id"]}}`, `{"properties":{"id":{"readOnly":true}},"not":{"required":["id"]}}`},
		"what depends on it":              {jsonschema.Requests, `"a":{"properties":{"id":{"readOnly":true}},"dependentRequired":{"x":["id","y"]}}`, `{"properties":{"id":{"readOnly":true}},"dependentRequired":{"x":["y"]}}`},
		"a property of that name":         {jsonschema.Requests, `"a":{"required":["readOnly"],"properties":{"readOnly":{"type":"boolean"}}}`, `{"required":["readOnly"],"properties":{"readOnly":{"type":"boolean"}}}`},
		"false is no mark":                {jsonschema.Requests, `"a":{"required":["x"],"properties":{"x":{"readOnly":false}}}`, `{"required":["x"],"properties":{"x":{"readOnly":false}}}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := components(t, "3.1.0", tc.schemas).Bundle(at+"a", tc.side)
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
	beside := components(t, "3.0.3", `"a":{"required":["x"],"properties":{"x":{"$ref":"#/components/schemas/b","readOnly":true,"maxLength":1}}},"b":{}`)
	if got, err := beside.Bundle(at+"a", jsonschema.Requests); err != nil || !strings.HasPrefix(string(got), `{"required":[],"properties":{"x":{"$ref":"#/$defs/b","readOnly":true}}`) {
		t.Errorf("a mark beside a reference in OpenAPI 3.0: %s, %v", got, err)
	}
	schema, err := components(t, "3.1.0", both).Compile(at + "a")
	if err != nil {
		t.Fatal(err)
	}
	if found := schema.Validate(t.Context(), []byte(`{"n":1,"p":2}`)); found != nil {
		t.Errorf("a request without what it does not write: %v", found)
	}
	if found := schema.Validate(t.Context(), []byte(`{"id":0,"n":1}`)); len(found) != 1 || found[0].Pointer != "/p" {
		t.Errorf("a request without what it writes: %v", found)
	}
}
