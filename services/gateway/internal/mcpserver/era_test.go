package mcpserver_test

import (
	"net/http"
	"strings"
	"testing"
)

func eraRig(t *testing.T) *rig {
	t.Helper()
	return start(t, nil, over(nil, resource("page", nil), item{id: "tool"}, item{id: "prompt", mcp: object{"type": "prompt"}})...)
}

func TestInitialize(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	for asked, want := range map[string]string{
		"2024-11-05": "2024-11-05", "2025-03-26": "2025-03-26", "2025-06-18": "2025-06-18",
		"2025-11-25": "2025-11-25", "1999-01-01": "2025-11-25",
	} {
		reply := r.send(http.MethodPost, with("Content-Type", "application/json"),
			message("0", "initialize", `{"protocolVersion":"`+asked+`","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`))
		result := reply.result()
		if result["protocolVersion"] != want {
			t.Errorf("%s: %v", asked, result["protocolVersion"])
		}
		// Nothing is promised that is not kept: no changes announced, no log messages.
		equal(t, result["capabilities"], `{"tools":{},"prompts":{},"resources":{},"completions":{}}`)
		if session := reply.header.Get("Mcp-Session-Id"); session != "" {
			t.Errorf("a session: %s", session)
		}
	}
	r.ask("initialize", "").failure(200, -32602)
}

func TestLegacyRequests(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	for _, version := range []string{"2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", ""} {
		header := []string{"MCP-Protocol-Version", version, "Mcp-Session-Id", "stale"}
		if got := r.ask("resources/list", "", header...).names("resources"); got != "page" {
			t.Errorf("%s: %s", version, got)
		}
		if got := r.ask("tools/call", `{"name":"tool"}`, header...).result(); got["resultType"] != nil {
			t.Errorf("%s: a result of another era: %v", version, got)
		}
		equal(t, r.ask("ping", "", header...).result(), `{}`)
		equal(t, r.ask("completion/complete", `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`, header...).result(),
			`{"completion":{"values":[]}}`)
		r.ask("no/method", "", header...).failure(200, -32601)
		r.ask("tools/call", "", header...).failure(200, -32602)
		r.ask("tools/call", `{"name":7}`, header...).failure(200, -32602)
		r.ask("tools/call", `{"name":"tool","arguments":[]}`, header...).failure(200, -32602)
		r.ask("tools/call", `["tool"]`, header...).failure(200, -32602)
		r.ask("resources/read", `{"uri":7}`, header...).failure(200, -32602)
		for _, params := range []string{`{"protocolVersion":7}`, `{"protocolVersion":"2025-06-18","capabilities":7}`, `{"protocolVersion":"2025-06-18","clientInfo":7}`} {
			r.ask("initialize", params, header...).failure(200, -32602)
		}
		r.ask("logging/setLevel", `{"level":7}`, header...).failure(200, -32602)
		for _, params := range []string{`{"ref":7}`, `{}`, `{"ref":{"type":"x"},"argument":{"name":"a","value":""}}`, `{"ref":{"type":"ref/prompt"},"argument":7}`} {
			r.ask("completion/complete", params, header...).failure(200, -32602)
		}
		r.ask("resources/list", `{"_meta":7}`, header...).failure(200, -32602)
		equal(t, r.ask("logging/setLevel", `{"level":"info"}`, header...).result(), `{}`)
		r.ask("server/discover", "", header...).failure(200, -32601)
		r.ask("subscriptions/listen", `{"notifications":{}}`, header...).failure(200, -32601)
		r.ask("resources/list", `{"cursor":"nonsense"}`, header...).failure(200, -32602)
	}
}

func TestUnknownVersions(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	const list = `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`
	for _, version := range []string{"1999-01-01", "2099-01-01", "x", "nonsense", "2026-07-28x"} {
		for method, params := range map[string]string{
			"resources/list": "", "ping": "", "initialize": `{"protocolVersion":"2025-06-18","capabilities":{},"clientInfo":{"name":"c","version":"1"}}`,
		} {
			data := r.ask(method, params, "MCP-Protocol-Version", version).failure(400, -32022)
			equal(t, data["supported"], list)
			equal(t, data["requested"], `"`+version+`"`)
		}
		data := r.send(http.MethodPost, with("MCP-Protocol-Version", version), `[`+message("1", "ping", "")+`]`).failure(400, -32022)
		equal(t, data["supported"], list)
	}
	future := strings.ReplaceAll(modernMessage("tools/list", ""), "2026-07-28", "2099-01-01")
	data := r.send(http.MethodPost, modernHeader("tools/list", "", "MCP-Protocol-Version", "2099-01-01"), future).failure(400, -32022)
	equal(t, data, `{"requested":"2099-01-01","supported":["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]}`)
}

func TestModernRequests(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	for method, params := range map[string]string{
		"server/discover": "", "tools/list": "", "prompts/list": "", "resources/list": "", "resources/templates/list": "",
		"resources/read": `{"uri":"mcp://resources/page"}`, "tools/call": `{"name":"tool"}`, "prompts/get": `{"name":"prompt"}`,
		"completion/complete": `{"ref":{"type":"ref/prompt","name":"prompt"},"argument":{"name":"a","value":""}}`,
	} {
		result := r.modern(method, params).result()
		if result["resultType"] != "complete" || result["_meta"].(object)["io.modelcontextprotocol/serverInfo"] == nil {
			t.Errorf("%s: %v", method, result)
		}
		if strings.HasSuffix(method, "/list") || method == "resources/read" || method == "server/discover" {
			want := 60_000.0
			if method == "resources/read" {
				want = 0
			}
			if result["cacheScope"] != "private" || result["ttlMs"] != want {
				t.Errorf("%s: to be kept for %v ms by %v", method, result["ttlMs"], result["cacheScope"])
			}
		}
	}
	discovered := r.modern("server/discover", "").result()
	equal(t, discovered["supportedVersions"], `["2026-07-28","2025-11-25","2025-06-18","2025-03-26","2024-11-05"]`)
	equal(t, discovered["capabilities"], `{"tools":{},"prompts":{},"resources":{},"completions":{}}`)
}

