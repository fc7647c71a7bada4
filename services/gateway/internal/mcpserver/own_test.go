package mcpserver_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"testing"
)

// tagged is a tool of toolsets.
func tagged(id string, tags ...string) item {
	return item{id: id, handler: module("seen"), mcp: object{"description": "Does " + id + "."}, more: object{"tags": tags}}
}

// many are so many tools, which are all in the toolset rest.
func many(count int) []item {
	items := make([]item, count)
	for i := range items {
		items[i] = tagged("tool_"+strconv.Itoa(i), "rest")
	}
	return items
}

func TestViews(t *testing.T) {
	t.Parallel()
	list := func(r *rig, query string) string {
		at := *r
		at.path += query
		return at.ask("tools/list", "").names("tools")
	}
	items := append(many(39), tagged("send_letter", "post", "paper"), tagged("send_parcel", "post"))
	r := start(t, handlers{"seen": new(seen)}, over(object{"defaultTools": []string{"send_letter", "tool_7"}}, items...)...)
	for query, want := range map[string]string{
		"":                        "find_tools call_tool tool_7 send_letter",
		"?tools=":                 "find_tools call_tool tool_7 send_letter",
		"?tools=post":             "send_letter send_parcel",
		"?tools=paper,%20none":    "",
		"?tools=paper&tools=post": "send_letter send_parcel",
		"?tools=post,post,,paper": "send_letter send_parcel",
	} {
		if strings.Contains(query, "none") {
			at := *r
			at.path += query
			equal(t, at.ask("initialize", `{}`).failure(400, -32602), `{"toolsets":["rest","post","paper","all"]}`)
			if reply := at.send(http.MethodPost, curl(), "["+message("1", "tools/list", "")+"]"); reply.status != 400 {
				t.Errorf("a batch: %d %s", reply.status, reply.body)
			}
			continue
		}
		if got := list(r, query); got != want {
			t.Errorf("%s: %s", query, got)
		}
	}
	if got := strings.Fields(list(r, "?tools=all")); len(got) != 41 {
		t.Errorf("all: %v", got)
	}
	// What a client has left out it can't call, and what is not listed by default it can.
	r.ask("tools/call", `{"name":"tool_9"}`).result()
	r.path += "?tools=post"
	r.ask("tools/call", `{"name":"tool_9"}`).failure(200, -32602)
	r.ask("tools/call", `{"name":"find_tools"}`).failure(200, -32602)

	few := start(t, handlers{"seen": new(seen)}, over(object{"defaultTools": []string{"tool_1"}}, many(40)...)...)
	if got := strings.Fields(list(few, "")); len(got) != 40 {
		t.Errorf("forty tools are listed as %v", got)
	}
	for options, want := range map[string]string{
		`{"defaultTools":["none"]}`: "/defaultTools names a tool that the server does not have",
		`{"maxResultTokens":10}`:    "/maxResultTokens must be between 1000 and 1000000",
		`{"listSeconds":-1}`:        "/listSeconds must be between 0 and 604800",
	} {
		if got := faults(t, over(decode(t, options), tagged("a", "x"))...); !strings.Contains(got, want) {
			t.Errorf("%s: %s", options, got)
		}
	}
	if got := faults(t, over(object{"resourceTool": true}, tagged("read_resource", "x"))...); !strings.Contains(got, "which the server itself has") {
		t.Errorf("a name that is taken: %s", got)
	}
}

