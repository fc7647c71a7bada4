package selfapi

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
)

// client calls the API as if by HTTP, so that its rules apply: strict reading, accounts, scopes,
// limits, the audit log.
type client struct{ handler http.Handler }

// message is a call of the API without its caller.
type message struct {
	method, path, query string
	body                []byte
}

// call calls the API for the caller of r. An answer of more than limit bytes is an error; 0: there
// is no limit.
func (c *client) call(ctx context.Context, r *Request, m message, limit int) (*Response, error) {
	if r.Principal != nil {
		ctx = auth.WithPrincipal(ctx, *r.Principal)
	}
	ctx = edge.With(ctx, edge.View{Address: r.Remote, Scheme: r.Scheme, Host: r.Host, Base: r.Base})
	// The host is never looked up; a request must have one.
	request, err := http.NewRequestWithContext(ctx, m.method, "http://waybill.internal"+m.path, bytes.NewReader(m.body))
	if err != nil {
		return nil, fmt.Errorf("call own operation: %w", err)
	}
	request.URL.RawQuery = m.query
	request.Header = headerFor(r)
	answer := &recorder{status: http.StatusOK, header: make(http.Header), limit: limit}
	c.handler.ServeHTTP(answer, request)
	if answer.cut {
		return nil, problem.New(problem.BadGateway, "The answer is longer than a route may give. Ask for less, with limit.")
	}
	// The gateway sets these headers itself, for the called route.
	answer.header.Del("Content-Length")
	answer.header.Del("X-Request-Id")
	return &Response{Status: answer.status, Header: answer.header, Body: answer.body.Bytes()}, nil
}

// headerFor returns the part of the caller's header for the API. Keys are removed: the gateway has
// already authenticated the caller, or there is none.
func headerFor(r *Request) http.Header {
	names := []string{"User-Agent", "Traceparent", "Tracestate"}
	if !r.Inside {
		// In a call from inside, these headers belong to the MCP request and do not describe this
		// call.
		names = append(names, "Content-Type", "Content-Encoding", "Idempotency-Key", "If-None-Match")
	}
	header := http.Header{"X-Request-Id": {r.ID}}
	for _, name := range names {
		if values := r.Header.Values(name); len(values) > 0 {
			header[name] = values
		}
	}
	return header
}

// fill inserts parameters into the path's template. A value that can't be a single segment is
// refused: a value with a slash must not lead to another operation.
func fill(o Operation, params map[string]string) (path string, ok bool) {
	segments := strings.Split(o.Path, "/")
	for i, segment := range segments {
		name, isParam := strings.CutPrefix(segment, "{")
		if !isParam {
			continue
		}
		value := params[strings.TrimSuffix(name, "}")]
		if value == "" || value == "." || value == ".." || !o.Slashes && strings.Contains(value, "/") {
			return "", false
		}
		segments[i] = url.PathEscape(value)
	}
	return strings.Join(segments, "/"), true
}

// recorder records an answer, up to limit bytes.
type recorder struct {
	status int
	header http.Header
	body   bytes.Buffer
	limit  int // 0: no limit
	wrote  bool
	cut    bool
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(status int) {
	if !r.wrote {
		r.status, r.wrote = status, true
	}
}

// Write implements http.ResponseWriter.
func (r *recorder) Write(p []byte) (int, error) {
	r.wrote = true
	if r.limit > 0 && r.body.Len()+len(p) > r.limit {
		r.cut = true
		return len(p), nil
	}
	return r.body.Write(p)
}
