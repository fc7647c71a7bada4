// Package docsite is the documentation that people read, at /docs: the guides of the folder docs,
// the references made from the API's documents, and an explanation of each kind of problem.
package docsite

import (
	"bytes"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"

	"github.com/swaggest/swgui/v5emb"

	"waybill.dev/docs"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/look"
	"waybill.dev/shared/problem"
)

//go:embed web
var web embed.FS

//go:embed templates/*.html
var templates embed.FS

// Policy is the Content-Security-Policy of the pages: they load nothing from other hosts and send
// nothing to them, and have no inline scripts or styles.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

// viewerPolicy is the policy of the page with Swagger UI, which sets styles in elements and draws
// its icons from data URLs.
const viewerPolicy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'"

const (
	contentHTML = "text/html; charset=utf-8"
	contentJSON = "application/json; charset=utf-8"
)

// Page is the content of a page or file, with its headers.
type Page struct {
	spec.Document

	Zipped []byte // the compressed body; nil: none
	Policy string // Content-Security-Policy
	Fixed  bool   // the content never changes under this name
}

// Site has all pages and files. They are made at the first request.
type Site struct {
	content func() (*content, error)
	viewer  http.Handler // the files of Swagger UI, compressed
}

// New returns the site for the documents.
func New(documents *spec.Documents) *Site {
	return &Site{
		content: sync.OnceValues(func() (*content, error) {
			c, err := build(documents)
			if err != nil {
				return nil, fmt.Errorf("make documentation: %w", err)
			}
			return c, nil
		}),
		viewer: v5emb.New("Waybill", "/openapi", "/docs/"),
	}
}

// content is the content of the site.
type content struct {
	layouts  map[string]*template.Template // by the name of the page's template
	assets   *look.Assets
	nav      []group
	pages    map[string]Page // by the end of their path; "" is the first page
	problems map[string]explained
	index    index
	zip      look.Zipper
}

func build(documents *spec.Documents) (*content, error) {
	c := &content{pages: make(map[string]Page), problems: make(map[string]explained)}
	var err error
	if c.assets, err = look.NewAssets("/docs/"); err != nil {
		return nil, err
	}
	if err := c.readLayouts(); err != nil {
		return nil, err
	}
	if err := c.readFiles(); err != nil {
		return nil, err
	}
	guides, err := readGuides(docs.Files())
	if err != nil {
		return nil, err
	}
	c.nav = navigation(guides)
	for _, add := range []func() error{
		func() error { return c.addGuides(guides) },
		func() error { return c.addOperations(documents.OpenAPI.Body) },
		func() error { return c.addBus(documents.AsyncAPI.Body) },
		c.addProblems,
	} {
		if err := add(); err != nil {
			return nil, err
		}
	}
	return c, nil
}

// readLayouts reads the templates: each page's, with the frame and the elements.
func (c *content) readLayouts() error {
	base, err := look.Parse(template.New("").Funcs(look.Functions(c.assets)).Funcs(template.FuncMap{"list": func(items ...any) []any { return items }}))
	if err != nil {
		return fmt.Errorf("read elements: %w", err)
	}
	c.layouts = make(map[string]*template.Template)
	names, err := fs.Glob(templates, "templates/*.html")
	if err != nil {
		return fmt.Errorf("list templates: %w", err)
	}
	for _, name := range names {
		set, err := base.Clone()
		if err == nil {
			set, err = set.ParseFS(templates, "templates/_frame.html", name)
		}
		if err != nil {
			return fmt.Errorf("read template: %w", err)
		}
		c.layouts[path.Base(name)] = set
	}
	return nil
}