func TestFindTools(t *testing.T) {
	t.Parallel()
	s := new(seen)
	letter := tagged("send_letter", "post")
	letter.more["parameters"] = []any{parameter("query", "region", object{"type": "string", "x-mcp-header": "Region"})}
	hidden := tagged("send_secret_letter", "post")
	hidden.inbound = []string{"key"}
	r := start(t, handlers{"seen": s}, over(object{"defaultTools": []string{"tool_1"}}, append(many(40), letter, hidden)...)...)
	text := func(result object) string { return fmt.Sprint(result["content"].([]any)[0].(object)["text"]) }

	found := decode(t, text(r.call("find_tools", `{"query":"sending letters"}`)))
	if tools := found["tools"].([]any); len(tools) != 1 || tools[0].(object)["name"] != "send_letter" || tools[0].(object)["inputSchema"] == nil {
		t.Errorf("found %v", found)
	}
	equal(t, found["toolsets"], `["rest","post"]`)
	found = decode(t, text(r.call("find_tools", `{"query":"tool","limit":2.0}`)))
	if tools, more := found["tools"].([]any), found["more"].([]any); len(tools) != 2 || len(more) != 38 {
		t.Errorf("%d tools, and %d more", len(tools), len(more))
	}
	equal(t, decode(t, text(r.call("find_tools", `{"toolset":"post"}`)))["names"], `["send_letter"]`)
	equal(t, decode(t, text(r.call("find_tools", `{"query":"nothing like it"}`)))["tools"], `[]`)
	if result := r.call("find_tools", `{"limit":21,"other":1}`); result["isError"] != true || !strings.Contains(text(result), "/other") {
		t.Errorf("arguments that are none: %v", result)
	}

	// The headers of the message speak of call_tool alone.
	if got := r.modern("tools/call", `{"name":"call_tool","arguments":{"name":"send_letter","arguments":{"region":"eu"}}}`).result(); text(got) != "seen" {
		t.Errorf("called by name: %v", got)
	}
	if request := s.last(t); request.Query.Get("region") != "eu" || request.Path != "/send_letter" {
		t.Errorf("the route got %+v", request)
	}
	if got := r.call("call_tool", `{"name":"send_letter","arguments":{"region":7}}`); got["isError"] != true || !strings.Contains(text(got), "/region") {
		t.Errorf("arguments that don't match: %v", got)
	}
	for _, name := range []string{"none", "send_secret_letter", "call_tool", "find_tools"} {
		r.ask("tools/call", `{"name":"call_tool","arguments":{"name":"`+name+`"}}`).failure(200, -32602)
	}
}

// A result that no client would take whole ends, and says how to go on.
func TestLongResults(t *testing.T) {
	t.Parallel()
	const most = 3500 // a thousand tokens
	list := item{id: "list", handler: module("long"), more: parameters(parameter("query", "limit", object{"type": "integer"}), parameter("query", "cursor", object{"type": "string"}))}
	bare := item{id: "bare", handler: module("long")}
	image := item{id: "image", handler: module("image")}
	just := item{id: "just", handler: module("just")}
	long := `{"a":"` + strings.Repeat("é", most) + `"}`
	const schema = `{"type":"object"}`
	typed := item{id: "typed", handler: module("long"), more: responses(map[string]string{"200": schema})}
	page := resource("page", nil)
	page.handler = module("long")
	r := start(t, handlers{
		"long": answer(200, "application/json", long), "image": answer(200, "image/png", strings.Repeat("x", 2*most)), "just": answer(200, "text/plain", strings.Repeat("x", most)),
	}, over(object{"maxResultTokens": 1000, "resourceTool": true, "includeOutputSchema": true}, list, bare, image, just, typed, page)...)
	text := func(result object) string { return fmt.Sprint(result["content"].([]any)[0].(object)["text"]) }
	for name, next := range map[string]string{"list": "Call the tool again with a smaller limit, and go on with cursor.", "bare": "Ask for less, if the tool's arguments allow that."} {
		got := text(r.call(name, "{}"))
		want := "\n\n[The result ends here, at byte 3500 of " + strconv.Itoa(len(long)) + ". " + next + "]"
		if shown, ok := strings.CutSuffix(got, want); !ok || !strings.HasPrefix(long, shown) || len(shown) != most {
			t.Errorf("%s ends with %s", name, got[max(0, len(got)-200):])
		}
	}
	if got := r.call("typed", "{}"); got["isError"] != true || got["structuredContent"] != nil || !strings.Contains(text(got), "ends here") {
		t.Errorf("a part of what has a schema: %.200v", got)
	}
	if got := r.call("image", "{}")["content"].([]any)[0].(object); len(got["data"].(string)) < 2*most {
		t.Error("an image is cut")
	}
	if got := text(r.call("just", "{}")); len(got) != most {
		t.Errorf("%d bytes", len(got))
	}
	// A resource is read piece by piece, without a character lost.
	whole, offset := "", "0"
	for range 4 {
		piece := text(r.call("read_resource", `{"uri":"mcp://resources/page","offset":`+offset+`}`))
		shown, rest, cut := strings.Cut(piece, "\n\n[The result ends here, at byte ")
		if whole += shown; !cut {
			break
		}
		offset, _, _ = strings.Cut(rest, " ")
	}
	if whole != long {
		t.Errorf("read %d bytes of %d", len(whole), len(long))
	}
	if got := text(r.call("read_resource", "{}")); got != "mcp://resources/page (text/plain): GET /page\n" {
		t.Errorf("the list of resources: %q", got)
	}
	if got := r.call("read_resource", `{"uri":"mcp://resources/none"}`); got["isError"] != true {
		t.Errorf("a resource that is not there: %v", got)
	}
}

