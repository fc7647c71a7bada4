package docsite_test

import (
	"io/fs"
	"path"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/docsite"
	"waybill.dev/services/api/internal/spec"
)

func site(t *testing.T) *docsite.Site {
	t.Helper()
	documents, err := spec.New()
	if err != nil {
		t.Fatal(err)
	}
	return docsite.New(documents)
}

func read(t *testing.T, s *docsite.Site, name string) string {
	t.Helper()
	page, ok, err := s.Page(name)
	if err != nil || !ok {
		t.Fatalf("page %q: found %v, %v", name, ok, err)
	}
	return string(page.Body)
}

// names are those of all pages: the first one, the guides and the references.
func names(t *testing.T) []string {
	t.Helper()
	files, err := fs.Glob(docs.Files(), "*.md")
	if err != nil || len(files) < 10 {
		t.Fatalf("the guides are %v, %v", files, err)
	}
	all := []string{"", "http", "asyncapi", "problems"}
	for _, file := range files {
		all = append(all, strings.TrimSuffix(file, ".md"))
	}
	return all
}

var (
	leads = regexp.MustCompile(`(?:href|src)="([^"]*)"`)
	ids   = regexp.MustCompile(` id="([^"]*)"`)
)

// Every link leads to something that is there, down to the heading, and every page can be reached
// from every other.
func TestLinks(t *testing.T) {
	t.Parallel()
	s := site(t)
	anchors := make(map[string]map[string]bool)
	for _, name := range names(t) {
		anchors[name] = make(map[string]bool)
		for _, id := range ids.FindAllStringSubmatch(read(t, s, name), -1) {
			if anchors[name][id[1]] {
				t.Errorf("%q has the id %s twice", name, id[1])
			}
			anchors[name][id[1]] = true
		}
	}
	for _, name := range names(t) {
		text := read(t, s, name)
		for _, other := range names(t)[1:] {
			if !strings.Contains(text, `href="/docs/`+other+`"`) {
				t.Errorf("%q does not lead to %q", name, other)
			}
		}
		for _, match := range leads.FindAllStringSubmatch(text, -1) {
			file, fragment, _ := strings.Cut(match[1], "#")
			to := strings.TrimPrefix(strings.TrimPrefix(file, "/docs"), "/")
			switch {
			case strings.HasPrefix(file, "https://"):
				continue
			case file == "":
				to = name
			case !strings.HasPrefix(file, "/docs"):
				if file != "/openapi" && file != "/asyncapi" && file != "/console" && !strings.HasPrefix(file, "/problems/") {
					t.Errorf("%q leads to %s", name, match[1])
				}
				continue
			}
			if _, ok := s.Viewer(to); ok {
				continue
			}
			if _, ok, _ := s.Page(to); !ok {
				t.Errorf("%q leads to %s, which is not there", name, match[1])
			} else if fragment != "" && !anchors[to][fragment] && to != "http" {
				t.Errorf("%q leads to %s, and there is no such heading", name, match[1])
			}
		}
	}
}

// A page is small, says what it may load, and has neither script nor style in it.
func TestPagesAreBare(t *testing.T) {
	t.Parallel()
	s := site(t)
	for _, name := range names(t) {
		page, _, _ := s.Page(name)
		if len(page.Zipped) > 60<<10 {
			t.Errorf("%q has %d bytes compressed", name, len(page.Zipped))
		}
		if strings.Contains(page.Policy, "unsafe-inline") != (name == "http") || !strings.HasPrefix(page.Policy, "default-src 'none'; script-src 'self';") {
			t.Errorf("the policy of %q is %s", name, page.Policy)
		}
		for _, never := range []string{"<script>", "<style", " style=", " onclick=", "raw HTML omitted"} {
			if strings.Contains(string(page.Body), never) {
				t.Errorf("%q has %s in it", name, never)
			}
		}
	}
}

// Each kind of thing is found, by words in any order and case, and leads to its place.
func TestSearch(t *testing.T) {
	t.Parallel()
	s := site(t)
	for words, want := range map[string]string{
		"ROTATING secret":        "/docs/receivers#rotating-the-secret", // a section of a guide
		"hold queue":             "/docs/glossary",
		"registerWebhook":        "/docs/http#/Webhooks/registerWebhook", // an operation
		"REJECTED stream reject": "/docs/asyncapi#rejectMessage",         // an operation of the bus
		"RATE_LIMITED":           "/problems/rate-limited",               // a problem
	} {
		page, err := s.Search(words)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(page.Body), `<li><a href="`+want) {
			t.Errorf("%s does not find %s:\n%s", words, want, results(string(page.Body)))
		}
	}
	for _, words := range []string{"", "  ", "nothing has this word xyzzy", `<script>alert(1)</script>"`, strings.Repeat("é", 500), "\xff"} {
		page, err := s.Search(words)
		if err != nil {
			t.Fatal(err)
		}
		if text := string(page.Body); strings.Contains(text, "<script>") || strings.Contains(text, `<ul class="results">`) {
			t.Errorf("%q: %s", words, results(text))
		}
	}
}

func results(page string) string {
	_, list, _ := strings.Cut(page, `id="results"`)
	list, _, _ = strings.Cut(list, "</main>")
	return list
}

// Code is copied as one would type it.
func TestCodeIsCopied(t *testing.T) {
	t.Parallel()
	text := read(t, site(t), "access")
	if !strings.Contains(text, "<code>$ export WAYBILL_SERVER=") || !strings.Contains(text, `<wb-copy data-text="export WAYBILL_SERVER=`) {
		t.Error("the commands of a session are not copied without their prompts")
	}
}

// Figures of the guides are served, and what stands beside the pages is not.
func TestFigures(t *testing.T) {
	t.Parallel()
	s := site(t)
	for guide, kind := range map[string]struct{ extension, contentType string }{"performance": {".svg", "image/svg+xml"}, "console": {".png", "image/png"}} {
		figures := regexp.MustCompile(`<img src="/docs/([^"]*)"`).FindAllStringSubmatch(read(t, s, guide), -1)
		if len(figures) == 0 {
			t.Fatalf("%s has no figures", guide)
		}
		for _, figure := range figures {
			if page, ok, _ := s.Page(figure[1]); !ok || page.ContentType != kind.contentType || path.Ext(figure[1]) != kind.extension {
				t.Errorf("%s: found %v, %s", figure[1], ok, page.ContentType)
			}
		}
	}
	for _, name := range []string{"receivers.md", "docs.go", "_frame.html", "guide.html", "decisions"} {
		if _, ok, _ := s.Page(name); ok {
			t.Errorf("%s is served", name)
		}
	}
}
