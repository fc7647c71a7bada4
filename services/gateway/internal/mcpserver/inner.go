package mcpserver

import (
	"maps"
	"net/http"
	"net/url"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// inner makes the request of a route out of that of the MCP route: who calls and from
// where stays, what belongs to the message's own way here is left behind. The call may be
// one that others make as well, and policies may change what they get.
func inner(r *route.Request, of *routefile.Operation, call *routefile.Call) *route.Request {
	request := &route.Request{
		TLS:         r.TLS,
		Certificate: r.Certificate,

		Method:    of.Method,
		Path:      call.Path,
		Params:    maps.Clone(call.Params),
		Query:     maps.Clone(call.Query),
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
	if request.Query == nil {
		request.Query = url.Values{}
	}
	if call.Body != nil && of.Body != nil {
		request.Header.Set("Content-Type", of.Body.MediaType)
	}
	return request
}

// handedOn returns the headers that a route sees, with those that arguments make. A policy
// that asks for the caller's key must still find it, so arguments never say who calls,
// neither to it nor to a back end.
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

// ownToTransport tells whether a header speaks of the message that was sent, not of the
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
