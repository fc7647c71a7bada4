package jsonschema_test

import (
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/services/gateway/internal/jsonschema"
)

func TestValidate(t *testing.T) {
	t.Parallel()
	type violation = jsonschema.Violation
	for name, tc := range map[string]struct {
		schema, value string
		want          []violation
	}{
		"good":           {`{"type":"object","properties":{"a":{"type":"integer","minimum":1}},"required":["a"]}`, `{"a":1.0}`, nil},
		"true":           {`true`, `1`, nil},
		"all at once":    {`{"properties":{"a":{"type":"integer"},"b":{"maxLength":2}},"required":["c","d"],"additionalProperties":false}`, `{"b":"123","a":"x","e/f":1}`, []violation{{"/a", "must be of type integer"}, {"/b", "must have 2 characters or fewer"}, {"/c", "is required"}, {"/d", "is required"}, {"/e~1f", "is not a known member"}}},
		"bounds":         {`{"items":{"minimum":1,"maximum":3,"multipleOf":0.5}}`, `[0,4,1.2]`, []violation{{"/0", "must be 1 or more"}, {"/1", "must be 3 or less"}, {"/2", "must be a multiple of 0.5"}}},
		"beyond":         {`{"items":{"exclusiveMinimum":1,"exclusiveMaximum":3}}`, `[1,3]`, []violation{{"/0", "must be more than 1"}, {"/1", "must be less than 3"}}},
		"lengths":        {`{"prefixItems":[{"minLength":2},{"minItems":1},{"maxItems":1},{"minProperties":1},{"maxProperties":1}],"uniqueItems":true}`, `["a",[],[1,2],{},{"a":1,"b":2}]`, []violation{{"/0", "must have 2 characters or more"}, {"/1", "must have 1 element or more"}, {"/2", "must have 1 element or fewer"}, {"/3", "must have 1 member or more"}, {"/4", "must have 1 member or fewer"}}},
		"twice":          {`{"uniqueItems":true}`, `["a","b","a"]`, []violation{{"", "must not have the same element twice"}}},
		"enum":           {`{"enum":["a",1,null]}`, `"secret"`, []violation{{"", `must be one of "a", 1, null`}}},
		"const":          {`{"const":{"a":[1]}}`, `"secret"`, []violation{{"", `must be {"a":[1]}`}}},
		"pattern":        {`{"pattern":"^a$"}`, `"secret"`, []violation{{"", "must match the pattern ^a$"}}},
		"format":         {`{"items":{"format":"uuid"}}`, `["secret","2c0b8f0e-6a0b-4d1d-8d2c-2d6b3c0a1f11"]`, []violation{{"/0", "must have the format uuid"}}},
		"unknown format": {`{"format":"int32"}`, `12`, nil},
		"choice":         {`{"anyOf":[{"type":"string"},{"minimum":5}]}`, `4`, []violation{{"", "fits none of the allowed forms"}}},
		"one of":         {`{"prefixItems":[{"oneOf":[{"type":"string"},{"minimum":5}]},{"oneOf":[true,true]}]}`, `[1,1]`, []violation{{"/0", "fits none of the allowed forms"}, {"/1", "fits more than one of the allowed forms"}}},
		"all of":         {`{"allOf":[{"type":"string"},{"enum":["b"]}]}`, `1`, []violation{{"", `must be of type string`}, {"", `must be one of "b"`}}},
		"all the same":   {`{"allOf":[{"type":"string"},{"type":"string"}]}`, `1`, []violation{{"", `must be of type string`}}},
		"not":            {`{"not":{"type":"number"}}`, `1`, []violation{{"", "has a form that is not allowed"}}},
		"false":          {`{"properties":{"a":false}}`, `{"a":1}`, []violation{{"/a", "is not allowed"}}},
		"unevaluated":    {`{"properties":{"a":{}},"unevaluatedProperties":false}`, `{"a":1,"b":2}`, []violation{{"/b", "is not allowed"}}},
		"names":          {`{"propertyNames":{"pattern":"^a"}}`, `{"a":1,"b":2}`, []violation{{"/b", "has a name that is not allowed"}}},
		"contains":       {`{"contains":{"const":1},"maxContains":1}`, `[2]`, []violation{{"", "lacks a required element"}}},
		"dependent":      {`{"dependentRequired":{"a":["b"]}}`, `{"a":1}`, []violation{{"/b", "is required"}}},
		"earlier draft":  {`{"$schema":"http://json-schema.org/draft-07/schema#","properties":{"a":{"items":[{}],"additionalItems":false}},"dependencies":{"b":["c"]}}`, `{"a":[1,2],"b":1}`, []violation{{"/a", "has elements that are not allowed"}, {"/c", "is required"}}},
		"too often":      {`{"contains":{"const":1},"maxContains":1}`, `[1,1]`, []violation{{"", "has an element too often"}}},
		"long constant":  {`{"const":"` + strings.Repeat("a", 200) + `"}`, `1`, []violation{{"", "must be …"}}},
		"no JSON":        {`{}`, `{`, []violation{{"", "The value is not valid JSON, from byte 1 on."}}},
		"nothing":        {`{}`, ``, []violation{{"", "The value is empty."}}},
		"name twice":     {`{}`, `{"a":1,"a":2}`, []violation{{"/a", "is given twice"}}},
		"where met":      {`{"$dynamicAnchor":"a","properties":{"n":{"type":"integer"},"c":{"$dynamicRef":"#a"}}}`, `{"c":{"c":{"n":"x"}}}`, []violation{{"/c/c/n", "must be of type integer"}}},
		"the root":       {`{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"n":{"type":"integer"},"c":{"$recursiveRef":"#"}}}`, `{"c":{"n":"x"}}`, []violation{{"/c/n", "must be of type integer"}}},
		"two values":     {`{}`, `1 2`, []violation{{"", "The value has more than one JSON value."}}},
		"huge exponent":  {`{"items":{"type":"integer","multipleOf":3}}`, `[1e400,1e401,-1E-999999999999999999999]`, []violation{{"/1", "is a number with too many digits"}, {"/2", "is a number with too many digits"}}},
		"huge number":    {`{}`, `[` + strings.Repeat("9", 401) + `]`, []violation{{"/0", "is a number with too many digits"}}},
		"too deep":       {`{}`, strings.Repeat("[", 65) + strings.Repeat("]", 65), []violation{{strings.Repeat("/0", 64), "is nested deeper than 64 levels"}}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schema, err := jsonschema.Compile([]byte(tc.schema))
			if err != nil {
				t.Fatal(err)
			}
			got := schema.Validate(t.Context(), []byte(tc.value))
			if name == "huge exponent" && len(got) > 0 && got[0].Pointer == "/0" {
				t.Errorf("1e400 is refused: %v", got[0])
			}
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("violations (-want +got):\n%s", diff)
			}
			for _, v := range got {
				if strings.Contains(v.Detail, "secret") {
					t.Errorf("the value is told: %s", v.Detail)
				}
			}
		})
	}
}

