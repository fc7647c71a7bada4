// Package api is Waybill's HTTP service: webhooks, events and deliveries over REST, the
// acceptance of events into the database, and the relay from there to the bus.
package api

import (
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

// uploadPurpose is what the keys are derived for that sign the URLs of uploads.
const uploadPurpose = "uploads of deployments"

// committers is how many commits of events run at a time on a database that takes
// several writers.
const committers = 2

// Options tell what the service works with. Handles stay the caller's own to close.
type Options struct {
	Store  *store.Store
	Bus    *bus.Bus
	Egress *egress.Policy
	Logger *slog.Logger
	// AdminKey is the bootstrap key: 32 to 256 visible ASCII characters. It may be left out
	// once there are other keys, see HasKeys.
	AdminKey domain.Secret
	// Keyring is the one that the store seals with; what API keys are hashed with is derived
	// from it.
	Keyring *seal.Keyring

	RetrySchedule []time.Duration // of the installation; nil: domain.DefaultRetrySchedule
	Retention     time.Duration   // of events and delivery log; 0: DefaultRetention
	DisableAfter  time.Duration   // how long a webhook may only fail before dispatchers make it inactive; 0: 120 h
	RateLimit     float64         // requests a second of one account; 0: no limit
	SourceBytes   int64           // of route archives that an account may keep; 0: 1 GiB
	Limits        domain.Limits   // how many an account may have; all 0: domain.DefaultLimits

	// TrustedProxies are the networks of proxies whose X-Forwarded-For, -Host and -Proto count.
	TrustedProxies []netip.Prefix
	// PublicURL is what links begin with, without a slash at its end; empty: they are paths,
	// unless a trusted proxy tells how the client came.
	PublicURL string
	// Memory is what bodies in memory may take together; nil: there is no bound.
	Memory *body.Memory

	// OIDC signs people in to the console; without an Issuer keys alone do.
	OIDC OIDC

	// Gateway answers the paths that are not the API's own; nil: they are answered with 404.
	Gateway Gateway

	// Process is what the console tells operators of the process.
	Process Process
	// RouteState tells what the routes behind Gateway are; nil: nothing does.
	RouteState func() RouteState
	// ReloadRoutes reads their folder again. With faults, they stay as they are.
	ReloadRoutes func() ([]RouteFault, error)

	// GatewayURL is where gateways answer, without the name of a deployment, such as
	// https://gateway.example.com:8443; empty: it is not known, and told to nobody.
	GatewayURL string
	// LocalURL returns where a deployment answers on this machine besides; empty, or nil: it does not.
	LocalURL func(deployment string) string
	// Resolver is asked whose custom domains are; nil: who comes first has a hostname.
	Resolver Resolver

	Registerer     prometheus.Registerer // nil: a registry of its own
	TracerProvider trace.TracerProvider  // nil: no traces

	// observe is told of the console's pages and of what they called; nil: nobody. For tests.
	observe func(route console.Route, calls []console.Call)
	// pages are added to the console's. For tests.
	pages []console.Module
}

// Service is the running part and the handler of one process.
type Service struct {
	accepter *accept.Accepter
	relay    *relay.Relay
	keys     *auth.Keys
	tokens   *auth.Tokens // nil: there is no issuer of access tokens
	refusals *audit.Refusals
	news     *news.Publisher
	streams  *live.Streams
	readers  *feed.Readers
	publish  func(context.Context) error // serves those who publish on NATS
	console  *console.Console

	verify      func(context.Context) error // asks DNS about custom domains
	dispatchers func(context.Context) error // listens to their heartbeats
	handler     http.Handler
}

// complete sets what may be left out.
func (o *Options) complete() {
	if o.RetrySchedule == nil {
		o.RetrySchedule = domain.DefaultRetrySchedule()
	}
	if o.Retention == 0 {
		o.Retention = DefaultRetention
	}
	if o.DisableAfter == 0 {
		o.DisableAfter = 120 * time.Hour
	}
	if o.SourceBytes == 0 {
		o.SourceBytes = deployments.DefaultSourceBytes
	}
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

// busMetrics registers what the API tells of the bus, and returns the counter of messages of publishers with a
// NATS account of their own, by result.
func busMetrics(options *Options) *prometheus.CounterVec {
	published := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_bus_published_total",
		Help: "Messages of publishers with a NATS account of their own, by result.",
	}, []string{"result"})
	for _, result := range []string{bus.PublishStored, bus.PublishDuplicate, bus.PublishRefused, bus.PublishUnasked, bus.PublishNobody} {
		published.WithLabelValues(result) // from 0 on, so that Prometheus sees the first one
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

// Handler serves every route of the service. Publishing needs Run to be running: without
// it, it is answered with 503.
func (s *Service) Handler() http.Handler { return s.handler }

// EndStreams ends the answers that would never end by themselves. Call it when the server of
// Handler is asked to stop.
func (s *Service) EndStreams() {
	s.streams.End()
	s.readers.End()
}

// Run commits, relays and hears of changed keys until ctx ends. Stop serving Handler first:
// what is submitted by then is still committed, and what follows is answered with 503.
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
