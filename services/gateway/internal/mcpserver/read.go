package mcpserver

import (
	"cmp"
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"unicode/utf8"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// resource is the data of an entry that is a resource, or a template for many resources.
type resource struct {
	mimeType string // as configured; empty: that of the answer
	fixed    *routefile.Call
	template *template // nil: the uri has no variables
	line     string    // the line in a list as text
	changes  []string  // kinds of changes that change the resource; nil: changes are not reported
}

// readResource answers with the answer of the resource's route.
func (s *server) readResource(ctx context.Context, r *route.Request, q *request) *messageAnswer {
	uri, ok := text(q.params.URI)
	if !ok {
		return invalidParams("The member uri is missing or is not a text.").answer(q)
	}
	found, response, failed := s.fetch(ctx, r, q, uri)
	if failed != nil {
		return failed.answer(q)
	}
	shown, body, readable := shownAs(r, found.resource.mimeType, response)
	a := beginResult(q, len(uri)+len(body)*3/2)
	a.body = append(a.body, `{"contents":[`...)
	a.body = append(appendContent(a.body, uri, shown, readable, body), ']')
	return s.endCacheable(a, q, 0, private)
}

// fetch asks the route of a resource.
func (s *server) fetch(ctx context.Context, r *route.Request, q *request, uri string) (*entry, *route.Response, *failure) {
	if len(uri) > maxURI {
		return nil, nil, invalidParams("The member uri is too long.")
	}
	found, call := s.catalog.resolve(ctx, uri, r)
	if found == nil {
		return nil, nil, notFound(q, uri, 0)
	}
	response := found.target.Route.Call(ctx, innerRequest(r, q, found.target.Definition, call))
	switch {
	case response.Status == http.StatusNotFound:
		return nil, nil, notFound(q, uri, response.Status)
	case response.Status < 200 || response.Status > 299 || response.Stream != nil || isCoded(response.Header):
		return nil, nil, unreadable(uri, response.Status)
	}
	return found, response, nil
}

// shownAs returns the media type and the content of a resource, and whether it is text.
func shownAs(r *route.Request, configured string, response *route.Response) (shown string, body []byte, readable bool) {
	text, readable := decodeText(r.Lease, response.Header, response.Body)
	if !readable && configured != "" && isText(mediaType(http.Header{"Content-Type": {configured}})) && !isText(mediaType(response.Header)) {
		readable = utf8.Valid(text)
	}
	shown = cmp.Or(configured, contentType(response.Header), plainText)
	if !readable {
		return shown, response.Body, false
	}
	return shown, text, true
}

// appendContent appends the content of a resource.
func appendContent(b []byte, uri, shown string, readable bool, body []byte) []byte {
	b = appendText(append(b, `{"uri":`...), uri)
	b = appendText(append(b, `,"mimeType":`...), shown)
	if readable {
		// An empty text is written as well: an item without text and blob is invalid.
		b = appendText(append(b, `,"text":`...), body)
	} else {
		b = base64.StdEncoding.AppendEncode(append(b, `,"blob":"`...), body)
		b = append(b, '"')
	}
	return append(b, '}')
}

// notFound is the answer for a uri without a resource; status is the route's, or 0. Until
// 2026-07-28, the protocol had a code of its own for this. Clients of that time that send their
// version get that code.
func notFound(q *request, uri string, status int) *failure {
	f := unreadable(uri, status)
	f.code, f.message = codeInvalidParams, "Resource not found"
	if q.era == legacy {
		f.code = codeNotFound
	}
	return f
}

// unreadable is the answer for a resource whose route fails. The body of the route's error is not
// the content of the resource.
func unreadable(uri string, status int) *failure {
	data := appendText([]byte(`{"uri":`), uri)
	if status != 0 {
		data = strconv.AppendInt(append(data, `,"status":`...), int64(status), 10)
	}
	return &failure{code: codeInternal, message: "The resource can't be read now.", data: append(data, '}')}
}
