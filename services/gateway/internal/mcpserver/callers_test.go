package mcpserver_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
)

func guarded(items ...item) []item {
	mcp := server(nil)
	ids := []object{}
	for _, i := range items {
		ids = append(ids, object{"file": "routes.oas.json", "id": i.id})
	}
	mcp.handler["options"].(object)["operations"] = ids
	mcp.inbound = []string{"optional"}
	return append([]item{mcp}, items...)
}

// What a caller may not use it does not see either, and asking for it is answered as if it
// were not there.
func TestCallersSeeWhatTheyMayUse(t *testing.T) {
	t.Parallel()
	s := new(seen)
	open, key, write := item{id: "open"}, item{id: "key", inbound: []string{"key"}}, item{id: "write", inbound: []string{"write"}, handler: module("seen")}
	page := resource("page", nil)
	page.inbound = []string{"write"}
	prompt := item{id: "prompt", inbound: []string{"write"}, mcp: object{"type": "prompt"}}
	template := resource("template", object{"uri": "people://{id}"})
	template.path, template.inbound = "/people/{id}", []string{"write"}
	r := start(t, handlers{"seen": s}, guarded(open, key, write, page, prompt, template)...)
	for key, want := range map[string][4]string{
		"":              {"open", "", "", ""},
		"Bearer reader": {"open key", "", "", ""},
		"Bearer writer": {"open key write", "page", "prompt", "template"},
	} {
		auth := []string{"Authorization", key}
		for i, member := range []string{"tools", "resources", "prompts"} {
			if got := r.ask(member+"/list", "", auth...).names(member); got != want[i] {
				t.Errorf("%q: %s: %s", key, member, got)
			}
		}
		if got := r.ask("resources/templates/list", "", auth...).names("resourceTemplates"); got != want[3] {
			t.Errorf("%q: templates: %s", key, got)
		}
		if want[1] == "" {
			r.ask("tools/call", `{"name":"write"}`, auth...).failure(200, -32602)
			r.ask("prompts/get", `{"name":"prompt"}`, auth...).failure(200, -32602)
			r.ask("resources/read", `{"uri":"mcp://resources/page"}`, auth...).failure(200, -32602)
			r.ask("resources/read", `{"uri":"people://x"}`, auth...).failure(200, -32602)
			continue
		}
		r.ask("tools/call", `{"name":"write"}`, auth...).result()
		r.ask("prompts/get", `{"name":"prompt"}`, auth...).result()
		r.ask("resources/read", `{"uri":"mcp://resources/page"}`, auth...).result()
		r.ask("resources/read", `{"uri":"people://x"}`, auth...).result()
	}
	request := s.last(t)
	if request.Principal == nil || request.Principal.ID != "writer" {
		t.Errorf("the caller is %v", request.Principal)
	}
	if reply := r.ask("tools/list", "", "Authorization", "Bearer wrong"); reply.status != 401 || reply.header.Get("WWW-Authenticate") == "" {
		t.Errorf("a wrong key: %d %v", reply.status, reply.header)
	}
	if log := r.logs.String(); strings.Contains(log, "Bearer") {
		t.Errorf("a key is in the log: %s", log)
	}
}

func TestKeyOfTheMCPRoute(t *testing.T) {
	t.Parallel()
	items := over(nil, item{id: "tool"})
	items[0].inbound = []string{"key"}
	r := start(t, nil, items...)
	if reply := r.ask("tools/list", ""); reply.status != 401 || reply.header.Get("WWW-Authenticate") != "Bearer" {
		t.Errorf("without a key: %d %v", reply.status, reply.header)
	}
	if got := r.ask("tools/list", "", "Authorization", "Bearer reader").names("tools"); got != "tool" {
		t.Errorf("tools: %s", got)
	}
	items[0].inbound = []string{"write"}
	r = start(t, nil, items...)
	reply := r.ask("tools/list", "", "Authorization", "Bearer reader")
	if want := `Bearer error="insufficient_scope", scope="webhooks:write"`; reply.status != 403 || reply.header.Get("WWW-Authenticate") != want {
		t.Errorf("without the scope: %d %v", reply.status, reply.header)
	}
}

