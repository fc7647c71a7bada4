package web

import (
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/domain"
)

func (s *server) openapi(c *call) error { return c.document(s.Documents.OpenAPIAt(c.link(""))) }

func (s *server) asyncapi(c *call) error { return c.document(s.Documents.AsyncAPI) }

// document answers with d, or with 304 when the caller has it already.
func (c *call) document(d spec.Document) error {
	header := c.Writer.Header()
	header.Set("Cache-Control", "no-cache") // may be kept, and is asked for again
	header.Set("ETag", d.ETag)
	if holds(c.Request.Header.Values("If-None-Match"), d.ETag) {
		c.Status(http.StatusNotModified)
		c.Writer.WriteHeaderNow()
		return nil
	}
	header.Set("Content-Length", strconv.Itoa(len(d.Body)))
	c.Data(http.StatusOK, d.ContentType, d.Body)
	return nil
}

// holds tells whether one of the tags of If-None-Match is that of the present version.
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

// showProblem explains a kind of problem: to browsers as a page, to others as JSON.
func (s *server) showProblem(c *call) error {
	page, data, ok := s.Documents.Problem(c.Param("code"))
	if !ok {
		return domain.ErrNotFound
	}
	c.Header("Vary", "Accept")
	if !strings.Contains(strings.Join(c.Request.Header.Values("Accept"), ","), "text/html") {
		return c.document(data)
	}
	c.Header("Content-Security-Policy", spec.Policy)
	return c.document(page)
}

// aliases are the names by which documents are often asked for, with the path that answers.
func aliases() map[string]string {
	return map[string]string{"/openapi.json": "/openapi", "/asyncapi.json": "/asyncapi", "/docs/": "/docs"}
}

// Aliases returns the paths that are answered as others are.
func Aliases() []string { return slices.Sorted(maps.Keys(aliases())) }

// named lets next answer for an alias as for the path that it stands for.
func named(next http.Handler) http.Handler {
	known := aliases()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if path, ok := known[r.URL.Path]; ok && r.URL.RawPath == "" {
			own, place := *r, *r.URL
			place.Path, own.URL = path, &place
			r = &own
		}
		next.ServeHTTP(w, r)
	})
}

func (s *server) docs(c *call) error {
	page, ok := s.Documents.Page("index")
	if !ok {
		return domain.ErrNotFound
	}
	c.Header("Content-Security-Policy", spec.Policy)
	return c.document(page)
}

func (s *server) docsFile(c *call) error {
	name := c.Param("file")
	if page, ok := s.Documents.Page(name); ok && name != "index" {
		c.Header("Content-Security-Policy", spec.Policy)
		return c.document(page)
	}
	asset, ok := s.Documents.Asset(name)
	if !ok {
		return domain.ErrNotFound
	}
	c.Header("Cache-Control", "no-cache")
	asset.ServeHTTP(c.Writer, c.Request)
	return nil
}
