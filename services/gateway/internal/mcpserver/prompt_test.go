package mcpserver_test

import (
	"strings"
	"testing"
)

func TestPrompts(t *testing.T) {
	t.Parallel()
	s := new(seen)
	ask := item{id: "ask", method: "POST", handler: module("seen"), mcp: object{"type": "prompt", "description": "Asks.", "_meta": object{"a": 1}}, more: body(
		`{"type":"object","required":["topic"],"properties":{"topic":{"type":"string","description":"What about.","title":"Topic"},"deep":{"type":"boolean"},"n":{"type":"integer"}}}`)}
	plain := item{id: "plain", mcp: object{"type": "prompt", "name": "other/name"}, more: object{"summary": "Plain."}}
	native := item{id: "native", handler: module("native"), mcp: object{"type": "prompt"}}
	broken := item{id: "broken", handler: module("broken"), mcp: object{"type": "prompt"}}
	gone := item{id: "gone", handler: module("gone"), mcp: object{"type": "prompt"}}
	refusing := item{id: "refusing", handler: module("refusing"), mcp: object{"type": "prompt"}}
	r := start(t, handlers{
		"seen": s,
		"native": answer(200, "application/json", `{"description":"Own.","messages":[{"role":"user","content":{"type":"text","text":"<q>"}},`+
			`{"role":"assistant","content":{"type":"image","mimeType":"image/png","data":"iVBORw=="}}]}`),
		"broken": answer(200, "application/json", `{"messages":[{"role":"user","content":{"type":"nonsense"}}]}`),
		"gone":   answer(500, "text/plain", "secret"), "refusing": answer(422, "text/plain", "secret"),
	}, over(nil, ask, plain, native, broken, gone, refusing)...)

	equal(t, r.ask("prompts/list", "").result()["prompts"].([]any)[:2], `[
		{"name":"ask","title":"ask","description":"Asks.","_meta":{"a":1},"arguments":[
			{"name":"topic","title":"Topic","description":"What about.","required":true},{"name":"deep"},{"name":"n"}]},
		{"name":"other/name","title":"other/name","description":"Plain."}]`)

	equal(t, r.ask("prompts/get", `{"name":"ask","arguments":{"topic":"42","deep":"true","n":"3"}}`).result(),
		`{"description":"Asks.","messages":[{"role":"user","content":{"type":"text","text":"seen"}}]}`)
	if request := s.last(t); string(request.Body) != `{"topic":"42","deep":true,"n":3}` {
		t.Errorf("the route got %s", request.Body)
	}
	equal(t, r.ask("prompts/get", `{"name":"other/name"}`).result(),
		`{"description":"Plain.","messages":[{"role":"user","content":{"type":"text","text":"text of plain"}}]}`)
	equal(t, r.ask("prompts/get", `{"name":"native"}`).result(), `{"description":"Own.","messages":[
		{"role":"user","content":{"type":"text","text":"<q>"}},{"role":"assistant","content":{"type":"image","mimeType":"image/png","data":"iVBORw=="}}]}`)

	s.requests = nil
	data := r.ask("prompts/get", `{"name":"ask","arguments":{"n":"x secret"}}`).failure(200, -32602)
	equal(t, data, `{"errors":[{"pointer":"/topic","detail":"is required"}]}`)
	data = r.ask("prompts/get", `{"name":"ask","arguments":{"topic":"t","n":"x secret"}}`).failure(200, -32602)
	if errors := data["errors"].([]any); errors[0].(object)["pointer"] != "/n" || strings.Contains(errors[0].(object)["detail"].(string), "secret") {
		t.Errorf("data: %v", data)
	}
	r.ask("prompts/get", `{"name":"ask","arguments":{"topic":7}}`).failure(200, -32602)
	r.modern("prompts/get", `{"name":"ask"}`).failure(400, -32602)
	r.ask("prompts/get", `{"name":"none"}`).failure(200, -32602)
	if len(s.requests) > 0 {
		t.Error("the route was called")
	}
	r.ask("prompts/get", `{"name":"broken"}`).failure(200, -32603)
	equal(t, r.ask("prompts/get", `{"name":"gone"}`).failure(200, -32603), `{"status":500}`)
	equal(t, r.ask("prompts/get", `{"name":"refusing"}`).failure(200, -32602), `{"status":422}`)
}
