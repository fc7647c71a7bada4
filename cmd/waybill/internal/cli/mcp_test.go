package cli_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// mcpServer is a server with something of everything, of the SDK's own. It answers to
// apiKey, and gathers the keys that it was shown.
func mcpServer(t *testing.T, keys *[]string) string {
	t.Helper()
	s := mcp.NewServer(&mcp.Implementation{Name: "Tester", Version: "7"}, nil)
	no := false
	s.AddTool(&mcp.Tool{
		Name: "look", Description: "Looks at something.\nVery closely.", InputSchema: json.RawMessage(`{"type":"object"}`),
		Annotations: &mcp.ToolAnnotations{ReadOnlyHint: true},
	}, nil)
	s.AddTool(&mcp.Tool{Name: "drop", Description: "Loses something.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{}}, nil)
	s.AddTool(&mcp.Tool{Name: "put", Description: "\x1b[31mPuts something.", InputSchema: json.RawMessage(`{"type":"object"}`), Annotations: &mcp.ToolAnnotations{DestructiveHint: &no, IdempotentHint: true}}, nil)
	s.AddPrompt(&mcp.Prompt{Name: "ask", Description: "Asks.", Arguments: []*mcp.PromptArgument{{Name: "what"}}}, nil)
	s.AddResource(&mcp.Resource{URI: "test://one", Name: "one", Description: "One.", MIMEType: "text/css"}, nil)
	s.AddResourceTemplate(&mcp.ResourceTemplate{URITemplate: "test://many/{n}", Name: "many", Description: "Many."}, nil)
	handler := mcp.NewStreamableHTTPHandler(func(*http.Request) *mcp.Server { return s }, &mcp.StreamableHTTPOptions{Stateless: true, JSONResponse: true})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := strings.TrimPrefix(r.Header.Get("Authorization"), "Bearer ")
		*keys = append(*keys, key)
		if key != apiKey {
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

func TestInspect(t *testing.T) {
	t.Parallel()
	var keys []string
	url := mcpServer(t, &keys)
	code, out, notes := waybill("mcp", "inspect", url, "--key", apiKey)
	if code != 0 {
		t.Fatalf("inspect: %d\n%s%s", code, out, notes)
	}
	for _, text := range []string{
		"Tester 7, protocol 20", "reads", "Looks at something. Very closely.", "changes, destructive", "changes, repeatable",
		"ask", "what", "test://one", "text/css", "test://many/{n}",
	} {
		if !strings.Contains(out, text) {
			t.Errorf("%q is not in\n%s", text, out)
		}
	}
	if strings.Contains(out, "\x1b") {
		t.Errorf("the server steers the terminal:\n%q", out)
	}
	code, out, _ = waybill("mcp", "inspect", url, "--key", apiKey, "-o", "json")
	var report struct {
		Name              string
		Tools             []struct{ Name string }
		Prompts           []struct{ Arguments []struct{ Name string } }
		Resources         []struct{ URI string }
		ResourceTemplates []struct{ URI string }
	}
	if err := json.Unmarshal([]byte(out), &report); code != 0 || err != nil {
		t.Fatalf("as JSON: %d, %v\n%s", code, err, out)
	}
	if report.Name != "Tester" || len(report.Tools) != 3 || len(report.Prompts) != 1 || len(report.Resources) != 1 || len(report.ResourceTemplates) != 1 {
		t.Errorf("as JSON: %+v", report)
	}
}

// A server that is not the installation's own is not shown the installation's key, and
// what goes wrong is said in words.
func TestInspectWithoutKey(t *testing.T) {
	t.Setenv("WAYBILL_ADMIN_KEY", "canary-admin-key-0123456789-abcdefghij")
	var keys []string
	url := mcpServer(t, &keys)
	code, out, notes := waybill("mcp", "inspect", url)
	if code != 1 || out != "" || !strings.Contains(notes, "--key") {
		t.Errorf("without a key: %d\n%s%s", code, out, notes)
	}
	for _, key := range keys {
		if key != "" {
			t.Errorf("the server was shown %q", key)
		}
	}
	if len(keys) == 0 {
		t.Error("the server was not asked")
	}
	keys = nil
	if code, _, _ := waybill("mcp", "inspect", "--server", url); code != 1 {
		t.Errorf("a key that is not the server's: %d", code)
	}
	if len(keys) == 0 || keys[0] != "canary-admin-key-0123456789-abcdefghij" {
		t.Errorf("the installation was shown %q", keys)
	}
	nothing := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(nothing.Close)
	if code, _, notes := waybill("mcp", "inspect", nothing.URL); code != 1 || !strings.Contains(notes, "no MCP server") {
		t.Errorf("nothing there: %d %s", code, notes)
	}
	for _, wrong := range []string{"nowhere", "ftp://x/mcp"} {
		if code, _, _ := waybill("mcp", "inspect", wrong); code != 2 {
			t.Errorf("%s: %d", wrong, code)
		}
	}
}
