// Package api is Waybill's HTTP service: webhooks, events and deliveries over REST, the
// acceptance of events into the database, and the relay from there to the bus.
package api

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/netip"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/system"
	"waybill.dev/services/api/internal/families/feed"
	"waybill.dev/services/api/internal/kernel/accept"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/services/api/internal/kernel/relay"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/body"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/news"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
)

// DefaultRetention is how long events and the delivery log are kept.
const DefaultRetention = 168 * time.Hour

// uploadPurpose is the purpose of the keys that sign the URLs of uploads.
const uploadPurpose = "uploads of deployments"

// committers is how many commits of events run at a time on a database that takes
// several writers.
const committers = 2

// Options of the service. The caller closes the handles in them.
type Options struct {
	Store  *store.Store
	Bus    *bus.Bus
	Egress *egress.Policy
	Logger *slog.Logger
	// AdminKey is the bootstrap key: 32 to 256 visible ASCII characters. It may be empty once there are other
	// keys, see HasKeys.
	AdminKey domain.Secret
	// Keyring is the keyring that the store seals with. The key for the hashes of API keys is derived from it.
	Keyring *seal.Keyring

	RetrySchedule []time.Duration // default of the installation; nil: domain.DefaultRetrySchedule
	Retention     time.Duration   // of events and delivery log; 0: DefaultRetention
	DisableAfter  time.Duration   // how long a webhook may only fail before dispatchers make it inactive; 0: 120 h
	RateLimit     float64         // requests a second of one account; 0: no limit
	SourceBytes   int64           // bytes of route archives that an account may keep; 0: 1 GiB
	Limits        domain.Limits   // numbers of resources that an account may have; all 0: domain.DefaultLimits

	// TrustedProxies are the networks of proxies whose X-Forwarded-For, -Host and -Proto count.
	TrustedProxies []netip.Prefix
	// PublicURL is the beginning of links, without a slash at its end; empty: links are paths, unless a
	// trusted proxy says which address the client used.
	PublicURL string
	// Memory bounds the memory that all bodies take together; nil: there is no bound.
	Memory *body.Memory

	// OIDC signs people in to the console; without an Issuer keys alone do.
	OIDC OIDC

	// Gateway answers the paths that are not the API's own; nil: they are answered with 404.
	Gateway Gateway

	// Process describes the process to operators in the console.
	Process Process
	// RouteState returns the state of the routes behind Gateway; nil: there are none to show.
	RouteState func() RouteState
	// ReloadRoutes reads the folder of the routes again. If there are faults, the routes stay as they are.
	ReloadRoutes func() ([]RouteFault, error)

	// GatewayURL is the address of the gateways, without the name of a deployment, such as
	// https://gateway.example.com:8443; empty: it is not known, and not shown.
	GatewayURL string
	// LocalURL returns the local address of a deployment on this machine; if it returns an empty text, or is
	// nil, there is none.
	LocalURL func(deployment string) string
	// Resolver is asked for the proofs of custom domains; nil: the first account to claim a hostname has it.
	Resolver Resolver

	Registerer     prometheus.Registerer // nil: a registry of its own
	TracerProvider trace.TracerProvider  // nil: no traces

	// observe is called for each page of the console, with the calls that it made; may be nil. For tests.
	observe func(route console.Route, calls []console.Call)
	// pages are added to the console's. For tests.
	pages []console.Module
}

// Service is the service of one process: its handler, and the parts that run in the background.
type Service struct {
	accepter *accept.Accepter
	relay    *relay.Relay
	keys     *auth.Keys
	tokens   *auth.Tokens // nil: there is no issuer of access tokens
	refusals *audit.Refusals
	news     *news.Publisher
	streams  *live.Streams
	readers  *feed.Readers
	publish  func(context.Context) error // accepts events from publishers on NATS
	console  *console.Console

	verify      func(context.Context) error // asks DNS about custom domains
	dispatchers func(context.Context) error // receives the heartbeats of dispatchers
	handler     http.Handler
}

// complete sets the defaults of options.
func (o *Options) complete() {
	if o.RetrySchedule == nil {
		o.RetrySchedule = domain.DefaultRetrySchedule()
	}
	o.Retention = cmp.Or(o.Retention, DefaultRetention)
	o.DisableAfter = cmp.Or(o.DisableAfter, 120*time.Hour)
	o.SourceBytes = cmp.Or(o.SourceBytes, deployments.DefaultSourceBytes)
	if o.Limits == (domain.Limits{}) {
		o.Limits = domain.DefaultLimits()
	}
	if o.Registerer == nil {
		o.Registerer = prometheus.NewRegistry()
	}
	if o.TracerProvider == nil {
		o.TracerProvider = noop.NewTracerProvider()
	}
}

