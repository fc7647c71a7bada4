// Package hosts finds the deployment that a request is for, by its Host.
package hosts

import (
	"net/http"
	"net/url"
	"strings"
)

// hosts knows below which domain deployments are.
type hosts struct {
	below string // the domain, with a dot before it
	find  func(name string) http.Handler
	other http.Handler
}

// New returns a handler that gives a request for a name below the domain to what find returns
// for that name, and every other one to other. The domain is in lower case, without port.
// X-Forwarded-Host never counts: a caller could choose another tenant's deployment by it.
func New(domain string, find func(name string) http.Handler, other http.Handler) http.Handler {
	return &hosts{"." + domain, find, other}
}

// ServeHTTP implements http.Handler.
func (h *hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if name, ok := strings.CutSuffix(plain(r.Host), h.below); ok {
		h.find(name).ServeHTTP(w, r)
		return
	}
	h.other.ServeHTTP(w, r)
}

// plain returns the host of a Host header in lower case, without port, and without the dot
// that a complete name may end with.
func plain(host string) string {
	u := url.URL{Host: host}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}
