package mcpserver_test

import (
	"context"
	"encoding/base64"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

func TestContents(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handler route.Handler
		mcp     object
		want    string
	}{
		"empty text is there": {answer(200, "text/html", ""), nil, `{"mimeType":"text/html","text":""}`},
		"no content":          {answer(204, "", ""), nil, `{"mimeType":"text/plain","text":""}`},
		"HTML":                {answer(200, "text/html; charset=utf-8", "<script>é</script>"), nil, `{"mimeType":"text/html","text":"<script>é</script>"}`},
		"CSS":                 {answer(200, "text/css", "a>b{}"), nil, `{"mimeType":"text/css","text":"a>b{}"}`},
		"JSON":                {answer(200, "application/json", "{ \"a\": [] }\n"), nil, `{"mimeType":"application/json","text":"{ \"a\": [] }\n"}`},
		"a kind of JSON":      {answer(200, "application/ld+json", "[]"), nil, `{"mimeType":"application/ld+json","text":"[]"}`},
		"SVG":                 {answer(200, "image/svg+xml", "<svg/>"), nil, `{"mimeType":"image/svg+xml","text":"<svg/>"}`},
		"control characters":  {answer(200, "text/plain", "a\x00\u2028\"\\\t"), nil, `{"mimeType":"text/plain","text":"a\u0000\u2028\"\\\t"}`},
		"an image":            {answer(200, "image/png", "\x89PNG\r\n"), nil, `{"mimeType":"image/png","blob":"` + base64.StdEncoding.EncodeToString([]byte("\x89PNG\r\n")) + `"}`},
		"an empty image":      {answer(200, "image/png", ""), nil, `{"mimeType":"image/png","blob":""}`},
		"text that is none":   {answer(200, "text/plain", "\xff\xfe"), nil, `{"mimeType":"text/plain","blob":"//4="}`},
		"latin-1":             {answer(200, "text/plain; charset=iso-8859-1", "caf\xe9"), nil, `{"mimeType":"text/plain; charset=iso-8859-1","text":"café"}`},
		"an unknown charset":  {answer(200, "text/plain; charset=x-own", "\xe9"), nil, `{"mimeType":"text/plain; charset=x-own","blob":"6Q=="}`},
		"a configured charset": {
			answer(200, "application/json", "{}"), object{"mimeType": "application/json; charset=utf-8"}, `{"mimeType":"application/json; charset=utf-8","text":"{}"}`,
		},
		"text under a type of its own": {
			answer(200, "text/html", "<p>"), object{"mimeType": "application/x-widget"}, `{"mimeType":"application/x-widget","text":"<p>"}`,
		},
		"a type with parameters":  {answer(200, `TEXT/HTML; Charset="utf-8"; x=y`, "x"), nil, `{"mimeType":"text/html","text":"x"}`},
		"a type that is a mess":   {answer(200, "text/html; ;;", "x"), nil, `{"mimeType":"text/html","text":"x"}`},
		"a configured type rules": {answer(200, "text/plain", "x"), object{"mimeType": "text/markdown"}, `{"mimeType":"text/markdown","text":"x"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := resource("page", row.mcp)
			i.handler = module("page")
			r := start(t, handlers{"page": row.handler}, over(nil, i)...)
			equal(t, r.content("mcp://resources/page"), `{"uri":"mcp://resources/page",`+row.want[1:])
		})
	}
}

func TestUnknownURI(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for _, uri := range []string{"mcp://resources/other", "", "page", "mcp://resources/page/", "../page", "mcp://resources/%2570age", "mcp:resources/page"} {
		params := `{"uri":"` + uri + `"}`
		for version, code := range map[string]int{"": -32602, "2024-11-05": -32002, "2025-06-18": -32002, "2025-11-25": -32002} {
			reply := r.ask("resources/read", params, "MCP-Protocol-Version", version)
			equal(t, reply.failure(200, code), params)
			if strings.Contains(string(reply.body), "contents") {
				t.Errorf("contents in %s", reply.body)
			}
		}
		if uri != "" {
			equal(t, r.modern("resources/read", params).failure(400, -32602), params)
		}
	}
	r.ask("resources/read", `{}`).failure(200, -32602)
	r.ask("resources/read", "").failure(200, -32602)
}

// Clients write a uri of the list anew: what means the same is found, and what doesn't is not.
func TestSpellingsOfURIs(t *testing.T) {
	t.Parallel()
	person := resource("person", object{"uri": "People://straße/{id}/card"})
	person.path = "/people/{id}"
	r := start(t, nil, over(nil,
		resource("cafe", object{"uri": "docs://p/café au lait"}), resource("encoded", object{"uri": "docs://p/caf%C3%A9/a%2fb/100%25"}),
		resource("web", object{"uri": "HTTPS://Shop.Example:443"}), resource("port", object{"uri": "http://shop.example:8080/A"}), person,
	)...)
	for uri, want := range map[string]string{
		"docs://p/café au lait": "cafe", "docs://p/caf%C3%A9%20au%20lait": "cafe", "docs://p/caf%c3%a9 au%20lait": "cafe", "DOCS://p/café%20au lait": "cafe",
		"docs://p/%63af%C3%A9%20au%20lait": "cafe",
		"docs://p/caf%C3%A9/a%2fb/100%25":  "encoded", "docs://p/café/a%2Fb/100%25": "encoded", "docs://p/café/a/b/100%25": "",
		"HTTPS://Shop.Example:443": "web", "https://shop.example/": "web", "https://shop.example": "web", "https://shop.example:444/": "", "http://shop.example/": "",
		"http://SHOP.example:8080/A": "port", "http://shop.example:8080/a": "",
		"people://stra%C3%9Fe/a%20b/card": "person", "PEOPLE://straße/é/card": "person", "people://stra%c3%9fe/%zz/card": "", "people://STRAßE/x/card": "",
	} {
		params := `{"uri":"` + uri + `"}`
		if want == "" {
			r.ask("resources/read", params).failure(200, -32602)
			continue
		}
		got := r.content(uri)
		if got["text"] != "text of "+want || got["uri"] != uri {
			t.Errorf("%s: %v", uri, got)
		}
	}
	got := faults(t, over(nil, resource("a", object{"uri": "x://ü"}), resource("b", object{"uri": "X://%c3%bc"}))...)
	if !strings.Contains(got, "is that of operation a, too") {
		t.Errorf("two spellings of one uri: %s", got)
	}
}

// What a route says of its failure is no content.
func TestRoutesThatFail(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		handler           route.Handler
		plain, modern, at int
		told              string
	}{
		"not found": {answer(404, "text/html", "<h1>secret</h1>"), -32602, -32602, 400, `{"uri":"mcp://resources/page","status":404}`},
		"forbidden": {answer(403, "text/html", "<h1>secret</h1>"), -32603, -32603, 200, `{"uri":"mcp://resources/page","status":403}`},
		"broken":    {answer(500, "text/plain", "secret"), -32603, -32603, 200, `{"uri":"mcp://resources/page","status":500}`},
		"redirect":  {answer(302, "text/plain", "secret"), -32603, -32603, 200, `{"uri":"mcp://resources/page","status":302}`},
		"an error":  {gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { return nil, context.Canceled }), -32603, -32603, 200, `{"uri":"mcp://resources/page","status":500}`},
		"a panic":   {gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { panic("secret") }), -32603, -32603, 200, `{"uri":"mcp://resources/page","status":500}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			i := resource("page", nil)
			i.handler = module("page")
			r := start(t, handlers{"page": row.handler}, over(nil, i)...)
			reply := r.ask("resources/read", `{"uri":"mcp://resources/page"}`)
			equal(t, reply.failure(200, row.plain), row.told)
			if strings.Contains(string(reply.body), "secret") {
				t.Errorf("told: %s", reply.body)
			}
			equal(t, r.modern("resources/read", `{"uri":"mcp://resources/page"}`).failure(row.at, row.modern), row.told)
		})
	}
}

