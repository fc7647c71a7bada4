package apipart_test

import (
	"encoding/json"
	"io/fs"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/docs"
)

// docs sends a message to the server of the documentation, without a key unless a tweak has one.
func (r *rig) docs(method string, params any, tweaks ...tweak) rpc {
	r.t.Helper()
	message, err := json.Marshal(map[string]any{"jsonrpc": "2.0", "id": "1", "method": method, "params": params})
	if err != nil {
		r.t.Fatal(err)
	}
	var out rpc
	r.send(http.MethodPost, "/mcp/docs", string(message), append([]tweak{without("Authorization")}, tweaks...)...).want(http.StatusOK).into(&out)
	return out
}

// reads calls a tool of the documentation.
func (r *rig) reads(name string, args arguments) (text string, failed bool) {
	r.t.Helper()
	out := r.docs("tools/call", map[string]any{"name": name, "arguments": args})
	if out.Error != nil {
		return out.Error.Message, true
	}
	failed, _ = out.Result["isError"].(bool)
	return out.Result["content"].([]any)[0].(map[string]any)["text"].(string), failed
}

// Whoever has no key searches and reads the documentation, and nothing else.
func TestDocsOverMCP(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	names := func(method, list, member string) []string {
		t.Helper()
		got := []string{}
		for _, entry := range r.docs(method, map[string]any{}).Result[list].([]any) {
			got = append(got, entry.(map[string]any)[member].(string))
		}
		return got
	}
	if got, want := names("tools/list", "tools", "name"), []string{"search_docs", "read_doc"}; !slices.Equal(got, want) {
		t.Errorf("tools %v, want %v", got, want)
	}
	if got := append(names("prompts/list", "prompts", "name"), names("resources/templates/list", "resourceTemplates", "name")...); len(got) > 0 {
		t.Errorf("prompts and templates %v", got)
	}
	var pages []string
	for _, name := range docs.Names() {
		pages = append(pages, "docs://"+name)
	}
	if got := names("resources/list", "resources", "uri"); !slices.Equal(got, pages) {
		t.Errorf("resources %v, want %v: run go generate in services/api/internal/spec", got, pages)
	}
	for _, name := range docs.Names() {
		want, err := fs.ReadFile(docs.Files(), name+".md")
		if err != nil {
			t.Fatal(err)
		}
		out := r.docs("resources/read", map[string]any{"uri": "docs://" + name})
		if out.Error != nil || out.Result["contents"].([]any)[0].(map[string]any)["text"] != string(want) {
			t.Errorf("docs://%s is not the page: %+v", name, out.Error)
		}
		if text, failed := r.reads("read_doc", arguments{"path": name}); failed || text != string(want) {
			t.Errorf("read_doc of %s: %v %.200s", name, failed, text)
		}
	}
}

// What a search finds can be read, and a section ends where the next one begins.
func TestSearchOfDocs(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	text, failed := r.reads("search_docs", arguments{"query": "Sequence GAP", "limit": 30})
	var found struct {
		Results []struct{ Path, Page, Section, Excerpt string } `json:"results"`
	}
	if err := json.Unmarshal([]byte(text), &found); err != nil || failed || len(found.Results) == 0 {
		t.Fatalf("search: %v %v %s", err, failed, text)
	}
	for _, p := range found.Results {
		section, failed := r.reads("read_doc", arguments{"path": p.Path})
		if failed || !strings.Contains(strings.ToLower(section), "gap") || !strings.HasPrefix(section, "#") {
			t.Errorf("%s: %v %.200s", p.Path, failed, section)
		}
		if strings.Contains(p.Path, "#") && strings.Contains(strings.SplitN(section, "\n", 2)[1], "\n"+strings.SplitN(section, " ", 2)[0]+" ") {
			t.Errorf("%s goes on after its end: %.2000s", p.Path, section)
		}
	}
	if one, failed := r.reads("search_docs", arguments{"query": "webhook", "limit": 1}); failed || strings.Count(one, `"path"`) != 1 {
		t.Errorf("one of many: %v %s", failed, one)
	}
	for name, args := range map[string]arguments{
		"search_docs": {"query": strings.Repeat("x", 201)}, "read_doc": {"path": "../secrets"},
	} {
		if text, failed := r.reads(name, args); !failed {
			t.Errorf("%s %v: %s", name, args, text)
		}
	}
	for path, status := range map[string]int{
		"/mcp/docs/search?query=": 400, "/mcp/docs/search?query=a&limit=31": 400, "/mcp/docs/search?query=a&other=1": 400,
		"/mcp/docs/page?path=receivers%23nothing": 404, "/mcp/docs/page?path=receivers.md": 200, "/mcp/docs/pages/receivers": 200, "/mcp/docs/pages/nothing": 404,
	} {
		r.send(http.MethodGet, path, "", without("Authorization")).want(status)
	}
}

// A key changes nothing: the same bytes for whoever asks.
func TestDocsTellNothingOfAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.register(plainWebhook)
	for _, message := range []struct {
		method string
		params any
	}{
		{"tools/list", map[string]any{}}, {"resources/list", map[string]any{}}, {"tools/call", map[string]any{"name": "search_docs", "arguments": arguments{"query": "webhook"}}},
		{"tools/call", map[string]any{"name": "list_webhooks", "arguments": arguments{}}}, {"resources/read", map[string]any{"uri": "waybill://openapi"}},
	} {
		nobody, admin, stranger := r.docs(message.method, message.params), r.docs(message.method, message.params, as(adminKey)), r.docs(message.method, message.params, as("wbk_wrong"))
		for who, got := range map[string]rpc{"the admin": admin, "a wrong key": stranger} {
			if diff := cmp.Diff(nobody, got); diff != "" {
				t.Errorf("%s tells %s something else (-nobody +them):\n%s", message.method, who, diff)
			}
		}
	}
}