// A page is cut out of what the caller sees: none is short or empty because of what it
// does not see.
func TestPages(t *testing.T) {
	t.Parallel()
	const each = 1100
	items := make([]item, 0, 2*each)
	for i := range each {
		hidden, shown := resource(fmt.Sprintf("h%04d", i), nil), resource(fmt.Sprintf("s%04d", i), nil)
		hidden.inbound = []string{"write"}
		items = append(items, hidden, shown)
	}
	r := start(t, nil, guarded(items...)...)
	for key, want := range map[string][]int{"": {1000, 100}, "Bearer writer": {1000, 1000, 200}} {
		var all []string
		cursor := ""
		for page, size := range want {
			params := "{}"
			if cursor != "" {
				params = `{"cursor":"` + cursor + `"}`
			}
			reply := r.ask("resources/list", params, "Authorization", key)
			names := strings.Fields(reply.names("resources"))
			if len(names) != size {
				t.Fatalf("%q: page %d has %d entries, not %d", key, page, len(names), size)
			}
			all = append(all, names...)
			cursor, _ = reply.result()["nextCursor"].(string)
			if last := page == len(want)-1; last != (cursor == "") {
				t.Fatalf("%q: after page %d the cursor is %q", key, page, cursor)
			}
		}
		if first := map[bool]string{true: "h0000", false: "s0000"}[key != ""]; all[0] != first || all[len(all)-1] != "s1099" {
			t.Errorf("%q: from %s to %s", key, all[0], all[len(all)-1])
		}
	}
}

// Lists are those of the routes that are there now, and calls, too.
func TestListsFollowTheRoutes(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, item{id: "a"}, resource("b", nil), item{id: "p", mcp: object{"type": "prompt"}})...)
	r.replace(string(document(t, over(nil, item{id: "c"}, resource("d", nil)))))
	if got := r.ask("tools/list", "").names("tools"); got != "c" {
		t.Errorf("tools: %s", got)
	}
	if got := r.ask("resources/list", "").names("resources"); got != "d" {
		t.Errorf("resources: %s", got)
	}
	if got := r.ask("prompts/list", "").names("prompts"); got != "" {
		t.Errorf("prompts: %s", got)
	}
	r.ask("tools/call", `{"name":"a"}`).failure(200, -32602)
	r.ask("resources/read", `{"uri":"mcp://resources/b"}`).failure(200, -32602)
	equal(t, r.call("c", "{}")["content"], `[{"type":"text","text":"text of c"}]`)

	gatewaytest.Files{"routes.oas.json": string(document(t, over(nil, resource("d", nil), resource("e", object{"name": "d"}))))}.Write(t, r.dir)
	if err := r.gateway.Reload(); err == nil {
		t.Error("a name twice is taken")
	}
	if got := r.ask("resources/list", "").names("resources"); got != "d" {
		t.Errorf("resources after a refused change: %s", got)
	}
}

func TestDebugMode(t *testing.T) {
	t.Parallel()
	quiet := start(t, nil, over(nil, item{id: "tool"})...)
	loud := start(t, nil, over(object{"debugMode": true}, item{id: "tool"})...)
	for _, r := range []*rig{quiet, loud} {
		r.send(http.MethodPost, with("Authorization", "Bearer reader"), message("1", "tools/call", `{"name":"tool","arguments":{"secret":"value"}}`))
	}
	if quiet.logs.String() != "" {
		t.Errorf("logged: %s", quiet.logs)
	}
	log := loud.logs.String()
	if !strings.Contains(log, `"method":"tools/call"`) || strings.Contains(log, "value") || strings.Contains(log, "reader") {
		t.Errorf("logged: %s", log)
	}
}
