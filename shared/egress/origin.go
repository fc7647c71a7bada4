package egress

import (
	"net"
	"strings"
)

// Origin returns the destination of callbacks to raw: scheme, host and port, the same text for
// every spelling of them. It fails as CheckURL does.
func (p *Policy) Origin(raw string) (string, error) {
	u, err := p.target(raw, &rules)
	if err != nil {
		return "", err
	}
	port := u.Port()
	if port == "" {
		port = "443"
		if u.Scheme == "http" {
			port = "80"
		}
	}
	return u.Scheme + "://" + net.JoinHostPort(strings.ToLower(u.Hostname()), port), nil
}
