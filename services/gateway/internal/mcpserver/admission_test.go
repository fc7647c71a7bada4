package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

const bareList = `{"jsonrpc":"2.0","id":"1","method":"resources/list"}`

func TestAccept(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for _, accept := range []string{
		"application/json, text/event-stream", "application/json", "text/event-stream", "*/*", "",
		"application/*", "text/html, application/json;q=0.9",
	} {
		if got := r.send(http.MethodPost, with("Accept", accept), bareList); got.status != 200 || got.header.Get("Content-Type") != "application/json" {
			t.Errorf("Accept %q: %d %v %s", accept, got.status, got.header, got.body)
		}
	}
	r.send(http.MethodPost, with("Accept", "text/html"), bareList).failure(406, -32600)
}

func TestContentType(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for _, contentType := range []string{"", "application/json", "application/json; charset=utf-8", "Application/JSON", "application/x-www-form-urlencoded"} {
		if got := r.send(http.MethodPost, with("Content-Type", contentType), bareList); got.status != 200 {
			t.Errorf("Content-Type %q: %d %s", contentType, got.status, got.body)
		}
	}
	for _, contentType := range []string{"text/plain", "multipart/form-data; boundary=x", "application/xml", "text/json", ";"} {
		r.send(http.MethodPost, with("Content-Type", contentType), bareList).failure(415, -32600)
	}
}

// A page can send some requests anywhere without asking first. Its browser marks them.
func TestSimpleRequestsOfPagesAreRefused(t *testing.T) {
	t.Parallel()
	s := new(seen)
	r := start(t, handlers{"seen": s}, over(nil, item{id: "delete_all", handler: module("seen")})...)
	call := message("1", "tools/call", `{"name":"delete_all"}`)
	for _, contentType := range []string{"", "application/x-www-form-urlencoded", "text/plain"} {
		r.send(http.MethodPost, with("Content-Type", contentType, "Sec-Fetch-Site", "cross-site"), call).failure(415, -32600)
		r.send(http.MethodPost, with("Content-Type", contentType, "Origin", "http://evil.example"), call).failure(403, -32600)
		r.send(http.MethodPost, with("Content-Type", contentType, "Origin", r.url), call).failure(415, -32600)
	}
	if len(s.requests) > 0 {
		t.Error("the route was called")
	}
}

func TestMethods(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for _, method := range []string{"GET", "DELETE", "PUT", "HEAD"} {
		if got := r.send(method, with("Accept", "text/event-stream"), ""); got.status != 405 || got.header.Get("Allow") != "POST" {
			t.Errorf("%s: %d, Allow %q", method, got.status, got.header.Get("Allow"))
		}
	}
}

