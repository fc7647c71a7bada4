package mcpserver_test

import (
	"maps"
	"strings"
	"testing"
)

// The tests of this file are the rows of the three tables of the document that MCP
// resources were asked for with, each named after its row.

func resource(id string, mcp object) item {
	all := object{"type": "resource"}
	maps.Copy(all, mcp)
	return item{id: id, mcp: all}
}

// listed returns the only entry of the list of resources.
func listed(t *testing.T, i item) object {
	t.Helper()
	list := start(t, nil, over(nil, i)...).ask("resources/list", "").result()["resources"].([]any)
	if len(list) != 1 {
		t.Fatalf("the list is %v", list)
	}
	return list[0].(object)
}

// content returns the only item of what is read at a uri.
func (r *rig) content(uri string) object {
	r.Helper()
	list := r.ask("resources/read", `{"uri":"`+uri+`"}`).result()["contents"].([]any)
	if len(list) != 1 {
		r.Fatalf("the contents are %v", list)
	}
	return list[0].(object)
}

func TestResourceConfiguration(t *testing.T) {
	t.Parallel()
	t.Run("type resource", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(nil, resource("page", nil))...)
		if got := r.ask("resources/list", "").names("resources"); got != "page" {
			t.Errorf("resources: %s", got)
		}
		if got := r.ask("tools/list", "").names("tools"); got != "" {
			t.Errorf("tools: %s", got)
		}
	})
	t.Run("type otherwise treated as tool", func(t *testing.T) {
		t.Parallel()
		for name, mcp := range map[string]object{"mcp without type": {"description": "x"}, "no mcp": nil} {
			r := start(t, nil, over(nil, item{id: "page", mcp: mcp})...)
			if got := r.ask("tools/list", "").names("tools"); got != "page" {
				t.Errorf("%s: tools: %s", name, got)
			}
			if got := r.ask("resources/list", "").names("resources"); got != "" {
				t.Errorf("%s: resources: %s", name, got)
			}
		}
	})
	t.Run("name", func(t *testing.T) {
		t.Parallel()
		if got := listed(t, resource("page", object{"name": "own"}))["name"]; got != "own" {
			t.Errorf("name is %v", got)
		}
	})
	t.Run("name falls back to operationId", func(t *testing.T) {
		t.Parallel()
		if got := listed(t, resource("page", nil))["name"]; got != "page" {
			t.Errorf("name is %v", got)
		}
	})
	t.Run("name is generated without operationId", func(t *testing.T) {
		t.Parallel()
		// Without an operationId the generated one is what operations names.
		i := resource("", nil)
		i.path = "/some/page"
		r := start(t, nil, server(nil, "get-some-page"), i)
		if got := r.ask("resources/list", "").names("resources"); got != "get-some-page" {
			t.Errorf("name is %q", got)
		}
	})
	t.Run("description", func(t *testing.T) {
		t.Parallel()
		for _, row := range []struct {
			name, want string
			mcp, more  object
		}{
			{"own", "of mcp", object{"description": "of mcp"}, object{"description": "of the route", "summary": "summary"}},
			{"the route's", "of the route", nil, object{"description": "of the route", "summary": "summary"}},
			{"the route's summary", "summary", nil, object{"summary": "summary"}},
		} {
			i := resource("page", row.mcp)
			i.more = row.more
			if got := listed(t, i)["description"]; got != row.want {
				t.Errorf("%s: description is %q", row.name, got)
			}
		}
		if got, _ := listed(t, resource("page", nil))["description"].(string); got == "" {
			t.Error("generated: there is none")
		}
	})
	t.Run("uri", func(t *testing.T) {
		t.Parallel()
		if got := listed(t, resource("page", object{"uri": "ui://widget/page.html"}))["uri"]; got != "ui://widget/page.html" {
			t.Errorf("uri is %v", got)
		}
	})
	t.Run("uri falls back to mcp://resources/{name}", func(t *testing.T) {
		t.Parallel()
		if got := listed(t, resource("page", object{"name": "own"}))["uri"]; got != "mcp://resources/own" {
			t.Errorf("uri is %v", got)
		}
	})
	t.Run("mimeType", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(nil, resource("page", object{"mimeType": "text/html+skybridge"}))...)
		if got := r.ask("resources/list", "").result()["resources"].([]any)[0].(object)["mimeType"]; got != "text/html+skybridge" {
			t.Errorf("mimeType in the list is %v", got)
		}
		if got := r.content("mcp://resources/page")["mimeType"]; got != "text/html+skybridge" {
			t.Errorf("mimeType of the content is %v", got)
		}
	})
	t.Run("mimeType falls back to the Content-Type of the response", func(t *testing.T) {
		t.Parallel()
		i := resource("page", nil)
		i.handler = static("<p>", "text/html; charset=utf-8")
		r := start(t, nil, over(nil, i)...)
		if got := r.content("mcp://resources/page")["mimeType"]; got != "text/html" {
			t.Errorf("mimeType of the content is %v", got)
		}
		documented := resource("documented", nil)
		documented.more = object{"responses": object{"200": object{"description": "OK", "content": object{"image/png": object{}}}}}
		documented.handler = module("text")
		several := resource("several", nil)
		several.more = object{"responses": object{"200": object{"description": "OK", "content": object{"image/png": object{}, "text/csv": object{}}}}}
		several.handler = module("text")
		r = start(t, handlers{"text": text("x")}, over(nil, i, documented, several)...)
		equal(t, r.ask("resources/list", "").result()["resources"], `[
			{"name":"page","uri":"mcp://resources/page","title":"page","description":"GET /page","mimeType":"text/html"},
			{"name":"documented","uri":"mcp://resources/documented","title":"documented","description":"GET /documented","mimeType":"image/png"},
			{"name":"several","uri":"mcp://resources/several","title":"several","description":"GET /several","mimeType":"text/plain"}]`)
	})
	t.Run("mimeType falls back to text plain", func(t *testing.T) {
		t.Parallel()
		i := resource("page", nil)
		i.handler = module("page")
		r := start(t, handlers{"page": answer(200, "", "bare")}, over(nil, i)...)
		equal(t, r.content("mcp://resources/page"), `{"uri":"mcp://resources/page","mimeType":"text/plain","text":"bare"}`)
	})
	t.Run("enabled true is the default", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(nil, resource("a", nil), resource("b", object{"enabled": true}))...)
		if got := r.ask("resources/list", "").names("resources"); got != "a b" {
			t.Errorf("resources: %s", got)
		}
	})
	t.Run("enabled false is neither listed nor readable", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(nil, resource("a", nil), resource("b", object{"enabled": false}))...)
		if got := r.ask("resources/list", "").names("resources"); got != "a" {
			t.Errorf("resources: %s", got)
		}
		data := r.ask("resources/read", `{"uri":"mcp://resources/b"}`).failure(200, -32602)
		equal(t, data, `{"uri":"mcp://resources/b"}`)
	})
	t.Run("enabled false tool is neither listed nor callable", func(t *testing.T) {
		t.Parallel()
		s := new(seen)
		r := start(t, handlers{"seen": s}, over(nil, item{id: "b", handler: module("seen"), mcp: object{"type": "tool", "enabled": false}})...)
		if got := r.ask("tools/list", "").names("tools"); got != "" {
			t.Errorf("tools: %s", got)
		}
		r.ask("tools/call", `{"name":"b"}`).failure(200, -32602)
		if len(s.requests) > 0 {
			t.Error("the route was called")
		}
	})
	t.Run("_meta", func(t *testing.T) {
		t.Parallel()
		meta := `{"openai/outputTemplate":"ui://x","n":[1,{"deep":null}],"empty":{},"none":[]}`
		i := resource("page", object{"_meta": object{
			"openai/outputTemplate": "ui://x", "n": []any{1, object{"deep": nil}}, "empty": object{}, "none": []any{},
		}})
		equal(t, listed(t, i)["_meta"], meta)
	})
	t.Run("_meta is absent by default", func(t *testing.T) {
		t.Parallel()
		if meta, there := listed(t, resource("page", nil))["_meta"]; there {
			t.Errorf("_meta is %v", meta)
		}
	})
}