// A trace that the client tells in _meta goes on to the back end, and nothing that is no trace.
func TestTraceOfTheClient(t *testing.T) {
	t.Parallel()
	const parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
	for name, row := range map[string]struct{ meta, parent, state, baggage string }{
		"of the message":            {`{"traceparent":"` + parent + `","tracestate":"a=b","baggage":"k=v"}`, parent, "a=b", "k=v"},
		"without more":              {`{"traceparent":"` + parent + `"}`, parent, "", ""},
		"of HTTP":                   {`{}`, "http", "http=1", "http=2"},
		"no trace":                  {`{"traceparent":"00-x","tracestate":"a=b"}`, "http", "http=1", "http=2"},
		"no header":                 {`{"traceparent":"` + parent + `\r\nX: y"}`, "http", "http=1", "http=2"},
		"a state that is no header": {`{"traceparent":"` + parent + `","tracestate":"a\r\nX: y"}`, parent, "", ""},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := new(seen)
			page := resource("page", nil)
			page.handler = module("seen")
			r := start(t, handlers{"seen": s}, over(nil, item{id: "tool", handler: module("seen")}, page)...)
			header := []string{"Traceparent", "http", "Tracestate", "http=1", "Baggage", "http=2"}
			r.ask("tools/call", `{"name":"tool","_meta":`+row.meta+`}`, header...).result()
			r.ask("resources/read", `{"uri":"mcp://resources/page","_meta":`+row.meta+`}`, header...).result()
			for _, request := range s.requests {
				got := []string{request.Header.Get("Traceparent"), request.Header.Get("Tracestate"), request.Header.Get("Baggage")}
				if got[0] != row.parent || got[1] != row.state || got[2] != row.baggage {
					t.Errorf("the back end got %q", got)
				}
			}
		})
	}
}

func TestListsToKeep(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(object{"listSeconds": 3600, "publicLists": true}, resource("page", nil))...)
	for _, method := range []string{"tools/list", "resources/list", "server/discover"} {
		if got := r.modern(method, "").result(); got["ttlMs"] != 3_600_000.0 || got["cacheScope"] != "public" {
			t.Errorf("%s: %v %v", method, got["ttlMs"], got["cacheScope"])
		}
	}
	if got := r.modern("resources/read", `{"uri":"mcp://resources/page"}`).result(); got["ttlMs"] != 0.0 || got["cacheScope"] != "private" {
		t.Errorf("what is read: %v %v", got["ttlMs"], got["cacheScope"])
	}
}

func decode(t *testing.T, text string) object {
	t.Helper()
	var value object
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	return value
}
