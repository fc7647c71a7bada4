// Package documents serves what there is to read about the API: its documents, the pages that
// show them, and what each problem means.
package documents

import (
	"net/http"
	"strings"

	"waybill.dev/services/api/internal/spec"
	"waybill.dev/services/api/internal/web"
	"waybill.dev/shared/domain"
)

// Routes returns the operations. They are open to all: what is said there is no secret.
func Routes(documents *spec.Documents) []web.Route {
	h := &handlers{documents}
	return []web.Route{
		{
			Method: http.MethodGet, Path: "/openapi", Aliases: []string{"/openapi.json"},
			Operation: "getOpenAPI", Summary: "Returns the document of these operations.", Success: http.StatusOK, Handle: h.openAPI,
		},
		{
			Method: http.MethodGet, Path: "/asyncapi", Aliases: []string{"/asyncapi.json"},
			Operation: "getAsyncAPI", Summary: "Returns the document of the bus.", Success: http.StatusOK, Handle: h.asyncAPI,
		},
		{
			Method: http.MethodGet, Path: "/docs", Aliases: []string{"/docs/"},
			Operation: "showDocs", Summary: "Shows these operations as a page, to read and to try.", Success: http.StatusOK, Handle: h.index,
		},
		{
			Method: http.MethodGet, Path: "/docs/{file}",
			Operation: "getDocsFile", Summary: "Returns a file of the reference pages.", Success: http.StatusOK, Handle: h.file,
		},
		{
			Method: http.MethodGet, Path: "/problems/{code}",
			Operation: "explainProblem", Summary: "Explains a kind of problem.", Success: http.StatusOK, Handle: h.problem,
		},
	}
}

type handlers struct{ documents *spec.Documents }

func (h *handlers) openAPI(c *web.Call) error { return show(c, h.documents.OpenAPIAt(c.Link(""))) }

func (h *handlers) asyncAPI(c *web.Call) error { return show(c, h.documents.AsyncAPI) }

// show answers with d, or with 304 when the caller has it already.
func show(c *web.Call, d spec.Document) error {
	header := c.Writer.Header()
	header.Set("Cache-Control", "no-cache") // may be kept, and is asked for again
	header.Set("ETag", d.ETag)
	if holds(c.Request.Header.Values("If-None-Match"), d.ETag) {
		return c.Bare(http.StatusNotModified)
	}
	c.Write(http.StatusOK, d.ContentType, d.Body)
	return nil
}

// holds reports whether one of the tags of If-None-Match is that of the present version.
func holds(values []string, tag string) bool {
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
	page, data, ok := h.documents.Problem(c.Param("code"))
	if !ok {
		return domain.ErrNotFound
	}
	c.Writer.Header().Set("Vary", "Accept")
	if !strings.Contains(strings.Join(c.Request.Header.Values("Accept"), ","), "text/html") {
		return show(c, data)
	}
	return showPage(c, page)
}

// showPage shows what a browser may show, and says what it may take from where.
func showPage(c *web.Call, page spec.Document) error {
	c.Writer.Header().Set("Content-Security-Policy", spec.Policy)
	return show(c, page)
}

func (h *handlers) index(c *web.Call) error {
	page, ok := h.documents.Page("index")
	if !ok {
		return domain.ErrNotFound
	}
	return showPage(c, page)
}

func (h *handlers) file(c *web.Call) error {
	name := c.Param("file")
	if page, ok := h.documents.Page(name); ok && name != "index" {
		return showPage(c, page)
	}
	asset, ok := h.documents.Asset(name)
	if !ok {
		return domain.ErrNotFound
	}
	c.Writer.Header().Set("Cache-Control", "no-cache")
	asset.ServeHTTP(c.Writer, c.Request)
	return nil
}
