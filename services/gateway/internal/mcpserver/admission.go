package mcpserver

import (
	"mime"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/route"
)

// admission decides by the HTTP headers whether a request is let in.
type admission struct {
	hosts     []string // in lower case
	origins   []string // in lower case, without a slash at the end
	anyOrigin bool
	trust     func(origin string) bool // nil: no other origin
}

func newAdmission(s settings, trust func(string) bool) admission {
	d := admission{anyOrigin: slices.Contains(s.AllowedOrigins, "*"), trust: trust}
	for _, host := range s.AllowedHosts {
		d.hosts = append(d.hosts, strings.ToLower(host))
	}
	for _, origin := range s.AllowedOrigins {
		d.origins = append(d.origins, strings.ToLower(strings.TrimSuffix(origin, "/")))
	}
	return d
}

// refuse returns the answer to a request that is not let in; nil: the request is let in.
func (d *admission) refuse(r *route.Request) *route.Response {
	switch {
	case !d.isOwnHost(r):
		return refusal(http.StatusForbidden, "This server does not answer for this Host.")
	case !d.trustsOrigin(r):
		return refusal(http.StatusForbidden, "This Origin may not call.")
	case r.Method != http.MethodPost:
		response := refusal(http.StatusMethodNotAllowed, "Messages are sent with POST.")
		response.Header.Set("Allow", http.MethodPost)
		return response
	case !isJSON(r.Header):
		return refusal(http.StatusUnsupportedMediaType, "The Content-Type must be application/json.")
	case !accepts(r.Header["Accept"]):
		return refusal(http.StatusNotAcceptable, "Accept must allow application/json or text/event-stream.")
	case len(r.Body) > route.MaxMCPRequest:
		return refusal(http.StatusRequestEntityTooLarge, "The body is longer than 4 MiB.")
	}
	return nil
}

// isOwnHost reports whether the Host is one of ours. Over a loopback connection, a foreign name means that a page has rebound
// its own name to this machine. If a proxy on this machine keeps the external name, AllowedHosts has to list that name.
func (d *admission) isOwnHost(r *route.Request) bool {
	host := strings.ToLower(r.Host)
	if slices.Contains(d.hosts, host) || slices.Contains(d.hosts, hostname(host)) {
		return true
	}
	if isLoopback(r.Remote) {
		return isLoopback(hostname(host))
	}
	return len(d.hosts) == 0
}

// trustsOrigin reports whether the calling page may call. Allowed are callers without a page (no browser), the server's own
// pages, and the origins that are listed, here or in the route's corsPolicy. The scheme is not compared: behind a proxy
// that ends TLS, the external scheme is not known here.
func (d *admission) trustsOrigin(r *route.Request) bool {
	values := r.Header["Origin"]
	if len(values) == 0 || d.anyOrigin {
		return true
	}
	if len(values) > 1 {
		return false
	}
	origin := strings.ToLower(values[0])
	if slices.Contains(d.origins, origin) || d.trust != nil && d.trust(values[0]) {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && (u.Scheme == "http" || u.Scheme == "https") && strings.EqualFold(u.Host, r.Host)
}

// isJSON reports whether the body may be read as JSON. The documented curl call sends no type, or that of a form. A page
// could send those too without a preflight request, but then its browser adds at least one of the headers that are checked
// here.
func isJSON(header http.Header) bool {
	values := header["Content-Type"]
	if len(values) > 1 {
		return false
	}
	mediaType := ""
	if len(values) == 1 && values[0] != "" {
		var err error
		if mediaType, _, err = mime.ParseMediaType(values[0]); err != nil {
			return false
		}
	}
	switch mediaType {
	case "application/json":
		return true
	case "", "application/x-www-form-urlencoded":
		return len(header["Origin"]) == 0 && len(header["Sec-Fetch-Site"]) == 0
	}
	return false
}

// accepts reports whether the client accepts one of the two types of answers. It should accept both, but many clients in
// use accept only one.
func accepts(values []string) bool {
	return len(values) == 0 || slices.ContainsFunc(mediaTypes(values), func(mediaType string) bool {
		switch mediaType {
		case "", "*/*", "application/*", "application/json", "text/*", "text/event-stream":
			return true
		}
		return false
	})
}

// acceptsStream reports whether the client accepts a stream of events.
func acceptsStream(values []string) bool {
	return slices.Contains(mediaTypes(values), "text/event-stream")
}

func mediaTypes(values []string) []string {
	var types []string
	for _, value := range values {
		for part := range strings.SplitSeq(value, ",") {
			part, _, _ = strings.Cut(part, ";")
			types = append(types, strings.ToLower(strings.TrimSpace(part)))
		}
	}
	return types
}

func hostname(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		return name
	}
	return strings.Trim(host, "[]")
}

func isLoopback(name string) bool {
	if name == "localhost" || strings.HasSuffix(name, ".localhost") {
		return true
	}
	address, err := netip.ParseAddr(name)
	return err == nil && address.Unmap().IsLoopback()
}

// refusal returns an answer to a request that contains no valid message.
func refusal(status int, text string) *route.Response {
	failed := &failure{code: codeInvalidRequest, message: text, status: status}
	return failed.response(nil)
}