func TestHandlerOptions(t *testing.T) {
	t.Parallel()
	const initialize = `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"test","version":"1"}}`
	t.Run("name and version", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(object{"name": "Own \"name\" <&>", "version": "1.2.3"}, resource("page", nil))...)
		want := `{"name":"Own \"name\" <&>","version":"1.2.3"}`
		equal(t, r.ask("initialize", initialize).result()["serverInfo"], want)
		equal(t, r.modern("server/discover", "").result()["_meta"].(object)["io.modelcontextprotocol/serverInfo"], want)
		equal(t, r.modern("resources/list", "").result()["_meta"].(object)["io.modelcontextprotocol/serverInfo"], want)
	})
	t.Run("name and version by default", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, over(nil, resource("page", nil))...)
		equal(t, r.ask("initialize", initialize).result()["serverInfo"], `{"name":"MCP Server","version":"0.0.0"}`)
	})
	t.Run("operations expose what they name, in their order", func(t *testing.T) {
		t.Parallel()
		r := start(t, nil, server(nil, "c", "a"), resource("a", nil), resource("b", nil), resource("c", nil))
		if got := r.ask("resources/list", "").names("resources"); got != "c a" {
			t.Errorf("resources: %s", got)
		}
	})
	t.Run("operations file and id", func(t *testing.T) {
		t.Parallel()
		mcp := server(nil)
		for name, operations := range map[string][]object{
			"file": {{"id": "a"}},
			"id":   {{"file": "routes.oas.json"}},
		} {
			mcp.handler["options"].(object)["operations"] = operations
			if got := faults(t, mcp, resource("a", nil)); !strings.Contains(got, "/operations/0 has no "+name) || !strings.Contains(got, "mcp") {
				t.Errorf("without %s: %s", name, got)
			}
		}
	})
	t.Run("operations of a file or id that is not there", func(t *testing.T) {
		t.Parallel()
		mcp := server(nil, "b")
		if got := faults(t, mcp, resource("a", nil)); !strings.Contains(got, "operation b of routes.oas.json") {
			t.Errorf("faults: %s", got)
		}
		mcp.handler["options"].(object)["operations"] = []object{{"file": "other.oas.json", "id": "a"}}
		if got := faults(t, mcp, resource("a", nil)); !strings.Contains(got, "other.oas.json") {
			t.Errorf("faults: %s", got)
		}
	})
	t.Run("an option that is not one", func(t *testing.T) {
		t.Parallel()
		if got := faults(t, over(object{"title_": "x"}, resource("a", nil))...); !strings.Contains(got, "/title_ is not an option") {
			t.Errorf("faults: %s", got)
		}
		if got := faults(t, over(object{"name": 1}, resource("a", nil))...); !strings.Contains(got, "/name has the wrong type") {
			t.Errorf("faults: %s", got)
		}
	})
	t.Run("a POST route", func(t *testing.T) {
		t.Parallel()
		mcp := server(nil, "a")
		mcp.method = "PUT"
		if got := faults(t, mcp, resource("a", nil)); !strings.Contains(got, "must be a POST route") {
			t.Errorf("faults: %s", got)
		}
	})
	t.Run("several servers in one gateway", func(t *testing.T) {
		t.Parallel()
		other := server(object{"name": "other"}, "b")
		other.path, other.id = "/other", "other"
		r := start(t, nil, server(nil, "a"), other, resource("a", nil), resource("b", nil))
		if got := r.ask("resources/list", "").names("resources"); got != "a" {
			t.Errorf("resources of the first: %s", got)
		}
		r.path = "/other"
		if got := r.ask("resources/list", "").names("resources"); got != "b" {
			t.Errorf("resources of the second: %s", got)
		}
	})
}

