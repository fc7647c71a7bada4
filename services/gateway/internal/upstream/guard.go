package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"waybill.dev/shared/egress"
)

// Guard is the way to back ends that tenants have configured. They may be where callbacks may
// go by its policy, and never what Waybill itself listens on or works with.
type Guard struct {
	policy *egress.Policy
	own    func() []string
	egress egress.Options
}

// NewGuard returns a guard. own returns what is refused whatever the policy says, as host:port;
// an address of this machine, or no host, stands for all addresses of this machine. Of the
// options, those about connections and TLS count.
func NewGuard(policy *egress.Policy, own func() []string, o egress.Options) *Guard {
	g := &Guard{policy, own, o}
	g.egress.Refuse = g.isOwn
	return g
}

// transport returns a transport that trusts no address and no name.
func (g *Guard) transport() *Transport {
	plain, secure := egress.Dialers(g.policy.Allowed, g.egress)
	return &Transport{policy: g.policy, inner: newInner(plain, secure)}
}

// lookupTime bounds the look-up of a name of our own.
const lookupTime = 2 * time.Second

// isOwn reports whether an address is our own. Names are looked up at each question, which
// comes only when the port is the same: a bus that has moved is where it is now. When
// nobody can tell, it is.
func (g *Guard) isOwn(ctx context.Context, to netip.AddrPort) bool {
	ctx, cancel := context.WithTimeout(ctx, lookupTime)
	defer cancel()
	for _, own := range g.own() {
		host, port, err := net.SplitHostPort(own)
		if err != nil {
			return true
		}
		if number, err := net.DefaultResolver.LookupPort(ctx, "tcp", port); err == nil && number != int(to.Port()) {
			continue
		}
		if names(ctx, host, to.Addr().Unmap()) {
			return true
		}
	}
	return false
}

// names reports whether a host has the address.
func names(ctx context.Context, host string, addr netip.Addr) bool {
	if host == "" {
		return isHere(addr)
	}
	has, err := net.DefaultResolver.LookupNetIP(ctx, "ip", host)
	if err != nil {
		return true
	}
	return slices.ContainsFunc(has, func(a netip.Addr) bool {
		a = a.Unmap()
		return a == addr || (a.IsUnspecified() || isHere(a)) && isHere(addr)
	})
}

// isHere reports whether an address is one of this machine.
func isHere(addr netip.Addr) bool {
	if addr.IsLoopback() || addr.IsUnspecified() {
		return true
	}
	interfaces, err := net.InterfaceAddrs()
	if err != nil {
		return true
	}
	return slices.ContainsFunc(interfaces, func(a net.Addr) bool {
		prefix, err := netip.ParsePrefix(a.String())
		return err == nil && prefix.Addr().Unmap() == addr
	})
}
