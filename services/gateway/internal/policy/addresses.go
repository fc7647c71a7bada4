package policy

import (
	"context"
	"net/netip"
	"slices"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/problem"
)

// addresses lets callers pass by their address.
type addresses struct {
	allow, deny []netip.Prefix // an empty allow allows all
}

type addressesOptions struct{ Allow, Deny []string }

func addressesPolicy() Policy {
	return Policy{
		Name: "ip-restriction-inbound", Export: "IpRestrictionInboundPolicy",
		About: "Lets callers pass by their address. Other callers get 403. At least one of the options must be there.",
		Options: `{
			"type": "object", "additionalProperties": false,
			"properties": {
				"allow": {
					"type": "array", "minItems": 1, "maxItems": 10000, "items": {"type": "string", "format": "network"},
					"description": "Addresses, and networks such as ` + "`10.0.0.0/8`" + `, that may call. Without it, all may but those of ` + "`deny`" + `."
				},
				"deny": {
					"type": "array", "minItems": 1, "maxItems": 10000, "items": {"type": "string", "format": "network"},
					"description": "Addresses and networks that may not call, even if ` + "`allow`" + ` has them."
				}
			}
		}`,
		Example: `{"allow": ["10.0.0.0/8", "2001:db8::/32"], "deny": ["10.1.2.3"]}`,
		New:     typed(newAddresses),
	}
}

func newAddresses(o *addressesOptions, _ *Env) (Parts, []Fault) {
	if len(o.Allow)+len(o.Deny) == 0 {
		return Parts{}, []Fault{{Detail: "must have allow, deny or both"}}
	}
	return Parts{In: &addresses{networks(o.Allow), networks(o.Deny)}}, nil
}

// networks reads a list of networks; a single address is one, too.
func networks(texts []string) []netip.Prefix {
	list := make([]netip.Prefix, len(texts))
	for i, text := range texts {
		list[i], _ = parseNetwork(text) // the schema has reported the fault
	}
	return list
}

// parseNetwork reads a network. A network of IPv4 addresses in IPv6 form becomes one of IPv4
// addresses, because callers are compared as IPv4 addresses.
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
