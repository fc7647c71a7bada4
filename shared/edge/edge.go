// Package edge determines the client of a request, and the address of Waybill that the client used.
// It is the only place that decides whether X-Forwarded-For, -Host and -Proto count: they do when
// the connection comes from a proxy that the operator trusts.
package edge

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// Edge has the operator's settings about proxies and public addresses.
type Edge struct {
	Trusted []netip.Prefix // networks of proxies whose headers count
	// PublicURL is the start of links, without a slash at its end; empty:
	// the address that the proxy reports.
	PublicURL string
}

// View is a request as it is seen from outside the proxies.
type View struct {
	// Address is the client's, without a port; empty when it is not known.
	Address string
	// Scheme and Host are the ones that the client used.
	Scheme, Host string
	// Base is the start of a link to a path of Waybill. It is empty if it is not known for certain:
	// then a link is only the path, which the client completes.
	Base string
}

// See returns the view of a request that has come over a connection. A malformed header is ignored.
func (e *Edge) See(r *http.Request) View {
	v := ofConnection(r)
	if peer, err := netip.ParseAddr(v.Address); err == nil && e.trusts(peer) {
		if address, ok := e.client(r.Header["X-Forwarded-For"]); ok {
			v.Address = address.String()
		}
		scheme, schemeTold := one(r.Header["X-Forwarded-Proto"])
		if scheme = strings.ToLower(scheme); schemeTold && (scheme == "http" || scheme == "https") {
			v.Scheme = scheme
		} else {
			schemeTold = false
		}
		host, hostTold := one(r.Header["X-Forwarded-Host"])
		if hostTold = hostTold && isHost(host); hostTold {
			v.Host = host
		}
		if (schemeTold || hostTold) && isHost(v.Host) {
			v.Base = v.Scheme + "://" + v.Host
		}
	}
	if e.PublicURL != "" {
		v.Base = e.PublicURL
	}
	return v
}

// Plain reports whether requests are always seen as their connection shows them.
func (e *Edge) Plain() bool { return len(e.Trusted) == 0 && e.PublicURL == "" }

func (e *Edge) trusts(addr netip.Addr) bool {
	return slices.ContainsFunc(e.Trusted, func(network netip.Prefix) bool { return network.Contains(addr) })
}

// client returns the right-most address that is not a trusted proxy's, otherwise the left-most.
// Addresses to the left of it are not from the proxies, and are ignored.
func (e *Edge) client(values []string) (netip.Addr, bool) {
	parts := strings.Split(strings.Join(values, ","), ",")
	var addr netip.Addr
	for _, part := range slices.Backward(parts) {
		var ok bool
		if addr, ok = parse(strings.TrimSpace(part)); !ok {
			return netip.Addr{}, false
		}
		if !e.trusts(addr) {
			break
		}
	}
	return addr, true
}

// parse reads an address, with a port or without.
func parse(text string) (netip.Addr, bool) {
	addr, err := netip.ParseAddr(text)
	if err != nil {
		withPort, err := netip.ParseAddrPort(text)
		if err != nil {
			return netip.Addr{}, false
		}
		addr = withPort.Addr()
	}
	return addr.Unmap().WithZone(""), true
}

// one returns the value of a header that must occur exactly once.
func one(values []string) (string, bool) {
	if len(values) != 1 {
		return "", false
	}
	return strings.TrimSpace(values[0]), true
}

// isHost reports whether text is a name or an address, with a port or without.
func isHost(text string) bool {
	name := text
	if host, port, err := net.SplitHostPort(text); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return false
		}
		name = host
		if strings.Contains(host, ":") {
			name = "[" + host + "]"
		}
	}
	if inner, ok := strings.CutPrefix(name, "["); ok {
		inner, ok = strings.CutSuffix(inner, "]")
		addr, err := netip.ParseAddr(inner)
		return ok && err == nil && addr.Is6() && addr.Zone() == ""
	}
	return name != "" && len(name) <= 253 && !strings.ContainsFunc(name, func(r rune) bool {
		return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') && (r < '0' || r > '9') && r != '-' && r != '.' && r != '_'
	})
}

type key struct{}

// With returns a context with the view of its request.
func With(ctx context.Context, v View) context.Context { return context.WithValue(ctx, key{}, v) }

// Known reports whether the context has the view of its request.
func Known(ctx context.Context) bool {
	_, ok := ctx.Value(key{}).(View)
	return ok
}

// Of returns the view of a request: that of its context, otherwise that of the connection.
func Of(r *http.Request) View {
	if v, ok := r.Context().Value(key{}).(View); ok {
		return v
	}
	return ofConnection(r)
}

func ofConnection(r *http.Request) View {
	v := View{Scheme: "http", Host: r.Host}
	if addr, ok := parse(r.RemoteAddr); ok {
		v.Address = addr.String()
	}
	if r.TLS != nil {
		v.Scheme = "https"
	}
	return v
}
