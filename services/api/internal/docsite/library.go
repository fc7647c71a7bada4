package docsite

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"

	"waybill.dev/docs"
)

// Library has the guides as text, for programs. It is made when it is first asked.
type Library struct{ content func() (*shelf, error) }

type shelf struct {
	index index
	texts map[string]string  // Markdown by the name of the guide
	parts map[string][]entry // of each guide
}

// NewLibrary returns the library of the guides.
func NewLibrary() *Library {
	return &Library{sync.OnceValues(func() (*shelf, error) {
		s, err := newShelf(docs.Files())
		if err != nil {
			return nil, fmt.Errorf("make library: %w", err)
		}
		return s, nil
	})}
}

func newShelf(files fs.FS) (*shelf, error) {
	guides, err := readGuides(files)
	if err != nil {
		return nil, err
	}
	s := &shelf{texts: make(map[string]string), parts: make(map[string][]entry)}
	for _, g := range guides {
		text, err := fs.ReadFile(files, g.Name+".md")
		if err != nil {
			return nil, fmt.Errorf("read guide: %w", err)
		}
		s.texts[g.Name], s.parts[g.Name] = string(text), g.sections
		s.index.add(g.sections...)
	}
	return s, nil
}

// Passage is a section of a guide that has the words of a search.
type Passage struct {
	Path    string // guide, or guide#section, as Read takes it
	Page    string // title of the guide
	Section string // its heading
	Excerpt string // words around the first hit
}

// Find returns the sections that have all the words in them, the best first, at most limit.
func (l *Library) Find(words string, limit int) ([]Passage, error) {
	s, err := l.content()
	if err != nil {
		return nil, err
	}
	found := s.index.find(words)
	passages := make([]Passage, 0, min(limit, len(found)))
	for _, f := range found[:min(limit, len(found))] {
		passages = append(passages, Passage{strings.TrimPrefix(f.Path, "/docs/"), f.Page, f.Title, f.Before + f.Hit + f.After})
	}
	return passages, nil
}

// Read returns the Markdown of a guide, or of one of its sections with those below it. ok is false
// when there is no such guide or section.
func (l *Library) Read(path string) (text string, ok bool, err error) {
	s, err := l.content()
	if err != nil {
		return "", false, err
	}
	name, _, part := strings.Cut(path, "#")
	text, ok = s.texts[name]
	if !part || !ok {
		return text, ok, nil
	}
	parts := s.parts[name]
	at := slices.IndexFunc(parts, func(e entry) bool { return e.Path == "/docs/"+path })
	if at < 0 {
		return "", false, nil
	}
	for _, next := range parts[at+1:] {
		if next.level <= parts[at].level {
			return text[parts[at].from:next.from], true, nil
		}
	}
	return text[parts[at].from:], true, nil
}
