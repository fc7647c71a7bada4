package playground

import (
	"net/url"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

// What is typed becomes arguments of the schema's types; what is left empty is left out, and what
// is of the wrong type is the server's to refuse.
func TestArguments(t *testing.T) {
	t.Parallel()
	tool := item{kind: kindTool, InputSchema: jsontext.Value(`{"type":"object","required":["id"],"properties":{
		"id":{"type":"string"},"limit":{"type":["integer","null"]},"on":{"type":"boolean"},"events":{"$ref":"#/$defs/E"},
		"tags":{"type":"array","items":{"type":"string"}},"any":{},"empty":{"type":"string"},"bad":{"type":"integer"},
		"body":{"$ref":"#/$defs/B"}},"$defs":{"T":{"enum":["a","b"]},"E":{"type":"array","items":{"$ref":"#/$defs/T"}},"B":{"type":"object","properties":{"url":{"type":"string"},"headers":{"type":"object","properties":{"x":{"type":"string"}}}}}}}`)}
	v := view{Fields: fieldsOf(&tool), Form: console.NewForm(url.Values{
		"a/id": {"0017"}, "a/limit": {" 5 "}, "a/on": {"false"}, "a/events": {"a", "b"}, "a/tags": {"x\r\ny\n"}, "a/any": {`{"k":[1.50]}`},
		"a/empty": {""}, "a/bad": {"five"}, "a/body/url": {"https://a"}, "a/body/headers": {`{"x":"y"}`}, "other": {"z"},
	})}
	if v.Fields[0].Label != "id" {
		t.Errorf("what is required does not come first: %v", v.Fields)
	}
	want := `{"any":{"k":[1.50]},"bad":"five","body":{"headers":{"x":"y"},"url":"https://a"},"events":["a","b"],"id":"0017","limit":5,"on":false,"tags":["x","y"]}`
	if diff := cmp.Diff(want, string(encode(read(&v)))); diff != "" {
		t.Error(diff)
	}
	v.Form.Values.Set("a/any", "{")
	read(&v)
	if v.Form.Problem == nil || v.Form.Problem.Faults[0].Pointer != "/a/any" {
		t.Errorf("the fault is %+v", v.Form.Problem)
	}
}
