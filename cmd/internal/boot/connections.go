package boot

import (
	"cmp"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// defaultMaxConnections is the default limit on a server's connections.
const defaultMaxConnections = 4096

// One client may have 1/shareOfOne of them. As that is a quarter, four clients are needed to use
// all of them.
const shareOfOne = 4

// connections is a listener that accepts a limited number of connections at a time, and from one
// address no more than its share. Further connections are closed at once. If they waited, the
// clients with open connections would decide for how long.
type connections struct {
	net.Listener

	most, share int
	trusted     []netip.Prefix // proxies, which have many clients behind them
	refused     *prometheus.CounterVec

	mu     sync.Mutex
	open   int
	openOf map[netip.Prefix]int
}

// Reasons for refusing a connection.
const (
	refusedAll     = "all"     // the server has the maximum number
	refusedAddress = "address" // the client has its full share
)

func limitConnections(listener net.Listener, o *ServerOptions) *connections {
	c := &connections{Listener: listener, most: o.MaxConnections, trusted: o.TrustedProxies, openOf: make(map[netip.Prefix]int)}
	c.most = cmp.Or(c.most, defaultMaxConnections)
	c.share = max(1, c.most/shareOfOne)
	server := prometheus.Labels{"server": strings.ToLower(o.Name)}
	c.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_connections_refused_total", ConstLabels: server,
		Help: "Connections above the limit, closed at once. Reason all: limit of the server. Reason address: limit of one client.",
	}, []string{"reason"})
	for _, reason := range []string{refusedAll, refusedAddress} {
		c.refused.WithLabelValues(reason) // initialized to 0, so that Prometheus sees the first increment
	}
	if o.Registerer != nil {
		o.Registerer.MustRegister(c.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_connections", ConstLabels: server, Help: "Open connections.",
		}, c.count))
	}
	return c
}

func (c *connections) count() float64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return float64(c.open)
}

// Accept returns the next connection within the limits.
func (c *connections) Accept() (net.Conn, error) {
	for {
		accepted, err := c.Listener.Accept()
		if err != nil {
			return nil, err //nolint:wrapcheck // net/http asks it what it is
		}
		tcp, ok := accepted.(*net.TCPConn)
		if !ok {
			return nil, fmt.Errorf("accept connection: %T is not a TCP connection", accepted)
		}
		client, shared := c.client(tcp.RemoteAddr())
		if reason := c.take(client, shared); reason != "" {
			c.refused.WithLabelValues(reason).Inc()
			_ = tcp.Close() // without an answer
			continue
		}
		return &connection{tcp, sync.OnceFunc(func() { c.release(client, shared) })}, nil
	}
}

// client returns the client that a connection counts for: an address, in IPv6 the network that one
// customer has. shared is false for trusted proxies.
func (c *connections) client(addr net.Addr) (client netip.Prefix, shared bool) {
	withPort, err := netip.ParseAddrPort(addr.String())
	if err != nil {
		return netip.Prefix{}, true
	}
	from := withPort.Addr().Unmap().WithZone("")
	if slices.ContainsFunc(c.trusted, func(network netip.Prefix) bool { return network.Contains(from) }) {
		return netip.Prefix{}, false
	}
	bits := from.BitLen()
	if from.Is6() {
		bits = 64
	}
	return netip.PrefixFrom(from, bits).Masked(), true
}

// take counts a connection, or returns the limit that it exceeds.
func (c *connections) take(client netip.Prefix, shared bool) (reason string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.open >= c.most:
		return refusedAll
	case shared && c.openOf[client] >= c.share:
		return refusedAddress
	case shared:
		c.openOf[client]++
	}
	c.open++
	return ""
}

func (c *connections) release(client netip.Prefix, shared bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.open--
	if !shared {
		return
	}
	c.openOf[client]--
	if c.openOf[client] == 0 {
		delete(c.openOf, client)
	}
}

// connection is a counted connection. It lets net/http see that it is a TCP connection.
type connection struct {
	*net.TCPConn

	release func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.release()
	return c.TCPConn.Close() //nolint:wrapcheck // net/http asks it what it is
}