func TestDeadline(t *testing.T) {
	t.Parallel()
	hang := gatewaytest.Func(func(ctx context.Context, _ *route.Request) (*route.Response, error) {
		<-ctx.Done()
		return nil, ctx.Err()
	})
	page, tool := resource("page", nil), item{id: "tool", handler: module("hang")}
	page.handler = module("hang")
	items := over(nil, page, tool)
	r := start(t, handlers{"hang": hang}, items...)
	file := strings.ReplaceAll(string(document(t, items)), `"export":"hang","module":"$import(./modules/test)"}`, `"export":"hang","module":"$import(./modules/test)"},"timeoutSeconds":1`)
	r.replace(file)
	began := time.Now()
	equal(t, r.ask("resources/read", `{"uri":"mcp://resources/page"}`).failure(200, -32603), `{"uri":"mcp://resources/page","status":504}`)
	if result := r.call("tool", "{}"); result["isError"] != true || !strings.Contains(result["content"].([]any)[0].(object)["text"].(string), "GATEWAY_TIMEOUT") {
		t.Errorf("result: %v", result)
	}
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("two calls with a deadline of 1 s took %v", took)
	}
}

// replace puts a route file in the place of the one that there is.
func (r *rig) replace(file string) {
	r.Helper()
	gatewaytest.Files{"routes.oas.json": file}.Write(r, r.dir)
	if err := r.gateway.Reload(); err != nil {
		r.Fatal(err)
	}
}