func TestOriginAndHost(t *testing.T) {
	t.Parallel()
	open := start(t, nil, over(nil, resource("page", nil))...)
	lists := start(t, nil, over(object{
		"allowedOrigins": []string{"https://app.example", "http://localhost:6274/"},
		"allowedHosts":   []string{"api.example", "api.example:8443"},
	}, resource("page", nil))...)
	cors := over(nil, resource("page", nil))
	cors[0].cors = "pages"
	pages := start(t, nil, cors...)
	cors[0].cors = "anything-goes"
	anything := start(t, nil, cors...)
	anyone := start(t, nil, over(object{"allowedOrigins": []string{"*"}}, resource("page", nil))...)
	const loopback, outside = "127.0.0.1:5000", "192.0.2.7:5000"
	for _, row := range []struct {
		name         string
		rig          *rig
		remote       string
		host, origin string
		want         int
	}{
		{name: "no page", rig: open, remote: outside, host: "api.example", want: 200},
		{name: "the server's own page", rig: open, remote: outside, host: "api.example", origin: "https://api.example", want: 200},
		{name: "another page", rig: open, remote: outside, host: "api.example", origin: "https://evil.example", want: 403},
		{name: "another port", rig: open, remote: outside, host: "api.example", origin: "https://api.example:81", want: 403},
		{name: "a page from a file", rig: open, remote: outside, host: "api.example", origin: "null", want: 403},
		{name: "an origin that is none", rig: open, remote: outside, host: "api.example", origin: "api.example", want: 403},
		{name: "loopback by name", rig: open, remote: loopback, host: "localhost:8080", want: 200},
		{name: "loopback by address", rig: open, remote: "[::1]:5000", host: "[::1]:8080", want: 200},
		{name: "a rebound name", rig: open, remote: loopback, host: "evil.example", want: 403},
		{name: "a rebound name and its page", rig: open, remote: loopback, host: "evil.example:8080", origin: "http://evil.example:8080", want: 403},
		{name: "a foreign page on loopback", rig: open, remote: loopback, host: "localhost", origin: "http://evil.example", want: 403},
		{name: "a listed page", rig: lists, remote: outside, host: "api.example", origin: "https://APP.example", want: 200},
		{name: "a listed page, written with a slash", rig: lists, remote: outside, host: "api.example", origin: "http://localhost:6274", want: 200},
		{name: "a page that is not listed", rig: lists, remote: outside, host: "api.example", origin: "https://app.example.evil", want: 403},
		{name: "a proxy on this machine", rig: lists, remote: loopback, host: "api.example", want: 200},
		{name: "a host that is not listed", rig: lists, remote: outside, host: "evil.example", want: 403},
		{name: "loopback beside a list", rig: lists, remote: loopback, host: "127.0.0.1", want: 200},
		{name: "a page of the route's corsPolicy", rig: pages, remote: outside, host: "api.example", origin: "https://app.example", want: 200},
		{name: "a page that the corsPolicy lacks", rig: pages, remote: outside, host: "api.example", origin: "https://evil.example", want: 403},
		{name: "anything goes", rig: anything, remote: outside, host: "api.example", origin: "https://evil.example", want: 200},
		{name: "anything goes, but a rebound name", rig: anything, remote: loopback, host: "evil.example", origin: "https://evil.example", want: 403},
		{name: "any page", rig: anyone, remote: outside, host: "api.example", origin: "https://evil.example", want: 200},
		{name: "any page, but a rebound name", rig: anyone, remote: loopback, host: "evil.example", origin: "https://evil.example", want: 403},
	} {
		request := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/mcp", strings.NewReader(bareList))
		request.RemoteAddr, request.Host = row.remote, row.host
		request.Header.Set("Content-Type", "application/json")
		if row.origin != "" {
			request.Header.Set("Origin", row.origin)
		}
		w := httptest.NewRecorder()
		row.rig.gateway.ServeHTTP(w, request)
		if w.Code != row.want {
			t.Errorf("%s: %d %s", row.name, w.Code, w.Body)
		}
	}
}

func TestFourMebibytes(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	fill := func(size int) string {
		body := `{"jsonrpc":"2.0","id":"1","method":"resources/list","params":{"_meta":{"fill":""}}}`
		return strings.Replace(body, `"fill":"`, `"fill":"`+strings.Repeat("x", size-len(body)), 1)
	}
	if got := r.send(http.MethodPost, with("Content-Type", "application/json"), fill(4<<20)); got.status != 200 {
		t.Errorf("4 MiB: %d %s", got.status, got.body)
	}
	if got := r.send(http.MethodPost, with("Content-Type", "application/json"), fill(4<<20+1)); got.status != 413 {
		t.Errorf("a byte more: %d %s", got.status, got.body)
	}
}

