package mcpserver_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"waybill.dev/shared/jsonscan/attack"
)

// Whatever is sent, the answer is one of the protocol's: valid JSON or nothing, with a
// status that says the same, and nothing of a panic.
func FuzzBody(f *testing.F) {
	for _, method := range []string{
		"resources/list", "resources/read", "tools/call", "prompts/get", "ping", "initialize", "completion/complete",
		"logging/setLevel", "subscriptions/listen", "server/discover", "notifications/x",
	} {
		f.Add(message("1", method, `{"uri":"mcp://resources/page","name":"tool","level":"info","protocolVersion":"2025-06-18"}`), "")
		f.Add(modernMessage(method, `{"uri":"mcp://resources/page","name":"tool"}`), method)
	}
	for _, body := range []string{"", "[", "[]", "null", `[1,{}]`, `{"jsonrpc":"2.0","id":1e999,"method":"ping","params":{"_meta":7}}`, `{"jsonrpc":"2.0","id":1,"method":"\u0000"}`} {
		f.Add(body, "")
	}
	for _, b := range attack.Bodies(4 << 10) {
		f.Add(string(b.Text), "")
		f.Add(message("1", "tools/call", `{"name":"tool","arguments":`+string(b.Text)+`}`), "")
	}
	r := attacked(f)
	f.Fuzz(func(t *testing.T, body, method string) {
		if len(body) > 1<<20 {
			return
		}
		header := curl()
		if method != "" {
			header = modernHeader(method, `{"name":"tool","uri":""}`)
		}
		w := r.hold(t, header, []byte(body))
		switch {
		case w.Code == http.StatusAccepted && w.Body.Len() == 0:
		case w.Header().Get("Content-Type") == "text/event-stream" && w.Code == http.StatusOK:
		case !json.Valid(w.Body.Bytes()) || w.Header().Get("Content-Type") != "application/json":
			t.Errorf("%d %v %q", w.Code, w.Header(), w.Body)
		case w.Code != 200 && w.Code != 400 && w.Code != 404 && w.Code != 413:
			t.Errorf("%d %s", w.Code, w.Body)
		}
		if strings.Contains(w.Body.String(), `"code":-32603`) {
			t.Errorf("an internal error: %s", w.Body)
		}
	})
}