func TestResourceTemplates(t *testing.T) {
	t.Parallel()
	s := new(seen)
	i := resource("card", object{"uri": "people://{id}/card/{side}", "mimeType": "text/html", "_meta": object{"a": 1}})
	i.path, i.handler = "/people/{id}/{side}", module("seen")
	i.more = object{"description": "A card.", "parameters": []any{
		parameter("path", "id", object{"type": "string"}), parameter("path", "side", object{"type": "string", "enum": []any{"front", "back"}}),
		parameter("query", "size", object{"type": "integer", "default": 7}),
	}}
	exact := resource("exact", object{"uri": "people://exact/card/front"})
	r := start(t, handlers{"seen": s}, over(nil, i, exact)...)

	equal(t, r.ask("resources/templates/list", "").result()["resourceTemplates"],
		`[{"name":"card","uriTemplate":"people://{id}/card/{side}","title":"card","description":"A card.","mimeType":"text/html","_meta":{"a":1}}]`)
	if got := r.ask("resources/list", "").names("resources"); got != "exact" {
		t.Errorf("resources: %s", got)
	}
	equal(t, r.content("people://a%20b/card/front"), `{"uri":"people://a%20b/card/front","mimeType":"text/html","text":"seen"}`)
	request := s.last(t)
	if request.Path != "/people/a%20b/front" || request.Params["id"] != "a b" || request.Query.Get("size") != "7" {
		t.Errorf("the route got %+v", request)
	}
	if got := r.content("people://exact/card/front")["text"]; got != "text of exact" {
		t.Errorf("what is exact comes first: %v", got)
	}
	for _, uri := range []string{
		"people://../card/front", "people://%2e%2e/card/front", "people://a/b/card/front", "people:///card/front",
		"people://a/card/middle", "people://a/card/front?x=1", "people://a/card/front#x", "people://%zz/card/front", "people://./card/back",
		"people://..%2fsecret/card/back",
	} {
		data := r.ask("resources/read", `{"uri":"`+uri+`"}`).failure(200, -32602)
		equal(t, data, `{"uri":"`+uri+`"}`)
	}
	s.requests = nil
	r.content("people://a%2fsecret%3fx/card/back")
	if request := s.last(t); request.Path != "/people/a%2Fsecret%3Fx/back" {
		t.Errorf("the path is %s", request.Path)
	}
}

func TestListsWithoutEntries(t *testing.T) {
	t.Parallel()
	r := start(t, nil, server(nil))
	for method, member := range map[string]string{
		"tools/list": "tools", "prompts/list": "prompts", "resources/list": "resources", "resources/templates/list": "resourceTemplates",
	} {
		if reply := r.ask(method, ""); !strings.Contains(string(reply.body), `"`+member+`":[]`) || reply.status != 200 {
			t.Errorf("%s: %s", method, reply.body)
		}
		if reply := r.send(http.MethodPost, curl(), message("1", method, `{"cursor":null}`)); reply.status != 200 || !strings.Contains(string(reply.body), `[]`) {
			t.Errorf("%s: %s", method, reply.body)
		}
	}
}
