package upstream

import (
	"net/http"
	"net/url"
	"slices"
	"sync"

	"waybill.dev/shared/egress"
)

// BackEnd is where routes forward to: a scheme, a host and a port that were configured.
type BackEnd struct {
	url       *url.URL
	authority string // host:port
}

// To returns the back end of a URL that Parse has returned.
func To(base *url.URL) BackEnd { return BackEnd{base, egress.Authority(base)} }

// Pools have the connections to back ends, one pool for each host and port, whichever routes
// share it. They outlive the routes: a change of the route files costs no connection.
type Pools struct {
	policy *egress.Policy

	mu    sync.RWMutex
	pools map[string]*Transport // by host:port
}

// NewPools returns pools without connections. The policy says where redirects may lead.
func NewPools(policy *egress.Policy) *Pools {
	return &Pools{policy: policy, pools: make(map[string]*Transport)}
}

// RoundTrip sends a request to the back end, or to where that has redirected, see
// Transport.RoundTrip.
func (p *Pools) RoundTrip(to BackEnd, r *http.Request) (*http.Response, error) {
	return p.of(to).RoundTrip(r)
}

func (p *Pools) of(to BackEnd) *Transport {
	p.mu.RLock()
	t := p.pools[to.authority]
	p.mu.RUnlock()
	if t != nil {
		return t
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pools[to.authority] == nil {
		p.pools[to.authority] = NewTransport(p.policy, to.url, egress.Options{})
	}
	return p.pools[to.authority]
}

// Keep closes the connections to all back ends but those that are used, as soon as they are
// idle. Requests that run are not touched.
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

// Close closes the connections that nobody uses.
func (p *Pools) Close() { p.Keep(nil) }
