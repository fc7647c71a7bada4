package apipart_test

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"slices"
	"strings"
	"testing"
)

const docsServer = "/mcp/docs"

// stranger takes the key away that send adds.
var stranger = without("Authorization")

// docsMessage is a message for the server of the documentation.
func docsMessage(t *testing.T, method string, params any) string {
	t.Helper()
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	if err != nil {
		t.Fatal(err)
	}
	return string(message)
}

// docsRPC asks the server of the documentation, without a key.
func (r *rig) docsRPC(method string, params any) rpc {
	r.t.Helper()
	a := r.send(http.MethodPost, docsServer, docsMessage(r.t, method, params), stranger)
	a.want(http.StatusOK)
	var out rpc
	a.into(&out)
	return out
}

// docsTool calls a tool of the documentation and returns what it says.
func (r *rig) docsTool(name string, args arguments) (text string, failed bool) {
	r.t.Helper()
	out := r.docsRPC("tools/call", map[string]any{"name": name, "arguments": args})
	if out.Error != nil {
		r.t.Fatalf("%s: %+v", name, *out.Error)
	}
	content, _ := out.Result["content"].([]any)
	if len(content) != 1 {
		r.t.Fatalf("%s answers with %v", name, out.Result)
	}
	item, _ := content[0].(map[string]any)
	text, _ = item["text"].(string)
	failed, _ = out.Result["isError"].(bool)
	return text, failed
}

func docsNames(t *testing.T, out rpc, list, member string) []string {
	t.Helper()
	entries, ok := out.Result[list].([]any)
	if !ok {
		t.Fatalf("no %s in %+v", list, out)
	}
	names := []string{}
	for _, entry := range entries {
		described, _ := entry.(map[string]any)
		if text, _ := described["description"].(string); text == "" {
			t.Errorf("%v has no description", described[member])
		}
		names = append(names, fmt.Sprint(described[member]))
	}
	return names
}

// Anybody can list, search and read the documentation, with a key or without one, and an
// account's key changes nothing.
func TestDocsServer(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	if got := docsNames(t, r.docsRPC("tools/list", nil), "tools", "name"); !slices.Equal(got, []string{"search_docs", "read_doc"}) {
		t.Errorf("tools: %v", got)
	}
	for method, list := range map[string]string{"prompts/list": "prompts", "resources/templates/list": "resourceTemplates"} {
		if got := docsNames(t, r.docsRPC(method, nil), list, "name"); len(got) != 0 {
			t.Errorf("%s: %v", method, got)
		}
	}
	guides := os.DirFS("../../../docs")
	files, err := fs.Glob(guides, "*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("guides: %v, %v", files, err)
	}
	want := []string{}
	for _, file := range files {
		want = append(want, "docs://"+file)
		page, err := fs.ReadFile(guides, file)
		if err != nil {
			t.Fatal(err)
		}
		out := r.docsRPC("resources/read", map[string]any{"uri": "docs://" + file})
		contents, _ := out.Result["contents"].([]any)
		if len(contents) != 1 {
			t.Fatalf("%s: %v, %v", file, out.Result, out.Error)
		}
		content, _ := contents[0].(map[string]any)
		if content["text"] != string(page) || content["mimeType"] != "text/markdown" {
			t.Errorf("%s is read as %v, %.80q", file, content["mimeType"], content["text"])
		}
	}
	if got := docsNames(t, r.docsRPC("resources/list", nil), "resources", "uri"); !slices.Equal(got, want) {
		t.Errorf("resources: %v\nwant %v", got, want)
	}
	for _, method := range []string{"tools/list", "resources/list", "prompts/list"} {
		message := docsMessage(t, method, nil)
		open, keyed := r.send(http.MethodPost, docsServer, message, stranger), r.send(http.MethodPost, docsServer, message)
		wrong := r.send(http.MethodPost, docsServer, message, as("wbk_nobody"))
		if !bytes.Equal(open.body, keyed.body) || !bytes.Equal(open.body, wrong.body) {
			t.Errorf("%s differs with a key:\n%s\n%s\n%s", method, open.body, keyed.body, wrong.body)
		}
	}
}

