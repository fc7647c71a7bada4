// Package gateway is Waybill's data plane: it serves routes that others define, by their
// files. Nothing of it knows the rest of Waybill; what routes may call besides back ends is
// registered with it.
//
// The packages below internal, from what is written to what answers:
//
//	jsontree, jsonschema, routefile               what route files say
//	route, policy, handler, ratelimit, upstream   what a route is made of
//	mcpserver                                     routes as tools for AI clients
//	site                                          the routes of one folder, checked and compiled
//	folder, tenant, builder                       the way from an upload to a site
//	local, rollout, follow, hosts                 which site answers a request
//	acme, certificates, clientcert                TLS of custom domains and of callers
//	tunnel                                        back ends behind agents
//	observe, metering                             what was answered, counted
package gateway

import (
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/metering"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/shared/store"
	tables "waybill.dev/shared/store/metering"
)

// MaxAnswer is how long the answer of a handler may be, in bytes.
const MaxAnswer = route.MaxResponse

type (
	// Request is one call of a route.
	Request = route.Request
	// Response is the answer of a route.
	Response = route.Response
	// Handler answers calls of routes. One that has a method
	// Permits(*apikey.Principal) bool is not shown to AI clients whom it does not permit.
	Handler = route.Handler
	// Function is a Handler: it returns a *Response, or a value; a text is answered as
	// text, any other value as JSON. What its error says stays in the log.
	Function = site.Function
	// Policy is a kind of policy, which definitions in policies.json name.
	Policy = policy.Policy
	// PolicyEnv is what a policy is made from, besides its options.
	PolicyEnv = policy.Env
	// PolicyParts is what a definition makes: what runs before handlers, or after them.
	PolicyParts = policy.Parts
	// PolicyFault is one thing that is wrong with the options of a definition.
	PolicyFault = policy.Fault
	// Inbound is what runs before a handler. One that has a method NeedsBody() bool that
	// returns false is asked before the body is read. A Permits as that of Handler counts, too.
	Inbound = route.Inbound
	// Outbound is what sees an answer after the handler. With a NeedsBody as that of Inbound,
	// it sees answers that are still on their way.
	Outbound = route.Outbound
	// Authenticator finds out whose key it is.
	Authenticator = route.Authenticator
	// Follower gathers what changes in an account. Handlers with a method ChangesWith() []string say
	// with which kinds of it their answers change.
	Follower = route.Follower
)

// Policies are those that route files may define.
type Policies = policy.Registry

// NewPolicies returns the gateway's own policies, and those that a program adds to them. It
// fails when one of these lacks something, has a name that is taken, or is not true to its
// own schema.
func NewPolicies(added ...Policy) (*Policies, error) { return policy.NewRegistry(added...) }

// Routes are those of a folder, which is watched while Run runs.
type Routes = local.Routes

// RoutesOptions say which folder that is, and what its routes work with.
type RoutesOptions = local.Options

// Variables have the values that $env(NAME) in route files stands for.
type Variables = site.Variables

// RouteInfo is what a route of the route files is, for people.
type RouteInfo = site.Info

// RouteFault is one thing that is wrong with the route files.
type RouteFault = routefile.Fault //nolint:errname // as its package calls it

// RouteFaults are all that is wrong with the route files; Reload fails with them.
type RouteFaults = site.Faults //nolint:errname // as its package calls it

// RoutesState is what of a folder is served, and what is not.
type RoutesState = local.State

// NewRoutes loads the routes of a folder. The error has one line for each fault.
func NewRoutes(options RoutesOptions) (*Routes, error) { return local.New(options) }

// CheckRoutes reads route files as NewRoutes does, and tells what their routes are, or
// everything that is wrong with them. Nothing is started: of the options, Dir, Fallback,
// Modules, Policies, Reserved and Variables are used.
func CheckRoutes(options RoutesOptions) ([]RouteInfo, []RouteFault, error) {
	return local.Check(options)
}

// Traffic counts the requests of a process, and keeps a log of some of them, while Run runs.
type Traffic = observe.Recorder

// TrafficOptions say where, how many, and for how long.
type TrafficOptions = observe.Options

// Meters hold consumers to their plans. A process has one, whatever it serves.
type Meters = route.Meters

// NewMeters returns meters that know nobody yet. What they count is written with the counts of t.
func NewMeters(db *store.Store, t *Traffic, logger *slog.Logger, registerer prometheus.Registerer) Meters {
	return metering.New(metering.Options{Store: tables.New(db), Counts: t, Logger: logger, Registerer: registerer})
}

// NewTraffic returns one that has counted nothing.
func NewTraffic(options TrafficOptions) *Traffic { return observe.New(options) }
