package policy

import (
	"context"
	"net/netip"
	"slices"
	"strconv"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// maxNetworks is how many networks one list may have.
const maxNetworks = 10_000

// addresses lets callers pass by their address.
type addresses struct {
	allow, deny []netip.Prefix // an empty allow allows all
}

func newAddresses(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	a := &addresses{allow: readNetworks(options, "allow"), deny: readNetworks(options, "deny")}
	if !options.Has("allow") && !options.Has("deny") {
		options.Fault("must have allow, deny or both")
	}
	return built{in: a}
}

// readNetworks reads a list of networks; a single address is one, too.
func readNetworks(options *input.Form, option string) []netip.Prefix {
	texts, _ := options.Texts(option, 1, maxNetworks)
	var list []netip.Prefix
	for i, text := range texts {
		network, ok := parseNetwork(text)
		if !ok {
			options.Fault("must be an address, or a network such as 10.0.0.0/8", option, strconv.Itoa(i))
		}
		list = append(list, network)
	}
	return list
}

// parseNetwork reads a network. One of IPv4 addresses in IPv6 form is that of the IPv4
// addresses, as which callers are compared.
func parseNetwork(text string) (netip.Prefix, bool) {
	network, err := netip.ParsePrefix(text)
	if err != nil {
		addr, err := netip.ParseAddr(text)
		if err != nil || addr.Zone() != "" {
			return netip.Prefix{}, false
		}
		network = netip.PrefixFrom(addr, addr.BitLen())
	}
	if network.Addr().Is4In6() {
		if network.Bits() < 96 {
			return netip.Prefix{}, false
		}
		network = netip.PrefixFrom(network.Addr().Unmap(), network.Bits()-96)
	}
	return network.Masked(), true
}

// In compares the caller's address.
func (a *addresses) In(_ context.Context, r *route.Request) (*route.Response, error) {
	addr, err := netip.ParseAddr(r.Remote)
	if err == nil {
		addr = addr.Unmap().WithZone("")
		holds := func(network netip.Prefix) bool { return network.Contains(addr) }
		if !slices.ContainsFunc(a.deny, holds) && (len(a.allow) == 0 || slices.ContainsFunc(a.allow, holds)) {
			return nil, nil
		}
	}
	return nil, problem.New(problem.Forbidden, "Requests from this address are not permitted.")
}