// What a search finds is read by its path, and no answer is longer than promised.
func TestDocsSearchAndRead(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	text, failed := r.docsTool("search_docs", arguments{"query": "How does a receiver verify the v1a signature?", "limit": 3})
	var found struct {
		Results []struct{ Path, Page, Section, Excerpt string }
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || failed || len(found.Results) != 3 {
		t.Fatalf("found: %v %s", err, text)
	}
	if !strings.HasPrefix(found.Results[0].Path, "receivers.md") {
		t.Errorf("first of all: %+v", found.Results[0])
	}
	for _, result := range found.Results {
		section, failed := r.docsTool("read_doc", arguments{"path": result.Path})
		if failed || !strings.Contains(section, result.Section) {
			t.Errorf("%s: %v %.80q", result.Path, failed, section)
		}
	}
	if text, _ := r.docsTool("search_docs", arguments{"query": "deliveries"}); strings.Count(text, `"path"`) != 8 {
		t.Errorf("without a limit: %s", text)
	}
	const longest = 32<<10 + 4<<10 // with the list of what is left out
	long, failed := r.docsTool("read_doc", arguments{"path": "operators.md"})
	if failed || len(long) > longest || !strings.Contains(long, "The rest is left out") || !strings.Contains(long, "- operators.md#") {
		t.Errorf("a long page has %d bytes: %v", len(long), failed)
	}
	for name, call := range map[string]struct {
		tool string
		args arguments
	}{
		"no query":               {"search_docs", arguments{}},
		"an empty query":         {"search_docs", arguments{"query": ""}},
		"a query of spaces":      {"search_docs", arguments{"query": "   "}},
		"a long query":           {"search_docs", arguments{"query": strings.Repeat("ä", 201)}},
		"a limit of nothing":     {"search_docs", arguments{"query": "key", "limit": 0}},
		"a limit of too many":    {"search_docs", arguments{"query": "key", "limit": 21}},
		"a limit that is a text": {"search_docs", arguments{"query": "key", "limit": "all"}},
		"an unknown argument":    {"search_docs", arguments{"query": "key", "account": "default"}},
		"no path":                {"read_doc", arguments{}},
		"no such page":           {"read_doc", arguments{"path": "secrets.md"}},
		"a climbing path":        {"read_doc", arguments{"path": "../config/policies.json"}},
		"an absolute path":       {"read_doc", arguments{"path": "/etc/passwd"}},
		"a decision's path":      {"read_doc", arguments{"path": "decisions/README.md"}},
		"a long path":            {"read_doc", arguments{"path": strings.Repeat("a", 201)}},
	} {
		if text, failed := r.docsTool(call.tool, call.args); !failed {
			t.Errorf("%s: %.200s", name, text)
		}
	}
	// The same bounds hold for who calls the routes by themselves.
	for path, status := range map[string]int{
		"/mcp/docs/search?query=key&limit=2":                      200,
		"/mcp/docs/search?query=key&limit=21":                     400,
		"/mcp/docs/search?query=" + strings.Repeat("a", 201):      400,
		"/mcp/docs/search":                                        400,
		"/mcp/docs/read?path=receivers.md":                        200,
		"/mcp/docs/read?path=nosuch.md":                           404,
		"/mcp/docs/read?path=" + strings.Repeat("a", 201) + ".md": 400,
		"/mcp/docs/pages/receivers":                               200,
		"/mcp/docs/pages/nosuch":                                  404,
	} {
		r.send(http.MethodGet, path, "", stranger).want(status)
	}
}

// Nothing of an account can be read by the server of the documentation, not even with its key.
func TestDocsServerKnowsNoAccount(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	const canary = "canaryofthetenant"
	hook := r.register(`{"url":"http://127.0.0.1:9/` + canary + `","events":["shipment.created"],"description":"` + canary + `"}`).text("id")
	r.bucket(canary)
	for _, key := range []tweak{stranger, as(adminKey)} {
		for _, name := range everyTool {
			a := r.send(http.MethodPost, docsServer, docsMessage(t, "tools/call", map[string]any{"name": name, "arguments": arguments{"id": hook}}), key)
			if !strings.Contains(string(a.want(http.StatusOK).body), `"code":-32602`) {
				t.Errorf("%s is a tool here: %s", name, a.body)
			}
		}
		for _, uri := range []string{"waybill://openapi", "waybill://receivers", "docs://../" + canary, "docs://" + hook} {
			a := r.send(http.MethodPost, docsServer, docsMessage(t, "resources/read", map[string]any{"uri": uri}), key)
			if !strings.Contains(string(a.body), `"error"`) {
				t.Errorf("%s is a resource here: %s", uri, a.body)
			}
		}
		a := r.send(http.MethodPost, docsServer, docsMessage(t, "tools/call", map[string]any{"name": "search_docs", "arguments": arguments{"query": canary}}), key)
		if !strings.Contains(string(a.body), `"results\":[]`) {
			t.Errorf("the search finds what is an account's: %s", a.body)
		}
	}
}

// The same requests are let in as by the server at /mcp, and refused in the same way.
func TestDocsServerAdmission(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	message := docsMessage(t, "tools/list", nil)
	host := func(name string) tweak { return func(r *http.Request) { r.Host = name } }
	for name, c := range map[string]struct {
		method, body string
		status       int
		tweaks       []tweak
	}{
		"as it should be":                {"POST", message, 200, nil},
		"as curl sends it":               {"POST", message, 200, []tweak{header("Content-Type", "application/x-www-form-urlencoded")}},
		"GET":                            {"GET", "", 405, nil},
		"DELETE":                         {"DELETE", "", 405, nil},
		"PUT":                            {"PUT", message, 405, nil},
		"a Host that was rebound":        {"POST", message, 403, []tweak{host("evil.example")}},
		"the page of another origin":     {"POST", message, 403, []tweak{header("Origin", "https://evil.example")}},
		"a form of a page":               {"POST", message, 415, []tweak{header("Content-Type", "application/x-www-form-urlencoded"), header("Sec-Fetch-Site", "cross-site")}},
		"another type":                   {"POST", message, 415, []tweak{header("Content-Type", "text/plain")}},
		"an answer in another type":      {"POST", message, 406, []tweak{header("Accept", "text/html")}},
		"what is no JSON":                {"POST", "{", 400, nil},
		"a long body":                    {"POST", `{"jsonrpc":"2.0","id":"` + strings.Repeat("x", 16<<10) + `","method":"ping"}`, 413, nil},
		"a body of the length there may": {"POST", `{"jsonrpc":"2.0","id":1,"method":"ping","params":{"x":"` + strings.Repeat("x", 16<<10-59) + `"}}`, 200, nil},
	} {
		a := r.send(c.method, docsServer, c.body, append([]tweak{stranger}, c.tweaks...)...)
		if a.status != c.status {
			t.Errorf("%s: %d %s, want %d", name, a.status, a.body, c.status)
		}
		if c.status == http.StatusMethodNotAllowed && a.header.Get("Allow") != http.MethodPost {
			t.Errorf("%s: Allow is %q", name, a.header.Get("Allow"))
		}
		// The key aside, the server at /mcp says the same, but takes longer bodies.
		if c.status == http.StatusRequestEntityTooLarge {
			continue
		}
		if beside := r.send(c.method, "/mcp", c.body, c.tweaks...); beside.status != a.status {
			t.Errorf("%s: %d, and %d of /mcp", name, a.status, beside.status)
		}
	}
}

// One address gets so many answers a minute, however it asks for them. The server of the
// account's operations has its own limits.
func TestDocsServerRate(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	one := docsMessage(t, "tools/call", map[string]any{"name": "read_doc", "arguments": arguments{"path": "lists.md"}})
	batch := "[" + strings.Repeat(one+",", 99) + one + "]"
	answered, limited := 0, 0
	for range 7 {
		a := r.send(http.MethodPost, docsServer, batch, stranger)
		if a.status == http.StatusTooManyRequests {
			break
		}
		answered += strings.Count(string(a.want(http.StatusOK).body), `"text":"# `)
		limited += strings.Count(string(a.body), "RATE_LIMITED")
	}
	refused := r.send(http.MethodPost, docsServer, one, stranger)
	if refused.status != http.StatusTooManyRequests || refused.header.Get("Retry-After") == "" {
		t.Errorf("after many calls: %d %s", refused.status, refused.header)
	}
	// Time goes on meanwhile, and brings ten more a second.
	if limited == 0 || answered < 500 || answered > 900 {
		t.Errorf("within batches: %d answered, %d refused", answered, limited)
	}
	r.send(http.MethodGet, "/mcp/docs/search?query=key", "", stranger).want(http.StatusTooManyRequests)
	if text, failed := r.tool(adminKey, "who_am_i", arguments{}); failed {
		t.Errorf("/mcp: %s", text)
	}
}
