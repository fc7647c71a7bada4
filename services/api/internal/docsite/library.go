package docsite

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"github.com/yuin/goldmark/ast"
	"github.com/yuin/goldmark/text"

	"waybill.dev/docs"
)

// Library gives programs the guides of the folder docs: the Markdown of a guide or a section, and a search. It has
// no data of any account. The first search reads all guides.
type Library struct {
	files   fs.FS
	shelves func() (*shelves, error)
}

// NewLibrary returns the library of the guides that are in the binary.
func NewLibrary() *Library {
	files := docs.Files()
	return &Library{files, sync.OnceValues(func() (*shelves, error) { return readShelves(files) })}
}

// Guide is one of the library.
type Guide struct {
	Path  string // NAME.md
	Title string
	Lede  string // its first paragraph, as text
}

// Hit is a section that a search found.
type Hit struct {
	// Path leads to the section: NAME.md, or NAME.md#ID.
	Path    string
	Title   string // title of the guide
	Section string // heading of the section
	Excerpt string // text around the first word that was found
}

type shelves struct {
	guides []Guide
	index  index
}

// manuscript is the Markdown of a guide.
type manuscript struct {
	text  string
	marks []mark // in the order of the text
}

// mark is the beginning of a section, with its heading.
type mark struct {
	id    string
	level int
	at    int
}

func readShelves(files fs.FS) (*shelves, error) {
	guides, err := readGuides(files)
	if err != nil {
		return nil, err
	}
	s := &shelves{}
	for _, g := range guides {
		s.guides = append(s.guides, Guide{Path: g.Name + markdownFile, Title: g.Title, Lede: g.Lede})
		s.index.add(g.sections...)
	}
	return s, nil
}

// marksOf returns the headings of a guide.
func marksOf(root ast.Node, source []byte) []mark {
	var marks []mark
	for node := root.FirstChild(); node != nil; node = node.NextSibling() {
		h, ok := node.(*ast.Heading)
		if !ok || h.Lines().Len() == 0 {
			continue
		}
		id, _ := h.AttributeString("id")
		// The node begins after the characters that make it a heading.
		at := bytes.LastIndexByte(source[:h.Lines().At(0).Start], '\n') + 1
		marks = append(marks, mark{fmt.Sprintf("%s", id), h.Level, at})
	}
	return marks
}

// Guides returns the guides in the order of their names.
func (l *Library) Guides() ([]Guide, error) {
	s, err := l.shelves()
	if err != nil {
		return nil, err
	}
	return s.guides, nil
}

// Search returns up to limit sections that have some of the words. Sections with more words, and with rarer ones,
// come first.
func (l *Library) Search(words string, limit int) ([]Hit, error) {
	s, err := l.shelves()
	if err != nil {
		return nil, err
	}
	hits := []Hit{}
	for _, f := range s.index.rank(words, limit) {
		name, section, isPart := strings.Cut(strings.TrimPrefix(f.Path, guidesPath), "#")
		path := name + markdownFile
		if isPart {
			path += "#" + section
		}
		hits = append(hits, Hit{Path: path, Title: f.Page, Section: f.Title, Excerpt: f.Before + f.Hit + f.After})
	}
	return hits, nil
}

const (
	markdownFile = ".md"
	guidesPath   = "/docs/"
)

// Scheme begins the uris of the guides: docs://receivers.md.
const Scheme = "docs://"

// Reading is the Markdown of a guide or of a section.
type Reading struct {
	Markdown string
	// Rest has the paths of the sections that were left out because the text was too long.
	Rest []string
}

// Read returns the Markdown of a guide, or of a section with its subsections. It returns at most size bytes; 0 means
// no limit. The path is that of a Hit or a Guide. The form of links between pages works too. ok is false if there is no
// such guide or section.
func (l *Library) Read(path string, size int) (r Reading, ok bool, err error) {
	name, section, _ := strings.Cut(path, "#")
	name = strings.TrimPrefix(strings.TrimPrefix(name, Scheme), guidesPath)
	name = strings.TrimSuffix(name, markdownFile) + markdownFile
	source, err := fs.ReadFile(l.files, name)
	switch {
	case errors.Is(err, fs.ErrNotExist), errors.Is(err, fs.ErrInvalid):
		return r, false, nil
	case err != nil:
		return r, false, fmt.Errorf("read guide: %w", err)
	case section == "" && (size == 0 || len(source) <= size):
		return Reading{Markdown: string(source)}, true, nil // without reading the other guides
	}
	page := manuscript{string(source), marksOf(newMarkdown(nil).Parser().Parse(text.NewReader(source)), source)}
	from, to, ok := page.section(section)
	if !ok {
		return r, false, nil
	}
	if size == 0 || to-from <= size {
		return Reading{Markdown: page.text[from:to]}, true, nil
	}
	end, rest := page.cut(from, to, size)
	r.Markdown = page.text[from:end]
	for _, m := range rest {
		r.Rest = append(r.Rest, name+"#"+m.id)
	}
	return r, true, nil
}

// section returns where a section with its subsections begins and ends. Without an id, that is the whole text.
func (m manuscript) section(id string) (from, to int, ok bool) {
	if id == "" {
		return 0, len(m.text), true
	}
	for i, first := range m.marks {
		if first.id != id {
			continue
		}
		for _, next := range m.marks[i+1:] {
			if next.level <= first.level {
				return first.at, next.at, true
			}
		}
		return first.at, len(m.text), true
	}
	return 0, 0, false
}

// cut shortens the text between from and to, so that it has at most size bytes. It returns the new end, which is before a
// heading or else at the end of a line, and the headings that are left out.
func (m manuscript) cut(from, to, size int) (end int, rest []mark) {
	for _, next := range m.marks {
		switch {
		case next.at <= from || next.at >= to:
		case next.at <= from+size:
			end, rest = next.at, []mark{next}
		default:
			rest = append(rest, next)
		}
	}
	if end == 0 {
		end = from + strings.LastIndexByte(m.text[from:from+size], '\n') + 1
	}
	return end, rest
}
