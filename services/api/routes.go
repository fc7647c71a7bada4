package api

import (
	"context"
	"log/slog"
	"net/http"

	"waybill.dev/services/api/internal/gateway"
	"waybill.dev/services/api/internal/httpapi"
	"waybill.dev/services/api/internal/operations"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/services/api/internal/routefile"
)

// RouteRequest is what a RouteFunc takes.
type RouteRequest = route.Request

// RouteResponse is what a RouteFunc may give.
type RouteResponse = route.Response

// RouteFunc answers a gateway route: with a *RouteResponse, or with a value; a text is
// answered as text, any other value as JSON. What its error says stays in the log.
type RouteFunc func(ctx context.Context, r *RouteRequest) (any, error)

// RouteInfo is what a route of the route files is, for people.
type RouteInfo = gateway.Info

// RouteFault is one thing that is wrong with the route files.
type RouteFault = routefile.Fault //nolint:errname // as gateways call it

// CheckRoutes reads route files as New does, and tells what their routes are, or everything
// that is wrong with them. Nothing is started: of Options, RoutesDir, RoutesOptional, Modules
// and Getenv are used.
func CheckRoutes(options Options) ([]RouteInfo, []RouteFault, error) {
	if options.Logger == nil {
		options.Logger = slog.New(slog.DiscardHandler)
	}
	return gateway.Check((&Service{}).gatewayOptions(options))
}

func (s *Service) gatewayOptions(options Options) gateway.Options {
	modules := map[string]map[string]route.Handler{
		operations.Module: operations.New(operations.Options{Operations: ownOperations(), Door: http.HandlerFunc(s.door)}),
	}
	for name, exports := range options.Modules {
		if modules[name] != nil {
			continue // its own operations are Waybill's to define
		}
		modules[name] = make(map[string]route.Handler, len(exports))
		for export, function := range exports {
			modules[name][export] = gateway.Function(function)
		}
	}
	g := gateway.Options{
		Dir: options.RoutesDir, Fallback: options.RoutesOptional, Modules: modules, Getenv: options.Getenv,
		Egress: options.Egress, Logger: options.Logger, Registerer: options.Registerer,
	}
	if s.keys != nil {
		g.Authenticator = s.keys
	}
	if g.Getenv == nil {
		g.Getenv = func(string) (string, bool) { return "", false }
	}
	for _, r := range httpapi.Routes() {
		g.Reserved = append(g.Reserved, r.Path)
	}
	g.Reserved = append(g.Reserved, httpapi.Aliases()...)
	return g
}

// door is the service's own handler, which is made after the routes that call it.
func (s *Service) door(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func ownOperations() []operations.Operation {
	routes := httpapi.Routes()
	list := make([]operations.Operation, len(routes))
	for i, r := range routes {
		list[i] = operations.Operation{ID: r.Operation, Method: r.Method, Path: r.Path, Scope: r.Scope}
	}
	return list
}
