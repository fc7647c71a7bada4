package playground

import (
	"net/http"
	"net/url"
	"testing"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/consoletest"
)

func TestTemplates(t *testing.T) {
	t.Parallel()
	consoletest.Templates(t, Module(), samples())
}

// samples are data to try the template with: empty, full and hostile, and with faults.
func samples() map[string][]any {
	const hostile = "<script>alert(1)</script>\u202e\x00 مرحبا"
	schema := jsontext.Value(`{"type":"object","required":["id","events"],"properties":{"id":{"type":"string","description":"<b>"},"limit":{"type":"integer"},
		"on":{"type":["boolean","null"]},"status":{"enum":["failed","delivered"]},"events":{"type":"array","items":{"enum":["a","b"]}},
		"tags":{"type":"array","items":{"type":"string"}},"any":{},"body":{"$ref":"#/$defs/B"}},"$defs":{"B":{"type":"object","properties":{"url":{"type":"string"},"more":{"type":"object"}}}}}`)
	no := false
	tool := item{Name: "list", Description: hostile, InputSchema: schema, kind: kindTool}
	tool.Annotations.ReadOnly = true
	changes := item{Name: hostile, kind: kindTool}
	changes.Annotations.Destructive = &no
	destroys := item{Name: "delete", Description: hostile, InputSchema: schema, kind: kindTool}
	prompt := item{Name: "why", Arguments: []argument{{"id", hostile, true}}, kind: kindPrompt}
	resource := item{URI: "waybill://<b>", MimeType: "text/plain", kind: kindResource}
	form := console.NewForm(url.Values{"a/id": {"<b>"}, "a/events": {"a"}})
	wrong := &console.Form{Values: url.Values{}, Problem: &console.Problem{Title: "x", Detail: hostile, Faults: []console.Fault{{Pointer: "/a/any", Detail: hostile}}}}
	x := &exchange{Request: jsontext.Value(`{"a":"<script>\u202e"}`), Answer: jsontext.Value(`{"result":1}`), Failed: hostile, Curl: "curl '<b>'"}
	full := view{URL: "http://a/mcp", Form: form, Tools: []item{tool, changes, destroys}, Prompts: []item{prompt}, Resources: []item{resource}, Templates: []item{{URITemplate: hostile}}, Clients: clients("http://a/mcp")}
	with := func(change func(v *view)) view {
		v := full
		change(&v)
		return v
	}
	return map[string][]any{"playground.html": {
		view{Form: form}, full,
		view{Form: form, Problem: &console.Problem{Status: http.StatusForbidden, Detail: hostile}},
		view{Form: form, Problem: &console.Problem{Status: http.StatusNotFound}},
		view{Form: form, Problem: &console.Problem{Status: http.StatusServiceUnavailable, Detail: hostile, RequestID: "r"}},
		with(func(v *view) { v.Selected, v.Fields = &tool, fieldsOf(&tool) }),
		with(func(v *view) { v.Selected, v.Fields, v.Form, v.Call = &destroys, fieldsOf(&destroys), wrong, x }),
		with(func(v *view) { v.Selected, v.Fields = &prompt, fieldsOf(&prompt) }),
		with(func(v *view) {
			v.Selected, v.Call = &resource, &exchange{Problem: &console.Problem{Status: http.StatusForbidden}}
		}),
	}}
}
