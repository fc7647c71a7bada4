// Package bustest runs a real nats-server with JetStream inside a test.
package bustest

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
)

// startTimeout is how long a server may take until it accepts connections.
const startTimeout = 20 * time.Second

// Server is a nats-server on a port of 127.0.0.1. It keeps the port when it is restarted. Its
// methods must not be called concurrently.
type Server struct {
	tb      testing.TB
	name    string
	dir     string
	port    int
	store   int64              // bytes for streams; 0: three quarters of the disk
	most    int                // consumers of a stream without a limit of its own; 0: the server's default
	cluster server.ClusterOpts // zero: none
	routes  []*url.URL         // to the cluster's servers
	nats    *server.Server
}

// Start starts a server on a free port with its files in a temporary directory. It is
// stopped when the test ends.
func Start(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{tb: tb, name: "bustest", dir: tb.TempDir(), port: server.RANDOM_PORT}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// StartWithin is Start with a server that has this many bytes for streams.
func StartWithin(tb testing.TB, bytes int64) *Server {
	tb.Helper()
	s := &Server{tb: tb, name: "bustest", dir: tb.TempDir(), port: server.RANDOM_PORT, store: bytes}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// StartWithConsumers is Start with a server that allows at most this many consumers for a stream that has no limit of its own.
func StartWithConsumers(tb testing.TB, most int) *Server {
	tb.Helper()
	s := &Server{tb: tb, name: "bustest", dir: tb.TempDir(), port: server.RANDOM_PORT, most: most}
	s.Start()
	tb.Cleanup(s.Stop)
	return s
}

// Name returns the server's name.
func (s *Server) Name() string { return s.name }

// URL returns the address that clients connect to.
func (s *Server) URL() string { return fmt.Sprintf("nats://127.0.0.1:%d", s.port) }

// NATS returns the running server, for in-process connections; nil while it is stopped.
func (s *Server) NATS() *server.Server { return s.nats }

// Start starts the server again, on the same port and with the files that are there.
func (s *Server) Start() {
	s.tb.Helper()
	if s.nats != nil {
		return
	}
	options := &server.Options{
		ServerName: s.name, Host: "127.0.0.1", Port: s.port,
		JetStream: true, StoreDir: s.dir, JetStreamMaxStore: s.store,
		JetStreamLimits: server.JSLimitOpts{DefaultMaxConsumers: s.most},
		NoLog:           true, NoSigs: true,
		Cluster: s.cluster, Routes: s.routes,
	}
	nats, err := server.NewServer(options)
	if err != nil {
		s.tb.Fatalf("make nats-server: %v", err)
	}
	nats.Start()
	if !nats.ReadyForConnections(startTimeout) {
		nats.Shutdown()
		s.tb.Fatalf("nats-server was not ready within %s", startTimeout)
	}
	address, ok := nats.Addr().(*net.TCPAddr)
	if !ok {
		nats.Shutdown()
		s.tb.Fatalf("nats-server listens on %v", nats.Addr())
	}
	s.nats, s.port = nats, address.Port
}

// Stop stops the server and waits until it has ended; its files stay.
func (s *Server) Stop() {
	if s.nats == nil {
		return
	}
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
	s.nats = nil
}

// Restart stops the server and starts it again with the same files.
func (s *Server) Restart() {
	s.tb.Helper()
	s.Stop()
	s.Start()
}

// Within stops the server and starts it again with this many bytes for streams.
func (s *Server) Within(bytes int64) {
	s.tb.Helper()
	s.Stop()
	s.store = bytes
	s.Start()
}

// Wipe stops the server, removes everything that JetStream stored, and starts the server again: the
// whole bus is lost.
func (s *Server) Wipe() {
	s.tb.Helper()
	s.Stop()
	if err := os.RemoveAll(filepath.Join(s.dir, server.JetStreamStoreDir)); err != nil {
		s.tb.Fatalf("remove the JetStream directory: %v", err)
	}
	s.Start()
}
