package upstream

import (
	"net/http"
	"net/url"

	"waybill.dev/shared/jwt"
)

// maxIssuers is how many issuers Pools know at a time. A site that has more reads their keys more often.
const maxIssuers = 16

// keySource is where the keys of an issuer are.
type keySource struct{ issuer, jwks string }

// Keys returns the keys of an issuer of access tokens. Requests to the issuer follow the rules for back ends. jwks is the URL of the keys,
// or empty. Base is the configured URL. Other URLs that the issuer names, at another host, must be where redirects may lead.
func (p *Pools) Keys(issuer, jwks string, base *url.URL) *jwt.Keys {
	of := keySource{issuer, jwks}
	p.issuersMu.Lock()
	defer p.issuersMu.Unlock()
	keys := p.issuers[of]
	if keys == nil {
		if len(p.issuers) >= maxIssuers {
			clear(p.issuers)
		}
		keys = jwt.NewKeys(jwt.Source{Issuer: issuer, JWKS: jwks, Do: func(r *http.Request) (*http.Response, error) {
			return p.RoundTrip(To(base), r)
		}})
		p.issuers[of] = keys
	}
	return keys
}
