package upstream

import (
	"net/http"
	"net/url"
	"slices"
	"sync"

	"waybill.dev/shared/egress"
	"waybill.dev/shared/jwt"
)

// BackEnd is the configured target of forwarding routes: a scheme, a host and a port.
type BackEnd struct {
	url       *url.URL
	authority string   // host:port
	service   *Service // nil if the back end is not behind a tunnel
}

// To returns the back end of a URL that Parse has returned.
func To(base *url.URL) BackEnd { return BackEnd{base, egress.Authority(base), nil} }

// Pools hold the connections to back ends, in one pool for each host and port, which routes share.
// They also hold the keys of the issuers of access tokens. Pools outlive the routes: a change of
// the route files closes no connection.
type Pools struct {
	make     func(base *url.URL) *Transport
	services Services // nil if there are no tunnels

	mu    sync.RWMutex
	pools map[string]*Transport // by host:port

	issuersMu sync.Mutex
	issuers   map[keySource]*jwt.Keys
}

// NewPools returns pools without connections. The policy says where redirects may lead.
func NewPools(policy *egress.Policy) *Pools {
	return &Pools{
		make:  func(base *url.URL) *Transport { return NewTransport(policy, base, egress.Options{}) },
		pools: make(map[string]*Transport), issuers: make(map[keySource]*jwt.Keys),
	}
}

// NewGuardedPools returns pools for back ends that tenants have configured, not the operator of the
// process. services sends requests through tunnels. It may be nil: then services behind tunnels are
// down.
func NewGuardedPools(guard *Guard, services Services) *Pools {
	return &Pools{
		services: services,
		make:     func(*url.URL) *Transport { return guard.transport() },
		pools:    make(map[string]*Transport), issuers: make(map[keySource]*jwt.Keys),
	}
}

// RoundTrip sends a request to the back end, or to where that has redirected, see
// Transport.RoundTrip.
func (p *Pools) RoundTrip(to BackEnd, r *http.Request) (*http.Response, error) {
	if to.service != nil && r.URL.Scheme == ServiceScheme {
		return p.service(to, r)
	}
	return p.transportFor(to).RoundTrip(r)
}

func (p *Pools) transportFor(to BackEnd) *Transport {
	p.mu.RLock()
	t := p.pools[to.authority]
	p.mu.RUnlock()
	if t != nil {
		return t
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools[to.authority] == nil {
		p.pools[to.authority] = p.make(to.url)
	}
	return p.pools[to.authority]
}

// Keep closes the connections to all back ends except the used ones, as soon as they are idle.
// Running requests are not affected.
func (p *Pools) Keep(used []BackEnd) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for authority, t := range p.pools {
		if !slices.ContainsFunc(used, func(b BackEnd) bool { return b.authority == authority }) {
			t.Close()
			delete(p.pools, authority)
		}
	}
}

// Close closes the idle connections.
func (p *Pools) Close() { p.Keep(nil) }
