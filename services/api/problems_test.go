package api_test

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"net/http"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// problemCodes are those that the code knows, whether somebody has explained them or not.
func problemCodes(t *testing.T) (codes []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("..", "..", "shared", "problem", "problem.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Code" {
			code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			codes = append(codes, code)
		}
		return true
	})
	if len(codes) < 13 {
		t.Fatalf("only %d codes are found: %v", len(codes), codes)
	}
	return codes
}

// Each kind of problem is explained, to browsers and to programs, where its type leads.
func TestProblemsAreExplained(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	browser := header("Accept", "text/html,application/xhtml+xml,*/*;q=0.8")
	list := string(r.do(http.MethodGet, "/docs/problems", "", without("Authorization")).want(http.StatusOK).body)
	seen := make(map[string]string)
	for _, code := range problemCodes(t) {
		slug := strings.ReplaceAll(strings.ToLower(code), "_", "-")
		data := r.do(http.MethodGet, "/problems/"+slug, "", without("Authorization")).want(http.StatusOK).field("code", code).field("type", "/problems/"+slug)
		if data.header.Get("Vary") != "Accept" || data.header.Get("Content-Type") != "application/json; charset=utf-8" {
			t.Errorf("%s: header %v", code, data.header)
		}
		example, _ := data.object()["sample"].(map[string]any)
		if example["code"] != code || fmt.Sprint(example["status"]) != fmt.Sprint(data.object()["status"]) {
			t.Errorf("the example of %s is %v", code, example)
		}
		meaning := data.text("meaning")
		if meaning == "" {
			t.Errorf("%s has no meaning", code)
		}
		if other := seen[meaning]; other != "" {
			t.Errorf("%s means what %q means", code, other)
		}
		seen[meaning] = code
		for _, name := range []string{slug, code, strings.ToLower(code)} {
			page := r.do(http.MethodGet, "/problems/"+name, "", browser, without("Authorization")).want(http.StatusOK)
			text := string(page.body)
			if got := page.header.Get("Content-Type"); got != "text/html; charset=utf-8" {
				t.Errorf("page of %s: Content-Type %q", name, got)
			}
			if got := page.header.Get("Content-Security-Policy"); !strings.HasPrefix(got, "default-src 'none'") {
				t.Errorf("page of %s: policy %q", name, got)
			}
			if !strings.Contains(text, "<code>"+code+"</code>") {
				t.Errorf("page of %s does not name the code:\n%s", name, text)
			}
			for _, never := range []string{"://", "<script>"} {
				if strings.Contains(text, never) {
					t.Errorf("page of %s has %s in it:\n%s", name, never, text)
				}
			}
			r.do(http.MethodGet, "/problems/"+name, "", browser, header("If-None-Match", page.header.Get("ETag"))).want(http.StatusNotModified)
		}
		if !strings.Contains(list, `href="/problems/`+slug+`"`) {
			t.Errorf("%s is not in the list", code)
		}
	}
	// A problem leads there itself, this one for one.
	unknown := r.do(http.MethodGet, "/problems/none", "").want(http.StatusNotFound)
	r.do(http.MethodGet, unknown.text("type"), "").want(http.StatusOK).field("code", unknown.text("code"))
	for _, name := range []string{"", "-", "not-found/x", "..%2fnot-found", "NOT FOUND"} {
		if a := r.send(http.MethodGet, "/problems/"+strings.ReplaceAll(name, " ", "%20"), ""); a.status != http.StatusNotFound {
			t.Errorf("%q: %d", name, a.status)
		}
	}
	if docs := string(r.do(http.MethodGet, "/docs", "").body); !strings.Contains(docs, `href="/docs/problems"`) {
		t.Error("the problems can't be found from /docs")
	}
}

// The names by which documents are often asked for are answered too, without a key.
func TestDocumentsByOtherNames(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	for alias, path := range map[string]string{"/openapi.json": "/openapi", "/asyncapi.json": "/asyncapi", "/docs/": "/docs"} {
		want := r.do(http.MethodGet, path, "").want(http.StatusOK)
		got := r.send(http.MethodGet, alias, "", without("Authorization"))
		if got.status != http.StatusOK {
			t.Errorf("%s: status %d", alias, got.status)
		}
		if !bytes.Equal(got.body, want.body) {
			t.Errorf("%s is another document than %s", alias, path)
		}
		for _, name := range []string{"ETag", "Content-Security-Policy"} {
			if got, want := got.header.Get(name), want.header.Get(name); got != want {
				t.Errorf("%s: %s %q, want %q", alias, name, got, want)
			}
		}
		if a := r.send(http.MethodPost, alias, ""); a.status != http.StatusMethodNotAllowed {
			t.Errorf("POST %s: %d", alias, a.status)
		}
	}
}
