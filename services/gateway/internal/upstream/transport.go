// Package upstream keeps the connections to back ends, and restricts their addresses.
package upstream

import (
	"context"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"time"

	"waybill.dev/shared/egress"
)

// Bounds of a pool of connections.
const (
	// maxIdle is how many idle connections to one back end are kept, for idleTime. With fewer
	// than are used at a time, connections would be closed and opened all the time.
	maxIdle        = 256
	idleTime       = 30 * time.Second
	maxHeaderBytes = 32 << 10
)

// Faults of the URL of a request.
const (
	errScheme   egress.URLError = "must be an http or https URL"
	errUserinfo egress.URLError = "must not have a user name or password"
)

// Parse returns the URL to connect to for a back end, with its host in ASCII. The URL comes from the operator of the
// process: plain HTTP and names inside the network are allowed. Parse fails with egress.ErrAddress or an
// egress.URLError.
func Parse(policy *egress.Policy, raw string) (*url.URL, error) {
	return egress.ParseURL(raw, allowed(policy))
}

var errAddress = errors.New("has an address that is not allowed")

// ParseRoute is Parse for a URL of a route file. Uploaded: a tenant has configured the URL, and only the addresses
// that the policy allows are valid. Built: a build has checked that; if the policy has changed since, each request to
// the back end is refused, and the other routes work. Errors continue a sentence that begins with the name of the
// option.
func ParseRoute(policy *egress.Policy, raw string, uploaded, built bool) (*url.URL, error) {
	base, err := Parse(policy, raw)
	switch {
	case uploaded && built:
		base, err = egress.ParseURL(raw, func(netip.Addr) bool { return true }) // a Guard decides at each request
	case err == nil && uploaded:
		err = policy.CheckURL(raw)
	}
	if errors.Is(err, egress.ErrAddress) {
		return nil, errAddress
	}
	return base, err //nolint:wrapcheck // it is told as a fault, as it stands
}

//nolint:gochecknoglobals // networks, never changed
var (
	// carriers are addresses of carrier networks, which clusters use, too.
	carriers = netip.MustParsePrefix("100.64.0.0/10")
	// metadata are the addresses in private networks at which machines find their own
	// credentials; the others of that kind are link-local or Azure's, see
	// egress.Policy.Allowed.
	metadata = [...]netip.Addr{
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	}
)

// allowed reports whether a configured back end may have an address: a public one, one in a private network, or
// loopback. Link-local addresses are never allowed: a name that has come to lead to the machine's credentials is no
// back end.
func allowed(policy *egress.Policy) func(netip.Addr) bool {
	return func(addr netip.Addr) bool {
		if policy.Allowed(addr) {
			return true
		}
		if addr.Zone() != "" || !addr.IsValid() {
			return false
		}
		addr = addr.Unmap()
		for _, m := range metadata {
			if addr == m {
				return false
			}
		}
		return addr.IsPrivate() || addr.IsLoopback() || carriers.Contains(addr)
	}
}

// Transport sends requests to one configured back end, and to the targets of its redirects. The back end may be in a
// private network; other targets must be where callbacks may go. It is safe for concurrent use.
type Transport struct {
	policy  *egress.Policy
	trusted string // host:port of the back end; empty: none
	inner   *http.Transport
}

// NewTransport returns a Transport for the back end. back must be a URL returned by Parse.
func NewTransport(policy *egress.Policy, back *url.URL, o egress.Options) *Transport {
	t := &Transport{policy: policy, trusted: egress.Authority(back)}
	near, nearTLS := egress.Dialers(allowed(policy), o)
	far, farTLS := egress.Dialers(policy.Allowed, o)
	choose := func(near, far egress.Dial) egress.Dial {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == t.trusted {
				return near(ctx, network, address)
			}
			return far(ctx, network, address)
		}
	}
	t.inner = newInner(choose(near, far), choose(nearTLS, farTLS))
	return t
}

func newInner(plain, secure egress.Dial) *http.Transport {
	var http1 http.Protocols
	// One HTTP/2 back end can make a single call open thousands of connections.
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // with a proxy, its address would be checked, not the target's
		Protocols:              &http1,
		DialContext:            plain,
		DialTLSContext:         secure,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           maxIdle,
		MaxIdleConnsPerHost:    maxIdle,
		IdleConnTimeout:        idleTime,
	}
}

// Close closes the idle connections. Requests that run are not touched.
func (t *Transport) Close() { t.inner.CloseIdleConnections() }

// RoundTrip sends a request once; it follows no redirect. The caller limits the time by the request's context, and
// limits how much of the body it reads. Every error is an *egress.Error; a status outside 200 to 599 is such an error,
// too.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, egress.AsError(r.Context(), err)
	}
	answer, err := t.inner.RoundTrip(r)
	if err != nil {
		return nil, egress.AsError(r.Context(), err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 599 {
		// Unread: after a 101 a read would last as long as the back end likes.
		_ = answer.Body.Close()
		return nil, &egress.Error{Code: egress.CodeBadStatus}
	}
	return answer, nil
}

func (t *Transport) check(u *url.URL) error {
	if egress.Authority(u) != t.trusted {
		// Without the path and query of the request, which have another bound.
		return t.policy.CheckURL((&url.URL{Scheme: u.Scheme, User: u.User, Host: u.Host}).String())
	}
	if u.User != nil {
		return errUserinfo
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return errScheme
	}
	return nil
}
