package api

import (
	"net/http"
	"slices"

	"github.com/prometheus/client_golang/prometheus"
	"go.opentelemetry.io/otel/trace/noop"

	"waybill.dev/services/api/internal/console/system"
	"waybill.dev/services/api/internal/families/accounts"
	"waybill.dev/services/api/internal/families/buckets"
	"waybill.dev/services/api/internal/families/clientcas"
	"waybill.dev/services/api/internal/families/consumers"
	"waybill.dev/services/api/internal/families/deliveries"
	"waybill.dev/services/api/internal/families/deployments"
	"waybill.dev/services/api/internal/families/documents"
	"waybill.dev/services/api/internal/families/domains"
	"waybill.dev/services/api/internal/families/events"
	"waybill.dev/services/api/internal/families/expiring"
	"waybill.dev/services/api/internal/families/explanations"
	"waybill.dev/services/api/internal/families/feed"
	"waybill.dev/services/api/internal/families/health"
	"waybill.dev/services/api/internal/families/insight"
	"waybill.dev/services/api/internal/families/jobs"
	"waybill.dev/services/api/internal/families/keys"
	"waybill.dev/services/api/internal/families/managers"
	"waybill.dev/services/api/internal/families/metering"
	"waybill.dev/services/api/internal/families/receivers"
	"waybill.dev/services/api/internal/families/rejected"
	"waybill.dev/services/api/internal/families/signingkeys"
	"waybill.dev/services/api/internal/families/traffic"
	"waybill.dev/services/api/internal/families/tunnels"
	"waybill.dev/services/api/internal/families/variables"
	"waybill.dev/services/api/internal/families/webhooks"
	"waybill.dev/services/api/internal/kernel/audit"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/edge"
)

// Route is one operation of the service.
type Route = web.Route

// Routes returns every operation of the service, to be read only: they can't be called.
func Routes() []Route {
	nothing := Options{Registerer: prometheus.NewRegistry(), TracerProvider: noop.NewTracerProvider()}
	return families(&nothing, &parts{})
}

// parts are what the handler works with, in addition to Options.
type parts struct {
	db        tables
	news      web.News
	streams   *live.Streams
	readers   *feed.Readers
	keys      *auth.Keys
	accepter  events.Accepter
	relay     interface{ Poke() }
	refusals  web.Refusals
	documents *spec.Documents
	verifier  *domains.Verifier // nil: DNS is not asked

	dispatchers *system.Dispatchers
}

// families returns the operations of each family of resources.
func families(o *Options, p *parts) []Route {
	db := p.db
	requested := func() {
		p.relay.Poke()
		o.Bus.Announce(bus.SubjectRelay, nil)
	}
	doing := receivers.NewReader(receivers.Options{Rollups: db, Webhooks: db, Retention: o.Retention, DisableAfter: o.DisableAfter})
	return slices.Concat(
		health.Routes(db, o.Bus),
		webhooks.Routes(webhooks.Options{Store: db, Receivers: doing, Events: db, Bus: o.Bus, Egress: o.Egress, RetrySchedule: o.RetrySchedule, Retention: o.Retention}),
		signingkeys.Routes(db, o.Bus),
		expiring.Routes(db),
		events.Routes(events.Options{Store: db, Accepter: p.accepter, Registerer: o.Registerer, TracerProvider: o.TracerProvider}),
		deliveries.Routes(deliveries.Options{Log: db, Requests: db, Requested: requested}),
		insight.Routes(insight.Options{Rollups: db, Webhooks: db, Receivers: doing}),
		explanations.Routes(explanations.Options{Log: db, RetrySchedule: o.RetrySchedule}),
		live.Routes(p.streams),
		feed.Routes(db, p.readers),
		jobs.Routes(jobs.Options{Maker: db, Store: db, Requested: requested, Cancelled: func(id string) { o.Bus.Announce(bus.SubjectJobs, []byte(id)) }}),
		rejected.Routes(db, o.Bus),
		accounts.Routes(accounts.Options{Accounts: db, Projects: db, Keys: p.keys}),
		audit.Routes(db),
		buckets.Routes(db),
		consumers.Routes(db, p.keys),
		keys.Routes(db, p.keys),
		managers.Routes(db),
		deployments.Routes(deploymentOptions(o, db)),
		variables.Routes(db, db),
		traffic.Routes(db, db),
		tunnels.Routes(tunnelOptions(o, db)),
		metering.Routes(metering.Options{
			Meters: db, Features: db, Plans: db, Subscriptions: db,
			Changed: func() { o.Bus.Announce(bus.SubjectGateway, nil) }, Resumed: func() { o.Bus.Announce(bus.SubjectConfig, nil) },
		}),
		domains.Routes(domainOptions(o, p)),
		clientcas.Routes(db, func() { o.Bus.Announce(bus.SubjectGateway, nil) }),
		documents.Routes(p.documents),
	)
}

func deploymentOptions(o *Options, db tables) deployments.Options {
	options := deployments.Options{
		Sources: db, Deployments: db, Builds: db, Domains: db, GatewayURL: o.GatewayURL, LocalURL: o.LocalURL,
		Changed: func() { o.Bus.Announce(bus.SubjectGateway, nil) },
	}
	if o.Keyring != nil {
		options.Signing = o.Keyring.Derive(uploadPurpose)
	}
	if o.RouteState != nil && o.ReloadRoutes != nil {
		options.Local = &deployments.Local{
			State: func() deployments.LocalState {
				s := o.RouteState()
				return deployments.LocalState{Loaded: s.Loaded, Faults: localFaults(s.Faults), FaultsAt: s.FaultsAt}
			},
			Reload: func() ([]deployments.LocalFault, error) {
				faults, err := o.ReloadRoutes()
				return localFaults(faults), err
			},
		}
	}
	return options
}

func localFaults(faults []RouteFault) []deployments.LocalFault {
	list := make([]deployments.LocalFault, len(faults))
	for i, f := range faults {
		list[i] = deployments.LocalFault{File: f.File, Operation: f.Operation, Pointer: f.Pointer, Message: f.Message}
	}
	return list
}

// handler returns the handler of every route.
func handler(o *Options, p *parts, routes []Route) http.Handler {
	return web.New(web.Options{
		Routes: routes, Authenticator: p.keys, Keys: p.keys, Refusals: p.refusals, News: p.news, Gateway: o.Gateway,
		Edge: &edge.Edge{Trusted: o.TrustedProxies, PublicURL: o.PublicURL}, Memory: o.Memory,
		Logger: o.Logger, Registerer: o.Registerer, RateLimit: o.RateLimit,
	})
}
