package mcpserver_test

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/jsonscan/attack"
)

// attacked is a server whose tool and prompt have a schema with much to say.
func attacked(tb testing.TB) *rig {
	tb.Helper()
	strict := `{"type":"object","additionalProperties":{"additionalProperties":false,"items":{"type":"object"}}}`
	tool := item{id: "tool", method: "POST", more: body(strict)}
	prompt := item{id: "prompt", method: "POST", mcp: object{"type": "prompt"}, more: body(strict)}
	return start(tb, nil, over(nil, resource("page", nil), tool, prompt)...)
}

// hold sends a body within what its size allows: the gateway and the recorder make copies of
// the body and of the answer, and one call costs some 100 KiB however small it is.
func (r *rig) hold(tb testing.TB, header http.Header, body []byte) *httptest.ResponseRecorder {
	tb.Helper()
	var w *httptest.ResponseRecorder
	attack.Hold(tb, len(body), attack.Allowance{CPU: 3, Times: 8, Bytes: 16 << 20}, func() {
		request := httptest.NewRequestWithContext(tb.Context(), http.MethodPost, "/mcp", bytes.NewReader(body))
		request.Host, request.RemoteAddr, request.Header = "api.example", "192.0.2.7:5000", header.Clone()
		w = httptest.NewRecorder()
		r.gateway.ServeHTTP(w, request)
	})
	if w.Body.Len() > len(body)*4+64<<10 {
		tb.Errorf("%d bytes are answered with %d", len(body), w.Body.Len())
	}
	return w
}

// Nobody needs a key for /mcp: what comes there costs no more than its size allows, wherever
// in a message it is.
func TestAttacks(t *testing.T) {
	r := attacked(t)
	const size = route.MaxRequest - 400
	for _, b := range attack.Bodies(size) {
		t.Run(b.Name, func(t *testing.T) {
			text := string(b.Text)
			for _, message := range []string{
				text, "[" + text + "]",
				message("1", "tools/call", `{"name":"tool","arguments":`+text+`}`),
				message("1", "prompts/get", `{"name":"prompt","arguments":`+text+`}`),
				message("1", "initialize", `{"protocolVersion":"2025-06-18","clientInfo":{"name":"a","version":"1"},"capabilities":{"experimental":{"x":`+text+`}}}`),
				message(text, "ping", `{}`), message("1", "resources/read", `{"uri":`+text+`}`),
			} {
				r.hold(t, curl(), []byte(message))
			}
			params := `{"name":"tool","arguments":` + text + `}`
			r.hold(t, modernHeader("tools/call", `{"name":"tool"}`), []byte(modernMessage("tools/call", params)))
		})
	}
}

// What is repeated or looked up is short.
func TestParamsAreBounded(t *testing.T) {
	t.Parallel()
	r := start(t, handlers{"seen": new(seen)}, over(nil, person("add"))...)
	said := func(got reply, text string) {
		t.Helper()
		if !strings.Contains(string(got.body), text) {
			t.Errorf("%d %.300s; want %q", got.status, got.body, text)
		}
	}
	said(r.ask("resources/read", `{"uri":"`+strings.Repeat("u", 9<<10)+`"}`), "The member uri is too long.")
	said(r.post(message(`"`+strings.Repeat("i", 5<<10)+`"`, "ping", `{}`)), "The id is too long.")
	// Arguments may be as long as any body, in each generation of the protocol.
	params := `{"name":"add","arguments":{"name":"` + strings.Repeat("a", 200<<10) + `"}}`
	said(r.ask("tools/call", params), "must have 5 characters or fewer")
	said(r.modern("tools/call", params), "must have 5 characters or fewer")
}
