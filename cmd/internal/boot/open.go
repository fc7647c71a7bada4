package boot

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/cenkalti/backoff/v4"
	"github.com/nats-io/nats.go"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"go.opentelemetry.io/otel/trace"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/cmd/internal/telemetry"
	"waybill.dev/shared/body"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

const (
	// databaseWait is how long the start waits for an unreachable database.
	databaseWait   = 30 * time.Second
	migrationLimit = 10 * time.Minute
)

// Options of a process.
type Options struct {
	Settings settings.Settings // complete: the keys and the database URL are set
	Name     string            // name of the process in traces, and on the bus with its inbox
	Version  string
	Logger   *slog.Logger
	// InProcess connects to a NATS server in this process; nil: Settings.NATSURL is used.
	InProcess nats.InProcessConnProvider
	// Migrate applies pending migrations instead of refusing to start.
	Migrate bool
	// Listening returns the present servers of the process, except those that Open makes; nil: there are none.
	Listening func() []*Server
}

// Handles are the connections and objects that the services work with. Each is opened once.
type Handles struct {
	Options

	Keyring  *seal.Keyring
	Store    *store.Store
	Bus      *bus.Bus
	Egress   *egress.Policy
	Registry *prometheus.Registry
	Tracer   trace.TracerProvider
	Memory   *body.Memory // for the bodies of requests
	OpsURL   string       // address of the metrics

	// TLS is the configuration of the TLS server: with the operator's certificate, unless a part of the process
	// sets another one before Serve. It is nil when there is no TLS server.
	TLS *tls.Config
	// ConnContext makes the context of a connection to the TLS server. A part of the process may set it before
	// Serve.
	ConnContext func(ctx context.Context, c net.Conn) context.Context
	// Certificate returns the operator's certificate; nil: there is none.
	Certificate func(*tls.ClientHelloInfo) (*tls.Certificate, error)

	http, ops, tls *Server
}

// ErrPending is returned when migrations are pending.
var ErrPending = errors.New("the database has pending migrations: apply them with `waybill migrate up`")

// Open opens the handles and adds them to p, which closes them at its end. If Open fails, p.Abandon closes those
// that were opened.
func Open(ctx context.Context, p *Process, o Options) (*Handles, error) {
	h := &Handles{Options: o, Registry: telemetry.NewRegistry(o.Version)}
	if err := h.openTracer(ctx, p); err != nil {
		return nil, err
	}
	p.Add("memory", GiveBackAtRest)
	ops, err := Listen(ctx, ServerOptions{
		Name: "Ops", Addr: o.Settings.OpsAddr, Setting: "--ops or " + settings.OpsAddr,
		Handler: telemetry.OpsHandler(h.Registry, append(o.Settings.OpsHosts, hostOf(o.Settings.OpsAddr))...), Logger: o.Logger, EndCalls: true,
		MaxConnections: o.Settings.MaxConnections, TrustedProxies: o.Settings.TrustedProxies, Registerer: h.Registry,
	})
	if err != nil {
		return nil, err
	}
	p.Add("ops server", ops.Run)
	h.ops = ops
	h.OpsURL = ops.URL()
	// Listen first, so that nothing has been touched if the address is not free.
	h.http, err = Listen(ctx, ServerOptions{
		Name: "HTTP", Addr: o.Settings.HTTPAddr, Setting: "--http or " + settings.HTTPAddr, Logger: o.Logger,
		MaxConnections: o.Settings.MaxConnections, TrustedProxies: o.Settings.TrustedProxies, Registerer: h.Registry,
	})
	if err != nil {
		return nil, err
	}
	p.AddCloser("HTTP address", h.http.Close)
	if err := h.openTLS(ctx, p); err != nil {
		return nil, err
	}
	if o.Settings.BodyMemory > 0 {
		h.Memory = body.NewMemory(o.Settings.BodyMemory, h.Registry)
	}
	h.Egress = &egress.Policy{Allow: o.Settings.EgressAllow, HTTP: o.Settings.EgressHTTP}
	h.Keyring, err = seal.Parse(o.Settings.EncryptionKey.Reveal())
	if err != nil {
		return nil, fmt.Errorf("%s: %w", settings.EncryptionKey, err)
	}
	if h.Store, err = openStore(ctx, p, o, h.Keyring); err != nil {
		return nil, err
	}
	h.measureStore()
	h.Bus, err = bus.Connect(bus.Options{
		URL: o.Settings.NATSURL.Reveal(), InProcess: o.InProcess, Name: o.Name, Logger: o.Logger,
		MACKeys:   h.Keyring.Derive("waybill event acceptance"),
		Replicas:  o.Settings.BusReplicas,
		Retention: o.Settings.BusRetention, DedupeWindow: o.Settings.DedupeWindow,
		MaxBytes: o.Settings.BusMaxBytes,
	})
	if err != nil {
		return nil, err
	}
	p.AddCloser("bus", func() error { h.Bus.Close(); return nil })
	return h, nil
}

