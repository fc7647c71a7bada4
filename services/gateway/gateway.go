// Package gateway is Waybill's data plane: it serves the routes that route files define. No package
// of the gateway knows the rest of Waybill: functions that routes may call, other than back ends,
// are registered with the gateway.
//
// The packages below internal, from the text of a route to its answer:
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
	// Handler answers calls of routes. A Handler with a method Permits(*apikey.Principal) bool is
	// hidden from the AI clients that it does not permit.
	Handler = route.Handler
	// Function is a Handler that returns a *Response or another value. A string is answered as text,
	// any other value as JSON. The text of its error goes to the log only.
	Function = site.Function
	// Policy is a kind of policy, which definitions in policies.json name.
	Policy = policy.Policy
	// PolicyEnv has everything that a policy is made from, except its options.
	PolicyEnv = policy.Env
	// PolicyParts are the results of a definition: the steps that run before or after handlers.
	PolicyParts = policy.Parts
	// PolicyFault is one thing that is wrong with the options of a definition.
	PolicyFault = policy.Fault
	// Inbound is a step that runs before a handler. If it has a method NeedsBody() bool that returns
	// false, it runs before the body is read. A method Permits counts as that of Handler does.
	Inbound = route.Inbound
	// Outbound is a step that gets the answer after the handler. If it has a NeedsBody like that of
	// Inbound, it also gets answers whose bodies are still arriving.
	Outbound = route.Outbound
	// Authenticator finds out to whom a key belongs.
	Authenticator = route.Authenticator
	// Follower gathers the changes of an account. A handler with a method ChangesWith() []string
	// names the kinds of changes that change its answers.
	Follower = route.Follower
)

// Policies are the policies that route files may define.
type Policies = policy.Registry

// NewPolicies returns the gateway's own policies and the added ones. It fails when an added policy
// is incomplete, has a name that is taken, or breaks its own schema.
func NewPolicies(added ...Policy) (*Policies, error) { return policy.NewRegistry(added...) }

// Routes are the routes of a folder, which is watched while Run runs.
type Routes = local.Routes

// RoutesOptions name the folder, and the parts that its routes work with.
type RoutesOptions = local.Options

// Variables have the values that $env(NAME) in route files stands for.
type Variables = site.Variables

// RouteInfo describes a route of the route files for people.
type RouteInfo = site.Info

// RouteFault is one thing that is wrong with the route files.
type RouteFault = routefile.Fault //nolint:errname // as its package calls it

// RouteFaults are all faults of the route files; Reload fails with them.
type RouteFaults = site.Faults //nolint:errname // as its package calls it

// RoutesState says which routes of a folder are served, and which are not.
type RoutesState = local.State

// NewRoutes loads the routes of a folder. The error has one line for each fault.
func NewRoutes(options RoutesOptions) (*Routes, error) { return local.New(options) }

// CheckRoutes reads route files as NewRoutes does, and returns their routes, or everything that is
// wrong with them. Nothing is started. Of the options, only Dir, Fallback, Modules, Policies,
// Reserved and Variables are used.
func CheckRoutes(options RoutesOptions) ([]RouteInfo, []RouteFault, error) {
	return local.Check(options)
}

// Traffic counts the requests of a process, and keeps a log of some of them, while Run runs.
type Traffic = observe.Recorder

// TrafficOptions say where the log of requests is kept, how many requests it holds, and for how
// long.
type TrafficOptions = observe.Options

// Meters hold consumers to their plans. A process has one Meters for everything that it serves.
type Meters = route.Meters

// NewMeters returns meters that know no consumer yet. Their counts are written with the counts of t.
func NewMeters(db *store.Store, t *Traffic, logger *slog.Logger, registerer prometheus.Registerer) Meters {
	return metering.New(metering.Options{Store: tables.New(db), Counts: t, Logger: logger, Registerer: registerer})
}

// NewTraffic returns one that has counted nothing.
func NewTraffic(options TrafficOptions) *Traffic { return observe.New(options) }
