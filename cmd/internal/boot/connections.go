package boot

import (
	"fmt"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// defaultMaxConnections is how many connections a server accepts unless set otherwise.
const defaultMaxConnections = 4096

// One client may have 1/shareOfOne of them. With a quarter, four clients are needed to
// leave none for others.
const shareOfOne = 4

// connections is a listener that accepts a limited number of connections at a time, and from one
// address no more than its share. Others are closed at once. If they had to wait, whoever
// holds the open ones would decide how long.
type connections struct {
	net.Listener

	most, share int
	trusted     []netip.Prefix // proxies, behind which there are many clients
	refused     *prometheus.CounterVec

	mu     sync.Mutex
	open   int
	openOf map[netip.Prefix]int
}

// Why a connection is refused.
const (
	refusedAll     = "all"     // the server has as many as it may have
	refusedAddress = "address" // one client has its share of them
)

func limitConnections(listener net.Listener, o *ServerOptions) *connections {
	c := &connections{Listener: listener, most: o.MaxConnections, trusted: o.TrustedProxies, openOf: make(map[netip.Prefix]int)}
	if c.most == 0 {
		c.most = defaultMaxConnections
	}
	c.share = max(1, c.most/shareOfOne)
	server := prometheus.Labels{"server": strings.ToLower(o.Name)}
	c.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_connections_refused_total", ConstLabels: server,
		Help: "Connections above the limit, closed at once. Reason all: limit of the server. Reason address: limit of one client.",
	}, []string{"reason"})
	for _, reason := range []string{refusedAll, refusedAddress} {
		c.refused.WithLabelValues(reason) // from 0 on, so that Prometheus sees the first one
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

// take counts a connection, or says which limit it exceeds.
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

// connection is a counted connection. net/http can still see that it is a TCP connection.
type connection struct {
	*net.TCPConn

	release func()
}

// Close implements net.Conn.
func (c *connection) Close() error {
	defer c.release()
	return c.TCPConn.Close() //nolint:wrapcheck // net/http asks it what it is
}
