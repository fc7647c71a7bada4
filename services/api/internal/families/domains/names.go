package domains

import (
	"net/url"
	"slices"
	"strings"
)

// Names are the hosts that are Waybill's own.
type Names struct {
	// Gateway is the domain below which deployments are; empty: not known.
	Gateway string
	// Own are the other hosts, such as that of the API.
	Own []string
}

// NamesOf returns the hosts of URLs; empty URLs are skipped.
func NamesOf(gatewayURL string, own ...string) Names {
	names := Names{Gateway: hostOf(gatewayURL)}
	for _, address := range own {
		if host := hostOf(address); host != "" {
			names.Own = append(names.Own, host)
		}
	}
	return names
}

func hostOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return ""
	}
	return strings.ToLower(strings.TrimSuffix(u.Hostname(), "."))
}

// refuse returns the reason why a hostname can't be a custom domain; empty: it can.
func (n Names) refuse(hostname string) string {
	switch {
	case within(hostname, n.Gateway):
		return "must not be the domain of the gateway, nor below it"
	case within(hostname, "localhost"):
		return "must not be localhost, nor below it"
	}
	if slices.Contains(n.Own, hostname) {
		return "must not be a host of Waybill's own"
	}
	return ""
}

// within reports whether a hostname equals a domain or is below it.
func within(hostname, domain string) bool {
	return domain != "" && (hostname == domain || strings.HasSuffix(hostname, "."+domain))
}

// target returns the name to which CNAME records of custom domains lead. The wildcard record of the
// gateway's domain includes it, and no deployment can have that name.
func (n Names) target() *string {
	if n.Gateway == "" {
		return nil
	}
	target := "domains." + n.Gateway
	return &target
}