// A value with a thousand faults is not answered with all of them.
func TestManyViolations(t *testing.T) {
	t.Parallel()
	schema, err := jsonschema.Compile([]byte(`{"items":{"type":"string"}}`))
	if err != nil {
		t.Fatal(err)
	}
	got := schema.Validate(t.Context(), []byte("[1"+strings.Repeat(",1", 999)+"]"))
	if len(got) != 100 || got[99].Detail != "has more faults, which are not listed here" {
		t.Errorf("%d violations, the last one %v", len(got), got[len(got)-1])
	}
	enum := make([]string, 30)
	for i := range enum {
		enum[i] = strconv.Itoa(i)
	}
	schema, err = jsonschema.Compile([]byte(`{"enum":[` + strings.Join(enum, ",") + `]}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := schema.Validate(t.Context(), []byte(`-1`)); len(got) != 1 || !strings.HasSuffix(got[0].Detail, "18, 19, …") {
		t.Errorf("violations are %v", got)
	}
}

func TestRecursion(t *testing.T) {
	t.Parallel()
	schema, err := components(t, "3.1.0", `"a":{"type":"object","properties":{"kids":{"type":"array","items":{"$ref":"#/components/schemas/a"}}},"additionalProperties":false}`).Compile(at + "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := schema.Validate(t.Context(), []byte(`{"kids":[{"kids":[{},{"kids":[]}]}]}`)); got != nil {
		t.Errorf("violations are %v", got)
	}
	if diff := cmp.Diff([]jsonschema.Violation{{Pointer: "/kids/0/kids/0/x", Detail: "is not a known member"}}, schema.Validate(t.Context(), []byte(`{"kids":[{"kids":[{"x":1}]}]}`))); diff != "" {
		t.Errorf("violations (-want +got):\n%s", diff)
	}
	// A schema that refers to itself without an end must not hang, nor panic.
	loop, err := components(t, "3.1.0", `"a":{"anyOf":[{"$ref":"#/components/schemas/b"}]},"b":{"allOf":[{"$ref":"#/components/schemas/a"}]}`).Compile(at + "a")
	if err != nil {
		t.Fatal(err)
	}
	if got := loop.Validate(t.Context(), []byte(`1`)); len(got) == 0 {
		t.Error("a schema without an end has one")
	}
}

// A reference whose meaning depends on where it is met is refused, and never left to the library,
// which works on when the request has ended.
func TestDynamicReferencesBetweenResources(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{
		"a resource below":    `{"$dynamicAnchor":"a","$defs":{"list":{"$id":"list","$dynamicAnchor":"a","items":{"$dynamicRef":"#a"}}},"$ref":"list"}`,
		"an earlier draft":    `{"$schema":"https://json-schema.org/draft/2019-09/schema","$recursiveAnchor":true,"$defs":{"list":{"$id":"list","$recursiveAnchor":true,"items":{"$recursiveRef":"#"}}},"$ref":"list"}`,
		"the draft's own one": `{"$ref":"https://json-schema.org/draft/2020-12/schema"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := jsonschema.Compile([]byte(text)); err == nil || !strings.Contains(err.Error(), "$dynamicRef") {
				t.Errorf("compiling says %v", err)
			}
		})
	}
}
