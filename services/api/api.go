// Package api is Waybill's HTTP service: webhooks, events and deliveries over REST, the
// acceptance of events into the database, and the relay from there to the bus.
package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace"
	"go.opentelemetry.io/otel/trace/noop"

	"waybill.dev/services/api/internal/accept"
	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/httpapi"
	"waybill.dev/services/api/internal/relay"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store"
)

// DefaultRetention is how long events and the delivery log are kept.
const DefaultRetention = 168 * time.Hour

// committers is how many commits of events run at a time on a database that takes
// several writers.
const committers = 2

// Options tell what the service works with. Handles stay the caller's own to close.
type Options struct {
	Store  *store.Store
	Bus    *bus.Bus
	Egress *egress.Policy
	Logger *slog.Logger
	// AdminKey is the bootstrap key: 32 to 256 visible ASCII characters.
	AdminKey domain.Secret

	RetrySchedule []time.Duration // of the installation; nil: domain.DefaultRetrySchedule
	Retention     time.Duration   // of events and delivery log; 0: DefaultRetention
	RateLimit     float64         // requests a second of one account; 0: no limit

	Registerer     prometheus.Registerer // nil: a registry of its own
	TracerProvider trace.TracerProvider  // nil: no traces
}

// Service is the running part and the handler of one process.
type Service struct {
	accepter *accept.Accepter
	relay    *relay.Relay
	handler  http.Handler
}

// ErrAdminKey is returned for an admin key of the wrong form.
var ErrAdminKey = auth.ErrBootstrapKey

// New returns the service. Nothing happens before Run.
func New(options Options) (*Service, error) {
	if options.Store == nil || options.Bus == nil || options.Egress == nil || options.Logger == nil {
		return nil, errors.New("make api: store, bus, egress and logger are required")
	}
	if options.RetrySchedule == nil {
		options.RetrySchedule = domain.DefaultRetrySchedule()
	}
	if options.Retention == 0 {
		options.Retention = DefaultRetention
	}
	if options.Registerer == nil {
		options.Registerer = prometheus.NewRegistry()
	}
	if options.TracerProvider == nil {
		options.TracerProvider = noop.NewTracerProvider()
	}
	authenticator, err := auth.NewBootstrap(options.AdminKey)
	if err != nil {
		return nil, fmt.Errorf("make api: %w", err)
	}
	n := committers
	if options.Store.SQLite() {
		n = 1
	}
	s := &Service{
		accepter: accept.New(accept.Options{
			Store: options.Store, Bus: options.Bus, Logger: options.Logger,
			Registerer: options.Registerer, Committers: n,
		}),
		relay: relay.New(relay.Options{
			Store: options.Store, Bus: options.Bus, Logger: options.Logger,
			Registerer: options.Registerer, Retention: options.Retention,
		}),
	}
	s.handler = httpapi.New(httpapi.Options{
		Store: options.Store, Bus: options.Bus, Accepter: s.accepter, Relay: s.relay, Egress: options.Egress,
		Authenticator: authenticator, Logger: options.Logger, Registerer: options.Registerer,
		TracerProvider: options.TracerProvider, RetrySchedule: options.RetrySchedule,
		Retention: options.Retention, RateLimit: options.RateLimit,
	})
	return s, nil
}

// Handler serves every route of the service. Publishing needs Run to be running: without
// it, it is answered with 503.
func (s *Service) Handler() http.Handler { return s.handler }

// Run commits and relays until ctx ends. Stop serving Handler first: what is submitted by
// then is still committed, and what follows is answered with 503.
func (s *Service) Run(ctx context.Context) error {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	errs := make(chan error, 2)
	go func() { errs <- s.accepter.Run(ctx) }()
	go func() { errs <- s.relay.Run(ctx) }()
	first := <-errs
	cancel()
	return errors.Join(first, <-errs)
}
