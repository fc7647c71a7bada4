// Package natsd runs a nats-server with JetStream inside the process.
package natsd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"waybill.dev/cmd/internal/datadir"
)

const (
	// syncInterval is how often written data is forced to disk. It limits how many events that were published
	// directly on NATS a power cut can lose.
	syncInterval = 200 * time.Millisecond
	startTimeout = 30 * time.Second
	maxPayload   = 1 << 20
	// storeShare is the part of the disk space, free or already used by the streams, that the
	// streams may take.
	storeShare = 0.75
)

// Options of a server.
type Options struct {
	Addr   string // host:port; port 0 takes a free one
	Dir    string // folder of the streams; the caller makes sure that no other process uses it
	Logger *slog.Logger
}

// Server is a running nats-server.
type Server struct {
	nats *server.Server
	bind string
	dir  string
	log  *bridge
}

// Start starts a server and waits until it accepts connections.
func Start(ctx context.Context, o Options) (*Server, error) {
	host, port, err := split(o.Addr)
	if err != nil {
		return nil, err
	}
	// The server ends the process when it can't listen, so that is tried first.
	var listen net.ListenConfig
	probe, err := listen.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("listen for NATS: %w", err)
	}
	if err := probe.Close(); err != nil {
		return nil, fmt.Errorf("listen for NATS: %w", err)
	}
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("make NATS directory: %w", err)
	}
	if err := heal(o.Dir, o.Logger); err != nil {
		return nil, err
	}
	running, err := server.NewServer(&server.Options{
		ServerName: "waybill", Host: host, Port: port,
		JetStream: true, StoreDir: o.Dir, SyncInterval: syncInterval, JetStreamMaxStore: maxStore(o.Dir),
		MaxPayload: maxPayload, NoSigs: true, DisableJetStreamBanner: true,
	})
	if err != nil {
		return nil, fmt.Errorf("make NATS server: %w", err)
	}
	log := &bridge{log: o.Logger}
	running.SetLoggerV2(log, false, false, false)
	running.Start()
	s := &Server{nats: running, bind: host, dir: o.Dir, log: log}
	if !running.ReadyForConnections(startTimeout) {
		s.stop()
		return nil, errors.Join(fmt.Errorf("NATS server was not ready within %s", startTimeout), log.reason())
	}
	return s, nil
}

func split(addr string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(addr)
	if err != nil {
		return "", 0, fmt.Errorf("read NATS address: %w", err)
	}
	if port, err = strconv.Atoi(text); err != nil {
		return "", 0, fmt.Errorf("read NATS address: %w", err)
	}
	host = cmp.Or(host, "0.0.0.0")
	port = cmp.Or(port, server.RANDOM_PORT)
	return host, port, nil
}

// maxStore returns how many bytes the streams may have on the disk of dir; 0: the server
// decides.
func maxStore(dir string) int64 {
	free, _, ok := datadir.Space(dir)
	if !ok {
		return 0
	}
	return int64(float64(free+usedSpace(dir)) * storeShare)
}

// InProcess lets a client of this process join without a socket.
func (s *Server) InProcess() nats.InProcessConnProvider { return s.nats }

// URL returns the URL for clients.
func (s *Server) URL() string {
	port := ""
	if address, ok := s.nats.Addr().(*net.TCPAddr); ok {
		port = strconv.Itoa(address.Port)
	}
	host := s.bind
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return "nats://" + net.JoinHostPort(host, port)
}

// Run keeps the server running until ctx is done, then stops it with complete files. After its disk was full, it
// resumes the streams once there is space.
func (s *Server) Run(ctx context.Context) error {
	var resuming sync.WaitGroup
	defer resuming.Wait()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	resuming.Go(func() { s.resume(ctx) })
	ended := make(chan struct{})
	go func() {
		s.nats.WaitForShutdown()
		close(ended)
	}()
	select {
	case <-ctx.Done():
		s.stop()
		<-ended
		return nil
	case <-ended:
		return errors.New("NATS server ended by itself")
	}
}

func (s *Server) stop() {
	s.nats.Shutdown()
	s.nats.WaitForShutdown()
}
