package docsite_test

import (
	"io/fs"
	"slices"
	"strings"
	"testing"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/docsite"
)

// What a search finds can be read, and what is read is there.
func TestLibrarySearch(t *testing.T) {
	t.Parallel()
	l := docsite.NewLibrary()
	for question, first := range map[string]string{
		"How do I verify the signature of a callback?": "receivers.md",
		"WAYBILL_RETENTION":                            "operators.md",
		"rate-limit-inbound options":                   "policies.md",
		"cursor of a feed":                             "feed.md",
	} {
		hits, err := l.Search(question, 5)
		if err != nil || len(hits) == 0 || len(hits) > 5 {
			t.Fatalf("%q: %v, %v", question, hits, err)
		}
		if !slices.ContainsFunc(hits, func(h docsite.Hit) bool { return strings.HasPrefix(h.Path, first) }) {
			t.Errorf("%q is not found in %s: %+v", question, first, hits)
		}
		for _, hit := range hits {
			read, ok, err := l.Read(hit.Path, 0)
			if err != nil || !ok || read.Markdown == "" || hit.Title == "" || hit.Section == "" {
				t.Errorf("%q: %+v reads as %v, %v", question, hit, ok, err)
			}
			if !strings.Contains(read.Markdown, "# ") {
				t.Errorf("%s has no heading: %.80q", hit.Path, read.Markdown)
			}
		}
	}
	for _, nothing := range []string{"", "  \n", "?", "zzqxwv"} {
		if hits, err := l.Search(nothing, 5); err != nil || hits == nil || len(hits) != 0 {
			t.Errorf("%q: %v, %v", nothing, hits, err)
		}
	}
}

// A guide is read as it is written, however its path is written.
func TestLibraryRead(t *testing.T) {
	t.Parallel()
	l := docsite.NewLibrary()
	guides, err := l.Guides()
	files, _ := fs.Glob(docs.Files(), "*.md")
	if err != nil || len(guides) != len(files) {
		t.Fatalf("%d guides, %d files: %v", len(guides), len(files), err)
	}
	for _, g := range guides {
		want, err := fs.ReadFile(docs.Files(), g.Path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(g.Path, ".md")
		for _, path := range []string{g.Path, name, "docs://" + g.Path, "/docs/" + name, g.Path + "#"} {
			if got, ok, err := l.Read(path, 0); err != nil || !ok || got.Markdown != string(want) {
				t.Errorf("%s: %v, %v", path, ok, err)
			}
		}
		if g.Title == "" || g.Lede == "" {
			t.Errorf("%s has no title or no first paragraph", g.Path)
		}
	}
	for _, missing := range []string{"", ".md", "nosuch.md", "../go.work", "/etc/passwd", "receivers.md#nosuch", "docs.go", "performance/latency.svg", "decisions/README.md", "receivers.md/../access.md"} {
		if got, ok, err := l.Read(missing, 0); ok || err != nil {
			t.Errorf("%q: %.60q, %v", missing, got.Markdown, err)
		}
	}
}

// What is too long is cut before a heading, and the rest is named; together it is the whole.
func TestLibraryParts(t *testing.T) {
	t.Parallel()
	l := docsite.NewLibrary()
	guides, err := l.Guides()
	if err != nil {
		t.Fatal(err)
	}
	const size = 4000
	for _, g := range guides {
		whole, _, _ := l.Read(g.Path, 0)
		got, ok, err := l.Read(g.Path, size)
		if err != nil || !ok || len(got.Markdown) > size || got.Markdown == "" || !strings.HasPrefix(whole.Markdown, got.Markdown) {
			t.Fatalf("%s: %d bytes, %v, %v", g.Path, len(got.Markdown), ok, err)
		}
		if len(got.Markdown) == len(whole.Markdown) {
			continue
		}
		if len(got.Rest) == 0 {
			t.Fatalf("%s: nothing leads to the rest", g.Path)
		}
		next, ok, err := l.Read(got.Rest[0], 0)
		if err != nil || !ok || !strings.HasPrefix(whole.Markdown[len(got.Markdown):], next.Markdown) {
			t.Errorf("%s is not what comes next: %v, %v", got.Rest[0], ok, err)
		}
		for _, path := range got.Rest {
			if rest, ok, err := l.Read(path, 0); err != nil || !ok || !strings.HasPrefix(rest.Markdown, "#") {
				t.Errorf("%s: %v, %v", path, ok, err)
			}
		}
	}
}
