package bustest

import (
	"context"
	"fmt"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// Cluster is three servers of one cluster, each of which may be stopped and started again.
type Cluster struct {
	tb      testing.TB
	Servers []*Server
}

// StartCluster starts a cluster on free ports. It is stopped when the test ends.
func StartCluster(tb testing.TB) *Cluster {
	tb.Helper()
	const size = 3
	ports := FreePorts(tb, size)
	routes := make([]*url.URL, 0, size)
	for _, port := range ports {
		routes = append(routes, &url.URL{Scheme: "nats", Host: fmt.Sprintf("127.0.0.1:%d", port)})
	}
	c := &Cluster{tb: tb}
	for i, port := range ports {
		s := &Server{
			tb: tb, name: fmt.Sprintf("bustest-%d", i+1), dir: tb.TempDir(), port: server.RANDOM_PORT,
			cluster: server.ClusterOpts{Name: "bustest", Host: "127.0.0.1", Port: port},
			routes:  routes,
		}
		s.Start()
		tb.Cleanup(s.Stop)
		c.Servers = append(c.Servers, s)
	}
	c.AwaitLeader()
	return c
}

// URL returns the addresses of all servers.
func (c *Cluster) URL() string {
	urls := make([]string, 0, len(c.Servers))
	for _, s := range c.Servers {
		urls = append(urls, s.URL())
	}
	return strings.Join(urls, ",")
}

// Server returns the server with a name.
func (c *Cluster) Server(name string) *Server {
	c.tb.Helper()
	for _, s := range c.Servers {
		if s.name == name {
			return s
		}
	}
	c.tb.Fatalf("the cluster has no server %q", name)
	return nil
}

// AwaitLeader waits until the running servers have a leader that can make streams on all of them.
func (c *Cluster) AwaitLeader() {
	c.tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for !c.led() {
		select {
		case <-ctx.Done():
			c.tb.Fatalf("the cluster had no leader within %s", startTimeout)
		case <-ticker.C:
		}
	}
}

func (c *Cluster) led() bool {
	running, peers := 0, 0
	for _, s := range c.Servers {
		if s.nats == nil {
			continue
		}
		running++
		if !s.nats.JetStreamIsCurrent() {
			return false
		}
		peers = max(peers, len(s.nats.JetStreamClusterPeers())) // only the leader knows them
	}
	return peers == running
}

// FreePorts returns ports of 127.0.0.1 that were free a moment ago: the routes of a cluster
// must be known before any of its servers starts.
func FreePorts(tb testing.TB, n int) []int {
	tb.Helper()
	var ports []int
	var listeners []net.Listener // all are open until all ports are known, so that none comes twice
	defer func() {
		for _, l := range listeners {
			_ = l.Close()
		}
	}()
	for range n {
		l, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			tb.Fatalf("find a free port: %v", err)
		}
		listeners = append(listeners, l)
		address, ok := l.Addr().(*net.TCPAddr)
		if !ok {
			tb.Fatalf("listening on %v", l.Addr())
		}
		ports = append(ports, address.Port)
	}
	return ports
}
