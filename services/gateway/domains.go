package gateway

import (
	"crypto/tls"
	"fmt"
	"net/http"

	"waybill.dev/services/gateway/internal/acme"
	"waybill.dev/services/gateway/internal/certificates"
	"waybill.dev/services/gateway/internal/hosts"
)

// newAuthority returns the authority that gives certificates, or nil if there is none.
func newAuthority(o *Options, s *Service) (*acme.Authority, error) {
	if o.ACME.Directory == "" {
		return nil, nil
	}
	made, err := acme.New(acme.Options{
		Store: s.domains, Directory: o.ACME.Directory, Email: o.ACME.Email, Trusted: o.ACME.Trusted, Wanted: s.wantsCertificate,
		Challenges: o.ACME.Challenges, RenewEvery: o.ACME.RenewEvery, Logger: o.Logger, Registerer: o.Registerer,
	})
	if err != nil {
		return nil, fmt.Errorf("make gateway: %w", err)
	}
	return made, nil
}

// wantsCertificate reports whether a hostname is a custom domain without an uploaded certificate.
func (s *Service) wantsCertificate(hostname string) bool {
	site, ok := s.rollout.Custom(hostname)
	return ok && site.Domain.Uploaded == ""
}

func (s *Service) domainsChanged() {
	if s.acme != nil {
		s.acme.SearchMissing()
	}
}

// TLS returns the configuration of a TLS server in front of Handler. The name that a client gives
// decides which certificate it gets, and which hosts the connection may ask for.
func (s *Service) TLS() *tls.Config {
	options := certificates.Options{
		Hosts: hosts.New(s.options.Domain, s.rollout, http.NotFoundHandler()), Uploads: s.domains, Own: s.options.Certificate,
		Clients: s.clients, Logger: s.options.Logger,
	}
	if s.acme != nil {
		options.Authority = s.acme
	}
	return certificates.New(options).Config()
}

// answering returns a handler that answers an authority's requests for the proof of a custom
// domain, and passes every other request to next.
func (s *Service) answering(next *hosts.Hosts) http.Handler {
	if s.acme == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if acme.Asks(r) {
			if d := next.Of(r.Host).Domain; d != nil && s.acme.Answer(w, r, d.Hostname) {
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}
