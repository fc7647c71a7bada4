package apipart_test

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"time"
)

// rpc is a JSON-RPC answer.
type rpc struct {
	Result map[string]any `json:"result"`
	Error  *struct {
		Code    int            `json:"code"`
		Message string         `json:"message"`
		Data    map[string]any `json:"data"`
	} `json:"error"`
}

// send calls the service, or a route behind it, with the admin key.
func (r *rig) send(method, path, body string, tweaks ...tweak) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(r.t.Context(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+adminKey)
	for _, tweak := range tweaks {
		tweak(request)
	}
	response, err := http.DefaultTransport.RoundTrip(request)
	if err != nil {
		r.t.Fatalf("%s %s: %v", method, path, err)
	}
	defer func() { _ = response.Body.Close() }()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read answer: %v", method, path, err)
	}
	return answer{t: r.t, call: method + " " + path, status: response.StatusCode, header: response.Header, body: content}
}

// everyMCP is the MCP server with all tools, and the schemas of what they answer.
const everyMCP = "/mcp?tools=all&schemas=1"

// mcp sends a message in the plain form, as curl does: without initialize, session or
// content type.
func (r *rig) mcp(key, method string, params any) rpc {
	r.t.Helper()
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	if err != nil {
		r.t.Fatal(err)
	}
	var a answer
	// As for insist: on a slow machine 503 means to try again, also within what a tool fails with.
	for n := 1; ; n++ {
		a = r.send(http.MethodPost, everyMCP, string(message), as(key), header("Accept", "application/json, text/event-stream"))
		failed := a.status == http.StatusServiceUnavailable || bytes.Contains(a.body, []byte(`"isError":true`))
		if !failed || !bytes.Contains(a.body, []byte("problems/unavailable")) {
			break
		}
		if n > mostRefusals {
			r.t.Fatalf("%s was refused %d times: %s", method, n, a.body)
		}
		<-time.After(200 * time.Millisecond)
	}
	a.want(http.StatusOK)
	var out rpc
	a.into(&out)
	return out
}

type arguments = map[string]any

// tool calls a tool and returns the text that it answers with.
func (r *rig) tool(key, name string, args arguments) (text string, failed bool) {
	r.t.Helper()
	out := r.mcp(key, "tools/call", map[string]any{"name": name, "arguments": args})
	if out.Error != nil {
		r.t.Fatalf("%s: %+v", name, *out.Error)
	}
	content, _ := out.Result["content"].([]any)
	if len(content) != 1 {
		r.t.Fatalf("%s answers with %v", name, out.Result)
	}
	item, _ := content[0].(map[string]any)
	text, ok := item["text"].(string)
	if !ok || item["type"] != "text" {
		r.t.Fatalf("%s answers with %v", name, item)
	}
	failed, _ = out.Result["isError"].(bool)
	return text, failed
}

// works calls a tool that must not fail, and decodes its answer.
func (r *rig) works(key, name string, args arguments) map[string]any {
	r.t.Helper()
	text, failed := r.tool(key, name, args)
	if failed {
		r.t.Fatalf("%s fails: %s", name, text)
	}
	var value map[string]any
	if err := json.Unmarshal([]byte(text), &value); err != nil {
		r.t.Fatalf("%s answers with %s: %v", name, text, err)
	}
	return value
}

// listed returns a member of each entry of a list.
func (r *rig) listed(key, method, list, member string) []string {
	r.t.Helper()
	out := r.mcp(key, method, map[string]any{})
	if out.Error != nil {
		r.t.Fatalf("%s: %+v", method, *out.Error)
	}
	entries, ok := out.Result[list].([]any)
	if !ok {
		r.t.Fatalf("%s: no %s in %v", method, list, out.Result)
	}
	names := []string{}
	for _, entry := range entries {
		names = append(names, entry.(map[string]any)[member].(string))
	}
	return names
}
