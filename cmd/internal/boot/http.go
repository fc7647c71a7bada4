package boot

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"syscall"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/internal/telemetry"
)

// Limits of every HTTP server. A callback's receiver may take 30 s for its answer, and
// /debug/pprof/profile works for 30 s by default. The API has its own time limit for reading
// bodies.
const (
	readHeaderTimeout = 5 * time.Second
	readTimeout       = 15 * time.Second
	writeTimeout      = 40 * time.Second
	idleTimeout       = 60 * time.Second
	maxHeaderBytes    = 16 << 10
	// closeTime is how long the end waits for running requests.
	closeTime = 5 * time.Second
)

// Server is an HTTP server that listens already.
type Server struct {
	listener net.Listener
	http     *http.Server
	endCalls context.CancelFunc
}

// ServerOptions of a server; Name, Addr, Handler and Logger are required.
type ServerOptions struct {
	Name    string // for messages
	Addr    string // host:port; port 0 takes a free one
	Setting string // the setting that changes the address, for the message
	Handler http.Handler
	Logger  *slog.Logger
	// MaxConnections is how many connections the server accepts at a time, from one client at most
	// a quarter of them; 0: 4096.
	MaxConnections int
	TrustedProxies []netip.Prefix        // exempt from the share of one client
	Registerer     prometheus.Registerer // nil: no metrics of connections
	// EndCalls ends the contexts of running requests as soon as the server is asked to stop, for
	// requests that never end by themselves.
	EndCalls bool
}

// Listen listens on the address. If that fails, the error is one sentence.
func Listen(ctx context.Context, o ServerOptions) (*Server, error) {
	var config net.ListenConfig
	listener, err := config.Listen(ctx, "tcp", o.Addr)
	if err != nil {
		return nil, Refused(o.Name, o.Addr, o.Setting, err)
	}
	calls, endCalls := context.WithCancel(context.WithoutCancel(ctx))
	s := &Server{
		listener: limitConnections(listener, &o),
		http: &http.Server{
			Handler:           framed(o.Handler),
			ReadHeaderTimeout: readHeaderTimeout,
			ReadTimeout:       readTimeout,
			WriteTimeout:      writeTimeout,
			IdleTimeout:       idleTimeout,
			MaxHeaderBytes:    maxHeaderBytes,
			ErrorLog:          slog.NewLogLogger(telemetry.Stray(o.Logger).Handler(), slog.LevelWarn),
			BaseContext:       func(net.Listener) context.Context { return calls },
		},
		endCalls: endCalls,
	}
	if o.EndCalls {
		s.http.RegisterOnShutdown(endCalls)
	}
	return s, nil
}

// framed closes the connection after the answer to a chunked request. Such a request may also have
// a Content-Length. net/http ignores that header and removes it. But a proxy that uses it would
// take the following bytes for another request.
func framed(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(r.TransferEncoding) > 0 {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// URL returns the URL of the server, on loopback if it listens on all addresses.
func (s *Server) URL() string { return "http://" + reachable(s.listener.Addr()) }

func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if !ok {
		return addr.String()
	}
	host := tcp.IP.String()
	if tcp.IP.IsUnspecified() {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, strconv.Itoa(tcp.Port))
}

// Run serves until ctx is done and the running requests are answered, for which they have five
// seconds.
func (s *Server) Run(ctx context.Context) error {
	defer s.endCalls()
	served := make(chan error, 1)
	go func() { served <- s.serve() }()
	select {
	case err := <-served:
		return fmt.Errorf("serve HTTP: %w", err)
	case <-ctx.Done():
	}
	closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTime)
	defer cancel()
	err := s.http.Shutdown(closing)
	if errors.Is(err, context.DeadlineExceeded) {
		err = s.http.Close()
	}
	if serveErr := <-served; !errors.Is(serveErr, http.ErrServerClosed) {
		err = errors.Join(err, serveErr)
	}
	if err != nil {
		return fmt.Errorf("stop HTTP server: %w", err)
	}
	return nil
}

func (s *Server) serve() error {
	if s.http.TLSConfig != nil {
		return s.http.ServeTLS(s.listener, "", "")
	}
	return s.http.Serve(s.listener)
}

// Close stops listening, if Run has not done so.
func (s *Server) Close() error {
	s.endCalls()
	if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return fmt.Errorf("close listener: %w", err)
	}
	return nil
}

// Refused returns an error of one sentence: why name can't listen on addr, and which setting
// chooses another address.
func Refused(name, addr, setting string, err error) error {
	advice := ""
	if setting != "" {
		advice = ": choose another address with " + setting
	}
	var reason string
	switch {
	case errors.Is(err, syscall.EADDRINUSE):
		reason = "is in use by another process"
	case errors.Is(err, syscall.EACCES):
		reason = "can't be used by this user"
	case errors.Is(err, syscall.EADDRNOTAVAIL):
		reason = "is not an address of this machine"
	default:
		return fmt.Errorf("%s address %s can't be listened on%s: %w", name, addr, advice, err)
	}
	// The system's error would add nothing to the sentence.
	return &sentence{text: fmt.Sprintf("%s address %s %s%s", name, addr, reason, advice), cause: err}
}

// sentence is an error with a text that is complete without the cause.
type sentence struct {
	text  string
	cause error
}

func (s *sentence) Error() string { return s.text }
func (s *sentence) Unwrap() error { return s.cause }
