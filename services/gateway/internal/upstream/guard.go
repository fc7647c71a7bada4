package upstream

import (
	"context"
	"net"
	"net/netip"
	"slices"
	"time"

	"waybill.dev/shared/egress"
)

// Guard guards connections to back ends that tenants have configured. Its policy, which is that of
// callbacks, decides where they may be. They may never be an address that Waybill itself listens on
// or works with.
type Guard struct {
	policy *egress.Policy
	own    func() []string
	egress egress.Options
}

// NewGuard returns a guard. own returns the addresses, as host:port, that are refused whatever the
// policy says; an address of this machine, or no host, stands for all addresses of this machine. Of
// the options, those about connections and TLS are used.
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

// isOwn reports whether an address is Waybill's own. Names are looked up each time, so that a bus
// that has moved is found; this happens only when the port is the same. If the look-up fails, the
// address counts as Waybill's own.
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
