package mcpserver

import (
	"context"
	"encoding/base64"
	"net/http"
	"strconv"
	"unicode/utf8"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// resource is what an entry has that is a resource, or a template of many.
type resource struct {
	mimeType string // as configured; empty: the answer's
	fixed    *routefile.Call
	template *template // nil: the uri is one
}

// readResource answers with what the resource's route says.
func (s *server) readResource(ctx context.Context, r *route.Request, q *request) *answer {
	uri, ok := text(q.params.URI)
	if !ok {
		return invalidParams("The member uri is missing or is not a text.").answer(q)
	}
	if len(uri) > maxURI {
		return invalidParams("The member uri is too long.").answer(q)
	}
	found, call := s.catalog.resolve(ctx, uri, r)
	if found == nil {
		return notFound(q, uri, 0).answer(q)
	}
	response := found.target.Route.Call(ctx, inner(r, found.target.Definition, call))
	switch {
	case response.Status == http.StatusNotFound:
		return notFound(q, uri, response.Status).answer(q)
	case response.Status < 200 || response.Status > 299 || response.Stream != nil:
		return unreadable(uri, response.Status).answer(q)
	}
	return s.content(q, uri, found.resource.mimeType, response)
}

// content answers with the content of a resource.
func (s *server) content(q *request, uri, configured string, response *route.Response) *answer {
	answered := mediaType(response.Header)
	shown := configured
	if shown == "" {
		shown = answered
	}
	if shown == "" {
		shown = plainText
	}
	isReadable := (isText(shown) || isText(answered)) && utf8.Valid(response.Body)
	a := result(q, len(uri)+len(response.Body)*3/2)
	a.body = append(a.body, `{"contents":[{"uri":`...)
	a.body = appendText(a.body, uri)
	a.body = append(a.body, `,"mimeType":`...)
	a.body = appendText(a.body, shown)
	if isReadable {
		// Text that is empty is there all the same: an item without text and blob is none.
		a.body = append(a.body, `,"text":`...)
		a.body = appendText(a.body, response.Body)
	} else {
		a.body = append(a.body, `,"blob":"`...)
		a.body = base64.StdEncoding.AppendEncode(a.body, response.Body)
		a.body = append(a.body, '"')
	}
	a.body = append(a.body, "}]"...)
	return s.close(a, q)
}

// notFound is the answer for a uri that nothing stands behind; status is the route's, or 0.
// Until 2026-07-28 the protocol had a code of its own for it, which clients of that time get
// when they say which version they speak.
func notFound(q *request, uri string, status int) *failure {
	f := unreadable(uri, status)
	f.code, f.message = codeInvalidParams, "Resource not found"
	if q.era == legacy {
		f.code = codeNotFound
	}
	return f
}

// unreadable is the answer for a resource whose route fails. What the route said about it
// is no content of the resource.
func unreadable(uri string, status int) *failure {
	data := appendText([]byte(`{"uri":`), uri)
	if status != 0 {
		data = strconv.AppendInt(append(data, `,"status":`...), int64(status), 10)
	}
	return &failure{code: codeInternal, message: "The resource can't be read now.", data: append(data, '}')}
}
