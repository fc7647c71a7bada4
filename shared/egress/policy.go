// Package egress decides where callbacks may go and sends them there. It has rules for the URL of a
// webhook, a guard on every address that is dialled, and an HTTP client whose attempts end in time and
// within limits whatever the receiver does. The gateway calls its back ends by the same rules and dialers.
package egress

import (
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"code.dny.dev/ssrf"
)

// ErrAddress means that a target is not public and not allowed. Its text tells customers only that,
// and which setting allows the target. The address itself is only in the operator's log.
var ErrAddress = errors.New("address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW")

// Policy says which targets are allowed. It must not change once it is in use.
type Policy struct {
	// Allow has the networks of targets that are allowed although they are not public.
	Allow []netip.Prefix
	// HTTP allows http:// targets besides https://.
	HTTP bool
}

// ParseAllow reads networks separated by commas, such as 127.0.0.0/8,::1/128. "none" and the empty
// text mean no networks.
func ParseAllow(text string) ([]netip.Prefix, error) {
	text = strings.TrimSpace(text)
	if text == "" || text == "none" {
		return nil, nil
	}
	var allow []netip.Prefix
	for part := range strings.SplitSeq(text, ",") {
		part = strings.TrimSpace(part)
		prefix, err := netip.ParsePrefix(part)
		if err != nil {
			return nil, fmt.Errorf("read allowed networks: %q is not a network such as 10.0.0.0/8", part)
		}
		if prefix.Addr().Is4In6() {
			return nil, fmt.Errorf("read allowed networks: write %q as an IPv4 network", part)
		}
		allow = append(allow, prefix.Masked())
	}
	return allow, nil
}

//nolint:gochecknoglobals // networks, never changed
var (
	// azureWire is a public address at which every Azure machine reaches its own host.
	azureWire = netip.MustParsePrefix("168.63.129.16/32")
	nat64     = netip.MustParsePrefix("64:ff9b::/96")
	// guard knows the special networks of IANA's registries. It is never changed.
	guard = ssrf.New(ssrf.WithAnyPort(), ssrf.WithDeniedV4Prefixes(azureWire))
)

// Allowed reports whether addr may be connected to.
func (p *Policy) Allowed(addr netip.Addr) bool {
	if addr.Zone() != "" || !addr.IsValid() {
		return false
	}
	addr = addr.Unmap()
	if p.inAllow(addr) {
		// Allowing NAT64 allows an address only if the address behind it is allowed.
		return !nat64.Contains(addr) || p.Allowed(behindNAT64(addr))
	}
	return guard.SafeAddr(addr) == nil
}

func (p *Policy) inAllow(addr netip.Addr) bool {
	for _, prefix := range p.Allow {
		if prefix.Contains(addr) {
			return true
		}
	}
	return false
}

func behindNAT64(addr netip.Addr) netip.Addr {
	raw := addr.As16()
	return netip.AddrFrom4([4]byte(raw[12:]))
}

// allowsLoopback reports whether localhost may be reached.
func (p *Policy) allowsLoopback() bool {
	for _, loopback := range []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")} {
		for _, prefix := range p.Allow {
			if prefix.Overlaps(loopback) {
				return true
			}
		}
	}
	return false
}
