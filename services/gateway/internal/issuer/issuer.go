// Package issuer keeps the keys of those who issue the access tokens that routes take.
package issuer

import (
	"net/http"
	"net/url"
	"sync"

	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/jwt"
)

// maxIssuers is how many issuers a pool knows at a time. A site that has more reads their keys more often.
const maxIssuers = 16

// Pool has the keys of the issuers of one deployment, which share nothing with those of others. They outlive the
// routes, as connections do.
type Pool struct {
	upstreams *upstream.Pools

	mu      sync.Mutex
	issuers map[source]*jwt.Keys
}

// source is where the keys of an issuer are.
type source struct{ issuer, jwks string }

// NewPool returns a pool that asks issuers as the pools ask back ends.
func NewPool(upstreams *upstream.Pools) *Pool {
	return &Pool{upstreams: upstreams, issuers: make(map[source]*jwt.Keys)}
}

// Keys returns the keys of an issuer; jwks is their URL, or empty. Base is the URL that was configured. What the
// issuer names besides, at another host, must be where redirects may lead.
func (p *Pool) Keys(issuer, jwks string, base *url.URL) *jwt.Keys {
	of := source{issuer, jwks}
	p.mu.Lock()
	defer p.mu.Unlock()
	keys := p.issuers[of]
	if keys == nil {
		if len(p.issuers) >= maxIssuers {
			clear(p.issuers)
		}
		keys = jwt.NewKeys(jwt.Source{Issuer: issuer, JWKS: jwks, Do: func(r *http.Request) (*http.Response, error) {
			return p.upstreams.RoundTrip(upstream.To(base), r)
		}})
		p.issuers[of] = keys
	}
	return keys
}
