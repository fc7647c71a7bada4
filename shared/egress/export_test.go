package egress

import (
	"context"
	"net/netip"
	"net/url"
	"slices"
)

// Observed returns a client that tells observe each address before it connects to it.
func (p *Policy) Observed(o Options, observe func(netip.AddrPort) error) *Client {
	o = o.withDefaults()
	d := newDialer(p, o)
	d.observe = observe
	return newClient(p, o, d)
}

// RuleNames returns the names of the rules for URLs.
func RuleNames() []string {
	var names []string
	for _, r := range slices.Concat(rules.text, rules.parts) {
		names = append(names, r.name)
	}
	return names
}

// CheckWithout is CheckURL with one rule off.
func (p *Policy) CheckWithout(raw, name string) error {
	without := func(list []rule) []rule {
		return slices.DeleteFunc(slices.Clone(list), func(r rule) bool { return r.name == name })
	}
	_, err := p.target(raw, &ruleSet{text: without(rules.text), parts: without(rules.parts)})
	return err
}

// Target returns the URL that is connected to for raw.
func (p *Policy) Target(raw string) (*url.URL, error) { return p.target(raw, &rules) }

// Control asks the last guard about an address, as a connection to it would.
func (p *Policy) Control(address string) error {
	return newDialer(p, Options{}.withDefaults()).control(context.Background(), "tcp", address, nil)
}
