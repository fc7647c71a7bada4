package egress

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"net/url"
)

// formRules are the rules for the form of a URL, whatever its target.
var formRules = ruleSet{ //nolint:gochecknoglobals // a table
	text: []rule{
		{"length", (*Policy).checkLength},
		{"bytes", (*Policy).checkBytes},
	},
	parts: []rule{
		{"scheme", (*Policy).checkAnyScheme},
		{"userinfo", (*Policy).checkUserinfo},
		{"fragment", (*Policy).checkFragment},
		{"port", (*Policy).checkPort},
		{"literal", (*Policy).checkLiteral},
		{"idna", (*Policy).checkIDNA},
		{"labels", (*Policy).checkLabels},
		{"number", (*Policy).checkNumber},
	},
}

func (p *Policy) checkAnyScheme(c *candidate) error {
	if c.url.Scheme != "https" && c.url.Scheme != "http" {
		return errScheme
	}
	return nil
}

// ParseURL returns the target of a URL with a valid form, with its host in ASCII. If the host is an
// address, allowed must accept it. ParseURL fails with ErrAddress or a URLError.
func ParseURL(raw string, allowed func(netip.Addr) bool) (*url.URL, error) {
	u, err := (&Policy{}).target(raw, &formRules)
	if err != nil {
		return nil, err
	}
	if addr, err := netip.ParseAddr(u.Hostname()); err == nil && !allowed(addr) {
		return nil, ErrAddress
	}
	return u, nil
}

// Dial connects to an address of the form host:port. Its errors are of type *Error.
type Dial func(ctx context.Context, network, address string) (net.Conn, error)

// Dialers returns functions that connect, plainly and by TLS, only to addresses that allowed
// accepts. A name that has an allowed address and another one is refused as a whole. Only the
// options about connections and TLS are used.
func Dialers(allowed func(netip.Addr) bool, o Options) (plain, secure Dial) {
	d := newGuardedDialer(allowed, o.withDefaults())
	return d.dial, d.dialTLS
}

// AsError returns an error of a URL, of a connection or of an answer with its code.
func AsError(ctx context.Context, err error) *Error {
	if _, ok := errors.AsType[URLError](err); ok || errors.Is(err, ErrAddress) {
		return refusedResponse(err).Err
	}
	return classify(ctx, err)
}