// measureStore adds the metrics of the database.
func (h *Handles) measureStore() {
	for name, pool := range h.Store.Pools() {
		h.Registry.MustRegister(collectors.NewDBStatsCollector(pool, name))
	}
	if !h.Store.SQLite() {
		return
	}
	h.Registry.MustRegister(
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_sqlite_log_bytes", Help: "What is in the log (WAL) of the SQLite file.",
		}, func() float64 { return float64(h.Store.Log().Bytes) }),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_sqlite_log_waiting_bytes", Help: "What of the log (WAL) is not in the SQLite file itself yet.",
		}, func() float64 { return float64(h.Store.Log().Waiting) }))
}

// openTracer opens the exporter of traces. The last traces are sent when the process ends.
func (h *Handles) openTracer(ctx context.Context, p *Process) error {
	tracer, flush, err := telemetry.NewTracer(ctx, h.Name, h.Version, h.Logger)
	if err != nil {
		return err
	}
	h.Tracer = tracer
	p.Add("traces", func(ctx context.Context) error {
		<-ctx.Done()
		flushing, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
		defer cancel()
		if err := flush(flushing); err != nil {
			h.Logger.Warn("the last traces were not sent", "error", err)
		}
		return nil
	})
	return nil
}

// hostOf returns the name in the address that a process listens on; empty: none.
func hostOf(addr string) string {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return ""
	}
	return strings.ToLower(host)
}

// openStore opens the database and sees to its migrations.
func openStore(ctx context.Context, p *Process, o Options, keys *seal.Keyring) (*store.Store, error) {
	s, err := store.Open(ctx, store.Options{URL: o.Settings.DatabaseURL.Reveal(), Keys: keys, Logger: o.Logger})
	if err != nil {
		return nil, err
	}
	p.AddCloser("database", s.Close)
	waits := backoff.WithContext(backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(250*time.Millisecond), backoff.WithMaxInterval(3*time.Second), backoff.WithMaxElapsedTime(databaseWait)), ctx)
	err = backoff.RetryNotify(func() error {
		trying, cancel := context.WithTimeout(ctx, migrationLimit)
		defer cancel()
		err := prepare(trying, s, o)
		if err != nil && !errors.Is(err, domain.ErrUnavailable) {
			return backoff.Permanent(err)
		}
		return err
	}, waits, func(err error, wait time.Duration) {
		o.Logger.Warn("the database can't be reached; trying again", "error", err, "wait", wait.Round(time.Millisecond).String())
	})
	if err != nil {
		return nil, err
	}
	return s, nil
}

func prepare(ctx context.Context, s *store.Store, o Options) error {
	pending, err := s.Pending(ctx)
	switch {
	case err != nil:
		return fmt.Errorf("look for pending migrations: %w", err)
	case !pending:
		return nil
	case !o.Migrate:
		return ErrPending
	}
	applied, err := s.Migrate(ctx)
	if err != nil {
		return fmt.Errorf("migrate database: %w", err)
	}
	o.Logger.Debug("migrations applied", "count", len(applied))
	return nil
}

// Own returns the addresses, as host:port, that Waybill itself listens on or works with, as far as this process
// knows: those of all its parts, the bus and the database.
func (h *Handles) Own() []string {
	var own []string
	servers := h.callerServers()
	if h.Listening != nil {
		servers = append(servers, h.Listening()...)
	}
	for _, s := range servers {
		own = append(own, s.listener.Addr().String())
	}
	return append(append(append(own, h.ops.listener.Addr().String()), h.Bus.Addresses()...), h.Store.Addresses()...)
}

// callerServers returns the servers that callers reach: the HTTP server and, if there is one, the HTTPS server; not the
// server of the metrics.
func (h *Handles) callerServers() []*Server {
	if h.tls == nil {
		return []*Server{h.http}
	}
	return []*Server{h.http, h.tls}
}

// AtShutdown starts f once for each server when that server is shut down. The server does not wait for f.
func (h *Handles) AtShutdown(f func()) {
	for _, s := range h.callerServers() {
		s.http.RegisterOnShutdown(f)
	}
}

// GatewayURL returns the address of deployments, without their names; empty: not known. In dev, the default is
// the process's own address, with TLS if it has that.
func (h *Handles) GatewayURL() string {
	if s := h.Settings; s.GatewayURL != "" || s.Role != settings.Dev {
		return s.GatewayURL
	}
	scheme, usual, server := "http", "80", h.http
	if h.tls != nil {
		scheme, usual, server = "https", "443", h.tls
	}
	host := h.Settings.GatewayDomain
	if _, port, err := net.SplitHostPort(server.listener.Addr().String()); err == nil && port != usual {
		host = net.JoinHostPort(host, port)
	}
	return scheme + "://" + host
}

// Serve adds the servers, with the handler, and returns where the one without TLS answers.
func (h *Handles) Serve(p *Process, handler http.Handler) (url string) {
	for _, s := range h.callerServers() {
		s.http.Handler = framed(handler)
	}
	p.Add("HTTP server", h.http.Run)
	if h.tls != nil {
		h.tls.http.TLSConfig, h.tls.http.ConnContext = h.TLS, h.ConnContext
		p.Add("TLS server", h.tls.Run)
	}
	return h.http.URL()
}
