package spec

import (
	"embed"
	"fmt"
	"net/http"
	"path"
	"strings"

	"github.com/swaggest/swgui/v5emb"
)

//go:embed web
var web embed.FS

// Policy is the Content-Security-Policy of the pages: nothing comes from elsewhere, nothing
// is sent elsewhere, and no script stands in a page. Swagger UI sets styles in elements and
// draws its icons from data URLs.
const Policy = "default-src 'none'; script-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; " +
	"connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"

// pages shows the documents to people, below /docs.
type pages struct {
	own    map[string]Document
	assets http.Handler // of Swagger UI, compressed
}

func readPages() (pages, error) {
	p := pages{own: make(map[string]Document), assets: v5emb.New("Waybill", "/openapi", "/docs/")}
	files, err := web.ReadDir("web")
	if err != nil {
		return p, fmt.Errorf("list pages: %w", err)
	}
	for _, file := range files {
		body, err := web.ReadFile(path.Join("web", file.Name()))
		if err != nil {
			return p, fmt.Errorf("read page: %w", err)
		}
		name, contentType := file.Name(), ""
		switch path.Ext(name) {
		case ".html":
			name, contentType = strings.TrimSuffix(name, ".html"), contentHTML
		case ".js":
			contentType = "text/javascript; charset=utf-8"
		case ".css":
			contentType = "text/css; charset=utf-8"
		}
		p.own[name] = document(body, contentType)
	}
	return p, nil
}

// Page returns a page or a file of our own; "index" is the first page.
func (p pages) Page(name string) (Document, bool) {
	d, ok := p.own[name]
	return d, ok
}

// Asset returns what serves the file of Swagger UI; its own page is not among those.
func (p pages) Asset(name string) (http.Handler, bool) {
	switch name {
	case "swagger-ui.css", "swagger-ui-bundle.js", "favicon-16x16.png", "favicon-32x32.png":
		return p.assets, true
	}
	return nil, false
}