// New returns the service. Nothing happens before Run.
func New(options Options) (*Service, error) {
	if options.Store == nil || options.Bus == nil || options.Egress == nil || options.Logger == nil || options.Keyring == nil {
		return nil, errors.New("make api: store, bus, egress, logger and keyring are required")
	}
	options.complete()
	publisher := news.NewPublisher(options.Bus)
	db := newTables(options.Store)
	db.Keep(options.SourceBytes, options.Limits.Variables)
	db.Limit(options.Limits)
	options.Registerer.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_source_bytes", Help: "Bytes of route archives that all accounts keep, as the relay's leader counted them last, once an hour.",
	}, func() float64 { return float64(db.Kept()) }))
	keys, err := auth.NewKeys(auth.Options{
		Store: db, Bus: options.Bus, Logger: options.Logger,
		Bootstrap: options.AdminKey, Peppers: options.Keyring.Derive(authenticator.Purpose),
	})
	if err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	documents, err := spec.New()
	if err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	n := committers
	if options.Store.SQLite() {
		n = 1
	}
	s := &Service{
		news: publisher, streams: live.NewStreams(options.Bus, options.Logger),
		readers: feed.NewReaders(options.Bus, options.Logger),
		keys:    keys, tokens: auth.NewTokens(options.OIDC.Issuer, options.PublicURL, db), refusals: audit.NewRefusals(db, options.Logger),
		accepter: accept.New(accept.Options{
			Store: db, Bus: options.Bus, News: publisher, Logger: options.Logger,
			Registerer: options.Registerer, Committers: n,
		}),
		relay: relay.New(relay.Options{
			Store: db, Bus: relay.Surveyed{Bus: options.Bus}, Logger: options.Logger,
			Registerer: options.Registerer, Retention: options.Retention,
		}),
	}
	published := busMetrics(&options)
	s.publish = func(ctx context.Context) error {
		return options.Bus.ServePublishers(ctx, func(result string) { published.WithLabelValues(result).Inc() })
	}
	p := &parts{db: db, news: publisher, streams: s.streams, readers: s.readers, keys: keys, accepter: s.accepter, relay: s.relay, refusals: s.refusals, documents: documents, verifier: newVerifier(&options, db), dispatchers: system.NewDispatchers()}
	s.verify = func(ctx context.Context) error {
		if p.verifier == nil {
			<-ctx.Done()
			return nil
		}
		return p.verifier.Run(ctx)
	}
	s.dispatchers = func(ctx context.Context) error { return p.dispatchers.Run(ctx, options.Bus) }
	routes := families(&options, p)
	own := handler(&options, p, routes)
	if s.console, err = newConsole(&options, p, routes, own); err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	s.handler = front(s.console, own)
	return s, nil
}

// busMetrics registers the API's metrics of the bus, and returns the counter of messages from publishers with
// a NATS account of their own, by result.
func busMetrics(options *Options) *prometheus.CounterVec {
	published := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_bus_published_total",
		Help: "Messages of publishers with a NATS account of their own, by result.",
	}, []string{"result"})
	for _, result := range []string{bus.PublishStored, bus.PublishDuplicate, bus.PublishRefused, bus.PublishUnasked, bus.PublishNobody} {
		published.WithLabelValues(result) // initialized to 0, so that Prometheus sees the first increment
	}
	options.Registerer.MustRegister(published, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_bus_missing_bytes",
		Help: "Bytes that the bus needs for a stream for which there is no room. Nothing is delivered without that stream. 0: all streams are there.",
	}, func() float64 {
		if missing := options.Bus.Missing(); missing != nil {
			return float64(missing.Bytes)
		}
		return 0
	}))
	return published
}

// Handler returns the handler of every route of the service. Publishing works only while Run runs; otherwise
// it is answered with 503.
func (s *Service) Handler() http.Handler { return s.handler }

// EndStreams ends the answers that never end by themselves. The caller calls it when the server of Handler is
// asked to stop.
func (s *Service) EndStreams() {
	s.streams.End()
	s.readers.End()
}

// Run commits events, relays them and follows changes of keys until ctx ends. The caller stops serving Handler
// first: events that were submitted by then are still committed, and later ones are answered with 503.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	parts := []func(context.Context) error{s.accepter.Run, s.relay.Run, s.keys.Run, s.refusals.Run, s.news.Run, s.streams.Run, s.readers.Run, s.publish, s.dispatchers, s.verify}
	errs := make(chan error, len(parts))
	for _, run := range parts {
		go func() { errs <- run(ctx) }()
	}
	var all error
	for range parts {
		all = errors.Join(all, <-errs)
		cancel()
	}
	return all
}
