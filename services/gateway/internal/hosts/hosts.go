// Package hosts finds the account and the handler of a host.
package hosts

import (
	"crypto/tls"
	"net/http"
	"strings"
	"sync/atomic"

	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// Site describes a host.
type Site struct {
	// Account is the account that the host belongs to; empty: none, or the host is Waybill's own.
	Account string
	Handler http.Handler
	Domain  *Domain // nil: it is no custom domain
}

// Domain is a custom domain that an account has. It is replaced when it changes.
type Domain struct {
	ID         string
	Account    string
	Hostname   string
	Deployment string // empty: none
	// Uploaded is the fingerprint of the certificate that a user has uploaded; empty: none.
	Uploaded string
	// Certificate is that certificate, once it was read.
	Certificate atomic.Pointer[tls.Certificate]
}

// Sites knows the sites that are served.
type Sites interface {
	// Deployment returns the site of the host of a deployment.
	Deployment(name string) Site
	// Custom returns the site of a custom domain.
	Custom(hostname string) (Site, bool)
}

// Hosts knows all hosts.
type Hosts struct {
	below string // the domain below which deployments are, with a dot before it
	sites Sites
	other Site
}

// New returns the hosts of the sites. Deployments are below the domain, which is in lower case and
// without port. All other hosts go to other. X-Forwarded-Host never counts: with it, a caller could
// choose another tenant's deployment.
func New(domain string, sites Sites, other http.Handler) *Hosts {
	return &Hosts{"." + domain, sites, Site{Handler: other}}
}

// Of returns the site of a host, as written in a Host header or in a TLS handshake.
func (h *Hosts) Of(host string) Site {
	host = plainHost(host)
	if name, ok := strings.CutSuffix(host, h.below); ok {
		return h.sites.Deployment(name)
	}
	if site, ok := h.sites.Custom(host); ok {
		return site
	}
	return h.other
}

// errMisdirected is never changed.
var errMisdirected = problem.New(problem.Misdirected, "The TLS connection is for another host. Open one for the host of the request.")

// ServeHTTP gives a request to the site of its Host. A TLS connection for a host of an account is
// for that host alone; one for another host is for all that are no account's.
func (h *Hosts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	site := h.Of(r.Host)
	if r.TLS != nil && !h.reaches(r.TLS.ServerName, r.Host, site) {
		id := requestid.New()
		w.Header().Set(requestid.Header, id)
		w.Header().Set("Cache-Control", "no-store")
		errMisdirected.Write(w, r, id)
		return
	}
	site.Handler.ServeHTTP(w, r)
}

// reaches reports whether a TLS connection for a name may ask for a host. A client that gave no name
// has said nothing about the host.
func (h *Hosts) reaches(name, host string, site Site) bool {
	if name == "" || plainHost(name) == plainHost(host) {
		return true
	}
	return site.Account == "" && h.Of(name).Account == ""
}

// plainHost returns the host of a Host header in lower case, without port, and without the dot
// that a complete name may end with.
func plainHost(host string) string {
	if colon := strings.LastIndexByte(host, ':'); colon >= 0 && strings.Trim(host[colon+1:], "0123456789") == "" {
		host = host[:colon]
	}
	return strings.TrimSuffix(strings.ToLower(host), ".")
}