func TestResults(t *testing.T) {
	t.Parallel()
	page := resource("page", object{"uri": "ui://page", "description": "A page.", "mimeType": "text/html"})
	page.handler = static("<b>Straße & \"Co\"</b>\n", "text/html")
	data := resource("data", nil)
	data.handler = module("data")
	data.more = object{"description": "Some data."}
	r := start(t, handlers{"data": answer(200, "application/json", `{"n":12345678901234567890,"empty":[]}`)}, over(nil, page, data)...)

	t.Run("list: name, uri, title, description, mimeType", func(t *testing.T) {
		t.Parallel()
		equal(t, r.post(`{"jsonrpc":"2.0","id":"1","method":"resources/list"}`).result()["resources"], `[
			{"name":"page","uri":"ui://page","title":"page","description":"A page.","mimeType":"text/html"},
			{"name":"data","uri":"mcp://resources/data","title":"data","description":"Some data.","mimeType":"text/plain"}]`)
	})
	t.Run("read: uri, mimeType, text", func(t *testing.T) {
		t.Parallel()
		reply := r.post(`{"jsonrpc":"2.0","id":"1","method":"resources/read","params":{"uri":"ui://page"}}`)
		equal(t, reply.result()["contents"], `[{"uri":"ui://page","mimeType":"text/html","text":"<b>Straße & \"Co\"</b>\n"}]`)
		if !strings.Contains(string(reply.body), `<b>Straße & \"Co\"</b>`) {
			t.Errorf("HTML is escaped more than JSON needs: %s", reply.body)
		}
	})
	t.Run("read: a structured value is text, byte for byte", func(t *testing.T) {
		t.Parallel()
		equal(t, r.content("mcp://resources/data"),
			`{"uri":"mcp://resources/data","mimeType":"application/json","text":"{\"n\":12345678901234567890,\"empty\":[]}"}`)
	})
	t.Run("the whole answer", func(t *testing.T) {
		t.Parallel()
		reply := r.post(`{"jsonrpc":"2.0","id":"1","method":"resources/read","params":{"uri":"ui://page"}}`)
		want := `{"jsonrpc":"2.0","id":"1","result":{"contents":[{"uri":"ui://page","mimeType":"text/html","text":"<b>Straße & \"Co\"</b>\n"}],"ttlMs":0,"cacheScope":"private"}}`
		if string(reply.body) != want || reply.header.Get("Content-Type") != "application/json" {
			t.Errorf("%v %s", reply.header, reply.body)
		}
	})
}
