// Package hosts finds the site that a request is for, by its Host.
package hosts

import (
	"net/http"
	"net/url"
	"strings"
)

// hosts has the sites by name.
type hosts struct {
	sites map[string]http.Handler
	other http.Handler
}

// New returns a handler that lets the site of the request's Host answer, and other where
// there is none. Names are in lower case, without port. X-Forwarded-Host never counts: a
// caller could choose another tenant's site by it.
func New(sites map[string]http.Handler, other http.Handler) http.Handler {
	return &hosts{sites, other}
}

// ServeHTTP implements http.Handler.
func (h *hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if len(h.sites) > 0 {
		if site := h.sites[name(r.Host)]; site != nil {
			site.ServeHTTP(w, r)
			return
		}
	}
	h.other.ServeHTTP(w, r)
}

// name returns the host of a Host header in the form in which sites are named: in lower
// case, without port, and without the dot that a complete name may end with.
func name(host string) string {
	u := url.URL{Host: host}
	return strings.TrimSuffix(strings.ToLower(u.Hostname()), ".")
}