// readFiles reads the static files: our own script and style, and the figures of the guides.
func (c *content) readFiles() error {
	for _, from := range []struct {
		files fs.FS
		dir   string
	}{{web, "web"}, {docs.Files(), "performance"}, {docs.Files(), "pictures"}} {
		entries, err := fs.ReadDir(from.files, from.dir)
		if err != nil {
			return fmt.Errorf("list files: %w", err)
		}
		for _, entry := range entries {
			body, err := fs.ReadFile(from.files, path.Join(from.dir, entry.Name()))
			if err != nil {
				return fmt.Errorf("read file: %w", err)
			}
			kind := map[string]string{".js": "text/javascript; charset=utf-8", ".css": "text/css; charset=utf-8", ".svg": "image/svg+xml", ".png": "image/png"}
			c.pages[entry.Name()] = c.newPage(body, kind[path.Ext(entry.Name())], figurePolicy)
		}
	}
	return nil
}

// figurePolicy is the policy of files. A figure that is opened directly has inline styles.
const figurePolicy = "default-src 'none'; style-src 'unsafe-inline'; frame-ancestors 'none'"

func (c *content) newPage(body []byte, contentType, policy string) Page {
	p := Page{Document: spec.NewDocument(body, contentType), Zipped: c.zip.Zip(body), Policy: policy}
	p.ETag = "W/" + p.ETag // weak, because the compressed body has the same tag
	return p
}

// frame is the data for the frame around a page.
type frame struct {
	Name   string // the end of the page's path
	Title  string
	Nav    []group
	TOC    []heading
	Search string
	Viewer bool // the page contains Swagger UI
	Data   any
}

// render returns a page in its frame.
func (c *content) render(layout string, f frame) (Page, error) {
	f.Nav = c.nav
	var b bytes.Buffer
	if err := c.layouts[layout].ExecuteTemplate(&b, "frame", f); err != nil {
		return Page{}, fmt.Errorf("write page %q: %w", f.Name, err)
	}
	policy := Policy
	if f.Viewer {
		policy = viewerPolicy
	}
	return c.newPage(b.Bytes(), contentHTML, policy), nil
}

// add puts a page at its path.
func (c *content) add(layout string, f frame) error {
	page, err := c.render(layout, f)
	c.pages[f.Name] = page
	return err
}

// Page returns a page or a file below /docs; ok is false when there is none. The name of the first
// page is empty.
func (s *Site) Page(name string) (page Page, ok bool, err error) {
	c, err := s.content()
	if err != nil {
		return page, false, err
	}
	if page, ok = c.pages[name]; ok {
		return page, true, nil
	}
	if asset, ok := c.assets.Find(name); ok {
		page = Page{Document: spec.NewDocument(asset.Plain, asset.ContentType), Zipped: asset.Zipped(), Policy: figurePolicy, Fixed: true}
		return page, true, nil
	}
	return page, false, nil
}

// Problem explains a kind of problem by its code or the end of its type: as a page, and as
// JSON. ok is false when there is no such kind.
func (s *Site) Problem(name string) (page Page, data spec.Document, ok bool, err error) {
	e, ok := problem.Explain(name)
	if !ok {
		return page, data, false, nil
	}
	c, err := s.content()
	if err != nil {
		return page, data, false, err
	}
	one := c.problems[e.Slug]
	return one.page, one.data, true, nil
}

// Viewer returns the handler for a file of Swagger UI, except its own page.
func (s *Site) Viewer(name string) (http.Handler, bool) {
	switch name {
	case "swagger-ui.css", "swagger-ui-bundle.js", "favicon-16x16.png", "favicon-32x32.png":
		return s.viewer, true
	}
	return nil, false
}

// maxWords is how many bytes of a search are used.
const maxWords = 200

// Search returns the page of results.
func (s *Site) Search(words string) (Page, error) {
	c, err := s.content()
	if err != nil {
		return Page{}, err
	}
	words = strings.TrimSpace(strings.ToValidUTF8(words[:min(len(words), maxWords)], ""))
	return c.render("search.html", frame{Name: "search", Title: "Search", Search: words, Data: c.index.find(words)})
}