func TestNotMessages(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for name, row := range map[string]struct {
		body string
		code int
	}{
		"empty":                       {"", -32700},
		"blank":                       {" \n", -32700},
		"no JSON":                     {"{", -32700},
		"form":                        {"a=b", -32700},
		"trailing garbage":            {bareList + "x", -32700},
		"two messages":                {bareList + bareList, -32700},
		"not UTF-8":                   {"{\"jsonrpc\":\"2.0\",\"id\":\"\xff\",\"method\":\"ping\"}", -32700},
		"a member twice":              {`{"jsonrpc":"2.0","id":1,"id":2,"method":"ping"}`, -32700},
		"a broken pair of surrogates": {`{"jsonrpc":"2.0","id":"\ud800","method":"ping"}`, -32700},
		"text":                        {`"x"`, -32600},
		"number":                      {`1`, -32600},
		"null":                        {`null`, -32600},
		"null id":                     {`{"jsonrpc":"2.0","id":null,"method":"ping"}`, -32600},
		"object as id":                {`{"jsonrpc":"2.0","id":{},"method":"ping"}`, -32600},
		"boolean as id":               {`{"jsonrpc":"2.0","id":true,"method":"ping"}`, -32600},
		"missing id":                  {`{"jsonrpc":"2.0","method":"resources/list"}`, -32600},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := r.post(row.body)
			reply.failure(400, row.code)
			if !strings.Contains(string(reply.body), `"id":null`) {
				t.Errorf("the id is not null: %s", reply.body)
			}
		})
	}
	for name, body := range map[string]string{
		"no jsonrpc":    `{"id":7,"method":"ping"}`,
		"jsonrpc 1.0":   `{"jsonrpc":"1.0","id":7,"method":"ping"}`,
		"no method":     `{"jsonrpc":"2.0","id":7}`,
		"null method":   `{"jsonrpc":"2.0","id":7,"method":null}`,
		"other letters": `{"jsonrpc":"2.0","id":7,"Method":"ping"}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			reply := r.post(body)
			reply.failure(400, -32600)
			if !strings.Contains(string(reply.body), `"id":7,`) {
				t.Errorf("the id is lost: %s", reply.body)
			}
		})
	}
}

func TestIDsComeBackAsTheyWere(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil), item{id: "tool"}, item{id: "prompt", mcp: object{"type": "prompt"}})...)
	for _, id := range []string{
		`"1"`, `""`, `"a\"b\\"`, `"\u00e9"`, `"é"`, `1`, `0`, `-1`, `1.5`, `1.0`, `1e3`, `-0`,
		`9007199254740993`, `123456789012345678901234567890`, `0.1000000000000000055511151231257827`,
	} {
		for method, params := range map[string]string{
			"resources/list": "", "resources/read": `{"uri":"mcp://resources/page"}`, "tools/call": `{"name":"tool"}`,
			"prompts/get": `{"name":"prompt"}`, "ping": "", "no/such/method": "", "resources/templates/list": "",
		} {
			reply := r.post(message(id, method, params))
			if !strings.HasPrefix(string(reply.body), `{"jsonrpc":"2.0","id":`+id+`,`) || !json.Valid(reply.body) || reply.status != 200 {
				t.Errorf("%s of id %s: %d %s", method, id, reply.status, reply.body)
			}
		}
	}
}

func TestNotificationsAreAccepted(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	for _, body := range []string{
		`{"jsonrpc":"2.0","method":"notifications/initialized"}`,
		`{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}`,
		`{"jsonrpc":"2.0","method":"notifications/of/the/future"}`,
		`{"jsonrpc":"2.0","id":1,"result":{}}`,
		`{"jsonrpc":"2.0","id":1,"error":{"code":1,"message":"x"}}`,
	} {
		if got := r.post(body); got.status != 202 || len(got.body) > 0 {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
}

func TestBatches(t *testing.T) {
	t.Parallel()
	r := start(t, nil, over(nil, resource("page", nil))...)
	batch := `[` + message(`1`, "ping", "") + `,{"jsonrpc":"2.0","method":"notifications/initialized"},` +
		message(`"b"`, "no/method", "") + `,7,` + message(`2`, "resources/list", "") + `]`
	for _, version := range []string{"", "2025-03-26"} {
		reply := r.send(http.MethodPost, with("MCP-Protocol-Version", version), batch)
		var answers []struct {
			ID     any
			Result any
			Error  struct{ Code int }
		}
		if err := json.Unmarshal(reply.body, &answers); err != nil || reply.status != 200 || len(answers) != 4 {
			t.Fatalf("%v: %d %s", err, reply.status, reply.body)
		}
		if answers[0].ID != 1.0 || answers[0].Result == nil || answers[1].ID != "b" || answers[1].Error.Code != -32601 ||
			answers[2].ID != nil || answers[2].Error.Code != -32600 || answers[3].ID != 2.0 || answers[3].Result == nil {
			t.Errorf("answers: %s", reply.body)
		}
	}
	for _, version := range []string{"2025-06-18", "2025-11-25", "2026-07-28", "2024-11-05"} {
		r.send(http.MethodPost, with("MCP-Protocol-Version", version), batch).failure(400, -32600)
	}
	if got := r.post(`[{"jsonrpc":"2.0","method":"notifications/initialized"}]`); got.status != 202 || len(got.body) > 0 {
		t.Errorf("notifications alone: %d %s", got.status, got.body)
	}
	r.post(`[]`).failure(400, -32600)
	r.post(`[1`).failure(400, -32700)
	r.post(`[`+strings.TrimSuffix(strings.Repeat(message(`1`, "ping", "")+",", 101), ",")+`]`).failure(400, -32600)
	long := resource("long", nil)
	long.handler = static(strings.Repeat("x", 1<<20), "text/plain")
	r = start(t, nil, over(nil, long)...)
	reads := strings.TrimSuffix(strings.Repeat(message(`1`, "resources/read", `{"uri":"mcp://resources/long"}`)+",", 100), ",")
	reply := r.post(`[` + reads + `]`)
	if size := len(reply.body); size > 10<<20 || strings.Count(string(reply.body), `"contents"`) != 8 || strings.Count(string(reply.body), `"code":-32603`) != 92 {
		t.Errorf("100 answers of 1 MiB: %d bytes", size)
	}
	one := r.post(`[` + message(`1`, "initialize", `{"protocolVersion":"2025-03-26"}`) + `]`)
	if !strings.Contains(string(one.body), `"code":-32600`) {
		t.Errorf("initialize in a batch: %s", one.body)
	}
}
