// Package documents serves the documentation of the API: its documents, the pages that show them,
// and an explanation of each problem.
package documents

import (
	"net/http"
	"strings"

	"waybill.dev/services/api/internal/docsite"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/look"
)

// Routes returns the operations. They need no key: their content is public.
func Routes(documents *spec.Documents) []web.Route {
	h := &handlers{documents, docsite.New(documents)}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/openapi", Aliases: []string{"/openapi.json"},
			Operation: "getOpenAPI", Handle: h.openAPI,
		},
		{
			Method: http.MethodGet, Path: "/asyncapi", Aliases: []string{"/asyncapi.json"},
			Operation: "getAsyncAPI", Handle: h.asyncAPI,
		},
		{
			Method: http.MethodGet, Path: "/docs", Aliases: []string{"/docs/"},
			Operation: "showDocs", Handle: h.index,
		},
		{
			Method: http.MethodGet, Path: "/docs/{file}",
			Operation: "getDocsFile", Handle: h.file,
		},
		{
			Method: http.MethodGet, Path: "/problems/{code}",
			Operation: "explainProblem", Handle: h.problem,
		},
	}
}

type handlers struct {
	documents *spec.Documents
	site      *docsite.Site
}

func (h *handlers) openAPI(c *web.Call) error { return show(c, h.documents.OpenAPIAt(c.Link(""))) }

func (h *handlers) asyncAPI(c *web.Call) error { return show(c, h.documents.AsyncAPI) }

// show answers with d, or with 304 when the caller has it already.
func show(c *web.Call, d spec.Document) error {
	header := c.Writer.Header()
	header.Set("Cache-Control", "no-cache") // may be cached, and is revalidated
	header.Set("ETag", d.ETag)
	if matchesETag(c.Request.Header.Values("If-None-Match"), d.ETag) {
		return c.Bare(http.StatusNotModified)
	}
	c.Write(http.StatusOK, d.ContentType, d.Body)
	return nil
}

// matchesETag reports whether one of the tags of If-None-Match is that of the current version.
func matchesETag(values []string, tag string) bool {
	tag = strings.TrimPrefix(tag, "W/")
	for _, value := range values {
		for given := range strings.SplitSeq(value, ",") {
			if given = strings.TrimPrefix(strings.TrimSpace(given), "W/"); given == tag || given == "*" {
				return true
			}
		}
	}
	return false
}

// problem explains a kind of problem: to browsers as a page, to others as JSON.
func (h *handlers) problem(c *web.Call) error {
	page, data, ok, err := h.site.Problem(c.Param("code"))
	if err != nil {
		return err
	}
	if !ok {
		return domain.ErrNotFound
	}
	c.Writer.Header().Set("Vary", "Accept")
	if !strings.Contains(strings.Join(c.Request.Header.Values("Accept"), ","), "text/html") {
		return show(c, data)
	}
	return showPage(c, page)
}

// showPage answers with a page and the headers that say from where the browser may load resources.
func showPage(c *web.Call, page docsite.Page) error {
	header := c.Writer.Header()
	header.Set("Content-Security-Policy", page.Policy)
	header.Add("Vary", "Accept-Encoding")
	if page.Fixed {
		header.Set("Cache-Control", "public, max-age=31536000, immutable")
		header.Set("Content-Type", page.ContentType)
		look.Send(c.Writer, c.Request, http.StatusOK, page.Body, page.Zipped)
		return nil
	}
	if page.Zipped != nil && look.AcceptsGzip(c.Request) {
		header.Set("Content-Encoding", "gzip")
		page.Body = page.Zipped
	}
	return show(c, page.Document)
}

func (h *handlers) index(c *web.Call) error { return h.show(c, "") }

func (h *handlers) file(c *web.Call) error {
	name := c.Param("file")
	if asset, ok := h.site.Viewer(name); ok {
		c.Writer.Header().Set("Cache-Control", "no-cache")
		asset.ServeHTTP(c.Writer, c.Request)
		return nil
	}
	if name == "search" {
		words, _ := c.Query().Text("q")
		if err := c.Query().Err(); err != nil {
			return err
		}
		page, err := h.site.Search(words)
		if err != nil {
			return err
		}
		return showPage(c, page)
	}
	return h.show(c, name)
}

// show shows a page by its name; the name of the first page is empty.
func (h *handlers) show(c *web.Call, name string) error {
	page, ok, err := h.site.Page(name)
	if err != nil {
		return err
	}
	if !ok {
		return domain.ErrNotFound
	}
	return showPage(c, page)
}
