package mcpserver

import (
	"maps"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// innerRequest makes the request for a route from the request for the MCP route. The caller and its address
// stay; headers of the transport are removed. Identical calls may be shared, and policies may change
// what they get.
func innerRequest(r *route.Request, q *request, op *routefile.Operation, call *routefile.Call) *route.Request {
	request := &route.Request{
		TLS:         r.TLS,
		Certificate: r.Certificate,
		Identity:    r.Identity,

		Method:    op.Method,
		Path:      call.Path,
		Params:    maps.Clone(call.Params),
		Query:     route.ParseQuery(&url.URL{RawQuery: call.Query}),
		Host:      r.Host,
		Scheme:    r.Scheme,
		Base:      r.Base,
		Runtime:   r.Runtime,
		Lease:     r.Lease,
		Record:    r.Record,
		Header:    handedOn(r.Header, call.Header),
		Body:      call.Body,
		Remote:    r.Remote,
		ID:        r.ID,
		Principal: r.Principal,
		Inside:    true,
	}
	q.meta.trace(request.Header)
	if r.Identity != nil {
		r.Identity.Tell(request) // whatever the arguments contain
	}
	return request
}

// handedOn returns the headers that a route sees, including those made from arguments. Policies must
// still find the caller's own key, so arguments never set credentials, neither for a policy nor for a
// back end.
func handedOn(of, arguments http.Header) http.Header {
	header := make(http.Header, len(of)+len(arguments))
	for name, values := range of {
		if !ownToTransport(name) {
			header[name] = values
		}
	}
	for name, values := range arguments {
		switch name {
		case "Authorization", "X-Api-Key", "Cookie":
		default:
			if !route.SaysCaller(name) {
				header[name] = values
			}
		}
	}
	return header
}

// ownToTransport reports whether a header speaks of the message that was sent, not of the
// caller.
func ownToTransport(name string) bool {
	switch name {
	case "Accept", "Accept-Encoding", "Accept-Ranges", "Connection", "Content-Encoding", "Content-Language",
		"Content-Length", "Content-Type", "Expect", "Host", "If-Match", "If-Modified-Since", "If-None-Match",
		"If-Range", "If-Unmodified-Since", "Keep-Alive", "Last-Event-Id", "Origin", "Prefer",
		"Range", "Te", "Trailer", "Transfer-Encoding", "Upgrade", "Via":
		return true
	}
	return strings.HasPrefix(name, "Mcp-") || strings.HasPrefix(name, "Sec-") ||
		strings.HasPrefix(name, "Proxy-") || strings.HasPrefix(name, "Access-Control-")
}

var (
	traceParent = regexp.MustCompile(`^[0-9a-f]{2}-[0-9a-f]{32}-[0-9a-f]{16}-[0-9a-f]{2}$`)
	traceMore   = regexp.MustCompile(`^[\x20-\x7e]+$`)
)

// maxTrace bounds the headers of a client's trace that are passed on, in bytes.
const maxTrace = 8 << 10

// trace sets the headers that make a back end's work part of the client's trace. The values in _meta
// take precedence over the headers of the HTTP request: they are about this message, and one request may
// have several messages.
func (m *meta) trace(header http.Header) {
	parent, ok := text(m.TraceParent)
	if !ok || !traceParent.MatchString(parent) {
		return
	}
	header["Traceparent"] = []string{parent}
	for name, value := range map[string]jsontext.Value{"Tracestate": m.TraceState, "Baggage": m.Baggage} {
		if more, ok := text(value); ok && len(more) <= maxTrace && traceMore.MatchString(more) {
			header[name] = []string{more}
		} else {
			delete(header, name)
		}
	}
}
