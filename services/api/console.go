package api

import (
	"context"
	"net/http"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/console/access"
	"waybill.dev/services/api/internal/console/alerts"
	"waybill.dev/services/api/internal/console/audit"
	"waybill.dev/services/api/internal/console/catalogue"
	"waybill.dev/services/api/internal/console/certificates"
	"waybill.dev/services/api/internal/console/deliveries"
	"waybill.dev/services/api/internal/console/deployments"
	"waybill.dev/services/api/internal/console/domains"
	"waybill.dev/services/api/internal/console/environments"
	"waybill.dev/services/api/internal/console/events"
	"waybill.dev/services/api/internal/console/home"
	"waybill.dev/services/api/internal/console/jobs"
	"waybill.dev/services/api/internal/console/metering"
	"waybill.dev/services/api/internal/console/playground"
	"waybill.dev/services/api/internal/console/problems"
	"waybill.dev/services/api/internal/console/rejected"
	"waybill.dev/services/api/internal/console/settings"
	"waybill.dev/services/api/internal/console/system"
	"waybill.dev/services/api/internal/console/tunnels"
	"waybill.dev/services/api/internal/console/webhooks"
	"waybill.dev/services/api/internal/spec"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/requestid"
)

// OIDC is the provider that signs people in to the console, in addition to keys. It is off without
// an Issuer.
type OIDC = console.OIDC

// Process is the description of a process for operators, on the console's page System.
type Process = system.Process

// Setting is a setting of a Process. Its value has nothing that is secret.
type Setting = system.Setting

// RouteState says which route files are served, and which are not.
type RouteState = system.RouteState

// RouteLine is a route of a RouteState.
type RouteLine = system.RouteLine

// RouteFault is one fault in the files of a RouteState.
type RouteFault = system.RouteFault

// modules returns the pages of the console. Each group is a package of its own, which knows nothing
// of the others.
func modules(o system.Options) []console.Module {
	return []console.Module{
		home.Module(), problems.Module(), alerts.Module(), events.Module(), deliveries.Module(), jobs.Module(),
		webhooks.Module(), catalogue.Module(), rejected.Module(), deployments.Module(), environments.Module(), domains.Module(), certificates.Module(), tunnels.Module(),
		access.Module(), metering.Module(), audit.Module(), playground.Module(), system.Module(o), settings.Module(),
	}
}

// Page is a page of the console, or an act.
type Page = console.Route

// Pages returns every page and action of the console, to be read only: they can't be served.
func Pages() []Page {
	var all []Page
	for _, m := range modules(system.Options{}) {
		all = append(all, m.Routes...)
	}
	return all
}

// operator returns what the pages for the operator show.
func operator(o *Options, dispatchers *system.Dispatchers) system.Options {
	metrics, _ := o.Registerer.(prometheus.Gatherer) // only a Gatherer has metrics to show
	return system.Options{
		Process: o.Process, Store: o.Store, Bus: o.Bus, Dispatchers: dispatchers, RouteState: o.RouteState, Metrics: metrics,
	}
}

// newConsole returns the console over the API's own handler.
func newConsole(o *Options, p *parts, routes []Route, own http.Handler) (*console.Console, error) {
	tools, err := spec.Tools()
	if err != nil {
		return nil, err
	}
	operations := make([]console.Operation, len(routes))
	for i, r := range routes {
		operations[i] = console.Operation{ID: r.Operation, Method: r.Method, Path: r.Path, Scope: r.Scope, Tool: tools[r.Operation].Name, Toolset: tools[r.Operation].Toolset}
	}
	return console.New(console.Options{
		API: own, Operations: operations, Sessions: p.db, Managers: p.db, Keys: p.keys, Keyring: o.Keyring,
		Edge: &edge.Edge{Trusted: o.TrustedProxies, PublicURL: o.PublicURL}, PublicURL: o.PublicURL, OIDC: o.OIDC, Memory: o.Memory,
		Modules: append(modules(operator(o, p.dispatchers)), o.pages...), Logger: o.Logger, Observe: o.observe,
	})
}

// ConsoleLink returns the path of a link that signs in to the console with the bootstrap key, once
// and within 60 s; empty: there is no such key.
func (s *Service) ConsoleLink(ctx context.Context) (string, error) { return s.console.Link(ctx) }

// front passes requests for the console to pages, and everything else to own. A browser that asks
// for / is redirected to the console; other clients get an index of the addresses here.
func front(pages, own http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.URL.Path == "/console" || strings.HasPrefix(r.URL.Path, "/console/"):
			pages.ServeHTTP(w, r)
		case r.URL.Path == "/":
			index(w, r)
		default:
			own.ServeHTTP(w, r)
		}
	})
}

// index answers at /.
func index(w http.ResponseWriter, r *http.Request) {
	header, id := w.Header(), requestid.Of(r.Header)
	header.Set(requestid.Header, id)
	header.Set("Vary", "Accept")
	header.Set("Cache-Control", "no-store")
	header.Set("X-Content-Type-Options", "nosniff")
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		header.Set("Allow", "GET, HEAD")
		problem.New(problem.MethodNotAllowed, "This resource does not know the method; see Allow.").Write(w, r, id)
		return
	}
	if strings.Contains(strings.Join(r.Header.Values("Accept"), ","), "text/html") {
		header.Set("Location", "/console")
		w.WriteHeader(http.StatusSeeOther)
		return
	}
	body, err := json.Marshal(struct {
		Name     string `json:"name"`
		Console  string `json:"console"`
		OpenAPI  string `json:"openapi"`
		AsyncAPI string `json:"asyncapi"`
		Docs     string `json:"docs"`
		Health   string `json:"health"`
	}{"Waybill", "/console", "/openapi", "/asyncapi", "/docs", "/healthz"})
	if err != nil {
		http.Error(w, "", http.StatusInternalServerError)
		return
	}
	header.Set("Content-Type", "application/json; charset=utf-8")
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
