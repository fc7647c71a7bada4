package egress

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
)

// maxBackendIdle is how many idle connections to one back end are kept.
const maxBackendIdle = 32

// errBackendScheme says that a back end's URL is of another kind.
const errBackendScheme URLError = "must be an http or https URL"

// backendRules are those for the URL of a back end, which comes from who runs the process:
// plain HTTP and names inside the network are allowed, the rules of form are the same.
var backendRules = ruleSet{ //nolint:gochecknoglobals // a table
	text: []rule{
		{"length", (*Policy).checkLength},
		{"bytes", (*Policy).checkBytes},
	},
	parts: []rule{
		{"scheme", (*Policy).checkBackendScheme},
		{"userinfo", (*Policy).checkUserinfo},
		{"fragment", (*Policy).checkFragment},
		{"port", (*Policy).checkPort},
		{"literal", (*Policy).checkLiteral},
		{"idna", (*Policy).checkIDNA},
		{"labels", (*Policy).checkLabels},
		{"number", (*Policy).checkNumber},
		{"address", (*Policy).checkBackendAddress},
	},
}

func (p *Policy) checkBackendScheme(c *candidate) error {
	if c.url.Scheme != "https" && c.url.Scheme != "http" {
		return errBackendScheme
	}
	return nil
}

func (p *Policy) checkBackendAddress(c *candidate) error {
	if c.addr.IsValid() && !p.allowedBackend(c.addr) {
		return ErrAddress
	}
	return nil
}

// Backend returns what to connect to for the URL of a back end, with its host in ASCII.
// It fails with ErrAddress or a URLError.
func (p *Policy) Backend(raw string) (*url.URL, error) { return p.target(raw, &backendRules) }

//nolint:gochecknoglobals // networks, never changed
var (
	// carriers' addresses are those of clusters, too.
	carriers = netip.MustParsePrefix("100.64.0.0/10")
	// metadata are the addresses in private networks at which machines find their own
	// credentials; the others of that kind are link-local or Azure's, see Policy.Allowed.
	metadata = [...]netip.Addr{
		netip.MustParseAddr("100.100.100.200"), netip.MustParseAddr("fd00:ec2::254"), netip.MustParseAddr("fd20:ce::254"),
	}
)

// allowedBackend tells whether a back end that was configured may have the address: a
// public one, one in a private network, or loopback. Never may it be link-local: a name
// that has come to lead to the machine's credentials is no back end.
func (p *Policy) allowedBackend(addr netip.Addr) bool {
	if p.Allowed(addr) {
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

// Transport sends requests to one configured back end, and follows its redirects. To the back end it
// also connects in private networks, elsewhere only where callbacks may go. It is safe for
// concurrent use.
type Transport struct {
	policy  *Policy
	trusted string // host:port of the back end
	inner   *http.Transport
}

// NewTransport returns a transport to the back end. Its URL must come from Backend.
func (p *Policy) NewTransport(back *url.URL, o Options) *Transport {
	if o.MaxIdle == 0 {
		o.MaxIdle = maxBackendIdle
	}
	o = o.withDefaults()
	t := &Transport{policy: p, trusted: authority(back)}
	near, far := newGuardedDialer(p.allowedBackend, o), newDialer(p, o)
	choose := func(near, far dial) dial {
		return func(ctx context.Context, network, address string) (net.Conn, error) {
			if address == t.trusted {
				return near(ctx, network, address)
			}
			return far(ctx, network, address)
		}
	}
	t.inner = newHTTP(o, choose(near.dial, far.dial), choose(near.dialTLS, far.dialTLS))
	return t
}

// dial connects to an address, which is host:port.
type dial func(ctx context.Context, network, address string) (net.Conn, error)

func newHTTP(o Options, plain, secure dial) *http.Transport {
	var http1 http.Protocols
	// One HTTP/2 receiver can make a single call open thousands of connections.
	http1.SetHTTP1(true)
	return &http.Transport{
		Proxy:                  nil, // a proxy's address would be guarded, not the target's
		Protocols:              &http1,
		DialContext:            plain,
		DialTLSContext:         secure,
		DisableCompression:     true,
		MaxResponseHeaderBytes: maxHeaderBytes,
		MaxIdleConns:           o.MaxIdle,
		MaxIdleConnsPerHost:    o.MaxIdle,
		IdleConnTimeout:        o.IdleTimeout,
	}
}

// authority returns host and port that u is connected to.
func authority(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(u.Hostname()), port)
}

// Close closes the idle connections. Requests that run are not touched.
func (t *Transport) Close() { t.inner.CloseIdleConnections() }

// RoundTrip sends a request once; it follows no redirect. The caller bounds time by the
// request's context, and what it reads of the body. Every error is an *Error; a status
// that is not one of 200 to 599 is such an error, too.
func (t *Transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if err := t.check(r.URL); err != nil {
		if r.Body != nil {
			_ = r.Body.Close()
		}
		return nil, refused(err).Err
	}
	answer, err := t.inner.RoundTrip(r)
	if err != nil {
		return nil, classify(r.Context(), err)
	}
	if answer.StatusCode < 200 || answer.StatusCode > 599 {
		// Unread: after a 101 a read would last as long as the back end likes.
		_ = answer.Body.Close()
		return nil, &Error{Code: CodeBadStatus}
	}
	return answer, nil
}

func (t *Transport) check(u *url.URL) error {
	if authority(u) != t.trusted {
		return t.policy.CheckURL(u.String())
	}
	if u.User != nil {
		return errUserinfo
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return errBackendScheme
	}
	return nil
}

// ReadError gives an error of reading an answer's body its code.
func ReadError(ctx context.Context, err error) *Error { return classify(ctx, err) }
