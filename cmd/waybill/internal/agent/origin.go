package agent

import (
	"errors"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
)

// Origin is a scheme, a host and a port: a place in the network that the agent may reach.
type Origin struct{ scheme, host, port string }

// ErrOrigin says that a text is not an origin.
var ErrOrigin = errors.New("an origin is http://host:port or https://host:port, without a path")

// ParseOrigin parses an origin. The default port is that of the scheme.
func ParseOrigin(text string) (Origin, error) {
	u, err := url.Parse(text)
	if err != nil || u.User != nil || u.Path != "" && u.Path != "/" || u.RawQuery != "" || u.ForceQuery || u.Fragment != "" {
		return Origin{}, ErrOrigin
	}
	return originOf(u)
}

// originOf returns the origin of a URL.
func originOf(u *url.URL) (Origin, error) {
	host := strings.ToLower(u.Hostname())
	o := Origin{u.Scheme, strings.TrimSuffix(host, "."), u.Port()}
	if o.host == "" || isNumber(o.host) && !isAddress(host) {
		return Origin{}, ErrOrigin
	}
	switch {
	case o.scheme == "http" && o.port == "":
		o.port = "80"
	case o.scheme == "https" && o.port == "":
		o.port = "443"
	case o.scheme != "http" && o.scheme != "https":
		return Origin{}, ErrOrigin
	}
	if n, err := strconv.Atoi(o.port); err != nil || n < 1 || n > 65535 {
		return Origin{}, ErrOrigin
	}
	return o, nil
}

// isNumber reports whether resolvers may take a host for an IPv4 address: its last part is a number.
func isNumber(host string) bool {
	last := host[strings.LastIndexByte(host, '.')+1:]
	_, err := strconv.ParseUint(last, 0, 64) // 0x7f is a number, too
	return err == nil
}

// isAddress reports whether a host is an address as addresses are written.
func isAddress(host string) bool {
	_, err := netip.ParseAddr(host)
	return err == nil
}

// String returns the origin as text.
func (o Origin) String() string {
	host := o.host
	if strings.Contains(host, ":") {
		host = "[" + host + "]"
	}
	return o.scheme + "://" + host + ":" + o.port
}