func TestModernErrors(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	for _, method := range []string{"no/method", "initialize", "ping", "logging/setLevel", "resources/subscribe"} {
		r.modern(method, `{"level":"info","uri":"x:y"}`, "Mcp-Name", "").failure(404, -32601)
	}
	r.modern("tools/call", `{"name":"none"}`).failure(400, -32602)
	r.modern("prompts/get", `{"name":"none"}`).failure(400, -32602)
	r.modern("tools/list", `{"cursor":"?"}`).failure(400, -32602)
	r.modern("tools/call", `{"name":"tool","arguments":7}`).failure(400, -32602)
	r.modern("subscriptions/listen", "").failure(400, -32602)

	read := `{"uri":"mcp://resources/page"}`
	for name, header := range map[string]http.Header{
		"no Mcp-Method":    modernHeader("resources/read", read, "Mcp-Method", ""),
		"other Mcp-Method": modernHeader("resources/read", read, "Mcp-Method", "tools/list"),
		"no Mcp-Name":      modernHeader("resources/read", read, "Mcp-Name", ""),
		"other Mcp-Name":   modernHeader("resources/read", read, "Mcp-Name", "mcp://resources/other"),
		"broken Mcp-Name":  modernHeader("resources/read", read, "Mcp-Name", "=?base64?*?="),
		"no version":       modernHeader("resources/read", read, "Mcp-Protocol-Version", ""),
		"a version of old": modernHeader("resources/read", read, "Mcp-Protocol-Version", "2025-11-25"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r.send(http.MethodPost, header, modernMessage("resources/read", read)).failure(400, -32020)
		})
	}
	for name, meta := range map[string]string{
		"no version":                 `{"io.modelcontextprotocol/clientCapabilities":{}}`,
		"a number as version":        `{"io.modelcontextprotocol/protocolVersion":7,"io.modelcontextprotocol/clientCapabilities":{}}`,
		"no capabilities":            `{"io.modelcontextprotocol/protocolVersion":"2026-07-28"}`,
		"capabilities are no object": `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":1}`,
		"client info is no object":   `{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{},"io.modelcontextprotocol/clientInfo":1}`,
	} {
		t.Run("_meta with "+name, func(t *testing.T) {
			t.Parallel()
			r.send(http.MethodPost, modernHeader("tools/list", ""), message("1", "tools/list", `{"_meta":`+meta+`}`)).failure(400, -32602)
		})
	}
	t.Run("no _meta", func(t *testing.T) {
		t.Parallel()
		r.send(http.MethodPost, modernHeader("tools/list", ""), message("1", "tools/list", "")).failure(400, -32602)
	})
}

func TestNamesInHeadersMayBeEncoded(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", object{"uri": "ui://straße"}), item{id: "tool"})...)
	params := `{"uri":"ui://straße"}`
	got := r.modern("resources/read", params, "Mcp-Name", "=?base64?dWk6Ly9zdHJhw59l?=").result()
	if len(got["contents"].([]any)) != 1 {
		t.Errorf("contents: %v", got)
	}
	r.modern("tools/call", `{"name":"tool"}`, "Mcp-Name", "=?base64?dG9vbA==?=").result()
}

func TestModernNotifications(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	body := `{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`
	if got := r.send(http.MethodPost, modernHeader("notifications/cancelled", ""), body); got.status != 202 || len(got.body) > 0 {
		t.Errorf("%d %s", got.status, got.body)
	}
	r.send(http.MethodPost, modernHeader("tools/list", ""), body).failure(400, -32020)
	r.send(http.MethodPost, modernHeader("", ""), `{"jsonrpc":"2.0","id":1,"result":{}}`).failure(400, -32600)
}

// The server announces no changes, and says so at once instead of holding a stream open
// that a change of the routes would have to break.
func TestListen(t *testing.T) {
	t.Parallel()
	r := eraRig(t)
	params := `{"notifications":{"toolsListChanged":true}}`
	body := strings.Replace(modernMessage("subscriptions/listen", params), `"id":"1"`, `"id":1.50`, 1)
	reply := r.send(http.MethodPost, modernHeader("subscriptions/listen", ""), body)
	want := "event: message\n" +
		`data: {"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{"notifications":{},"_meta":{"io.modelcontextprotocol/subscriptionId":1.50}}}` + "\n\n" +
		"event: message\n" +
		`data: {"jsonrpc":"2.0","id":1.50,"result":{"resultType":"complete","_meta":{"io.modelcontextprotocol/subscriptionId":1.50,"io.modelcontextprotocol/serverInfo":{"name":"MCP Server","version":"0.0.0"}}}}` + "\n\n"
	if string(reply.body) != want || reply.header.Get("Content-Type") != "text/event-stream" || reply.header.Get("X-Accel-Buffering") != "no" {
		t.Errorf("%d %v %s", reply.status, reply.header, reply.body)
	}
}
