package api

import (
	"waybill.dev/services/api/internal/families/domains"
	"waybill.dev/shared/bus"
)

// Resolver asks DNS about custom domains.
type Resolver = domains.Resolver

func domainOptions(o *Options, p *parts) domains.Options {
	return domains.Options{
		Domains: p.db, Certificates: p.db, Verifier: p.verifier, Names: domains.NamesOf(o.GatewayURL, o.PublicURL),
		Changed: func() { o.Bus.Announce(bus.SubjectGateway, nil) },
	}
}

// newVerifier returns the verifier of custom domains by DNS; nil: there is no Resolver.
func newVerifier(o *Options, db tables) *domains.Verifier {
	if o.Resolver == nil {
		return nil
	}
	changed := func() {
		o.Bus.Announce(bus.SubjectGateway, nil)
		o.Bus.Announce(bus.SubjectRelay, nil)
	}
	return domains.NewVerifier(o.Resolver, db, o.PublicURL+"/console/domains", changed, o.Logger)
}
