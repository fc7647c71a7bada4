package apipart

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"

	"waybill.dev/services/api"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/apikey"
)

// Compose makes an API with routes: the routes accept the API's keys, may name its functions as a
// module, and answer all paths that are not the API's. The two services don't know each other;
// Compose connects them. The caller runs both results.
func Compose(options api.Options, routes gateway.RoutesOptions) (*api.Service, *gateway.Routes, error) {
	own := &ownAPI{}
	routes.Authenticator, routes.Changes, routes.Version = own, own, options.Process.Version
	if options.OIDC.Issuer != "" {
		routes.Tokens = own
	}
	routes, err := complete(routes, own)
	if err != nil {
		return nil, nil, err
	}
	g, err := gateway.NewRoutes(routes)
	if err != nil {
		return nil, nil, fmt.Errorf("make routes: %w", err)
	}
	options.Gateway, options.RouteState = g, func() api.RouteState { return stateOf(g.State()) }
	options.ReloadRoutes = func() ([]api.RouteFault, error) { return reload(g) }
	if own.service, err = api.New(options); err != nil {
		return nil, nil, err
	}
	return own.service, g, nil
}

// CheckRoutes reads the route files of a folder as Compose does, and returns what their routes
// are, or everything that is wrong with them. Nothing is started: of the options, Dir,
// Fallback, Modules and Variables are used.
func CheckRoutes(routes gateway.RoutesOptions) ([]gateway.RouteInfo, []gateway.RouteFault, error) {
	routes, err := complete(routes, http.NotFoundHandler())
	if err != nil {
		return nil, nil, err
	}
	return gateway.CheckRoutes(routes)
}

// complete adds the parts of the API that routes use. Its modules replace others of the same
// names.
func complete(routes gateway.RoutesOptions, own http.Handler) (gateway.RoutesOptions, error) {
	guides, err := api.Guides()
	if err != nil {
		return routes, fmt.Errorf("make module %s: %w", api.GuidesModule, err)
	}
	modules := make(map[string]map[string]gateway.Handler)
	maps.Copy(modules, routes.Modules)
	modules[api.FunctionsModule] = handlers(api.Functions(own))
	modules[api.GuidesModule] = handlers(guides)
	routes.Modules, routes.Reserved = modules, api.Paths()
	return routes, nil
}

// handlers returns functions as a module of routes.
func handlers(functions map[string]api.Function) map[string]gateway.Handler {
	module := make(map[string]gateway.Handler, len(functions))
	for export, f := range functions {
		module[export] = function{f}
	}
	return module
}

// ownAPI is the API for the routes. Its service is set after the routes are made, and before
// anything is served.
type ownAPI struct{ service *api.Service }

func (o *ownAPI) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.service.Handler().ServeHTTP(w, r)
}

// Authenticate implements gateway.Authenticator.
func (o *ownAPI) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	return o.service.Authenticate(ctx, key)
}

// Follow implements gateway.Changes.
func (o *ownAPI) Follow(account string) (gateway.Follower, error) {
	f, err := o.service.Follow(account)
	if err != nil {
		return nil, err // not f: a nil pointer in the interface would not be nil
	}
	return f, nil
}

// Issuer implements gateway.Tokens.
func (o *ownAPI) Issuer() string { return o.service.Tokens().Issuer() }

// Scopes implements gateway.Tokens.
func (o *ownAPI) Scopes() []string { return o.service.Tokens().Scopes() }

// AuthenticateToken implements gateway.Tokens.
func (o *ownAPI) AuthenticateToken(ctx context.Context, token, path, account, consumer string) (apikey.Principal, error) {
	return o.service.Tokens().Authenticate(ctx, token, path, account, consumer)
}

// function is a function of the API as the handler of a route.
type function struct{ function api.Function }

// Handle implements gateway.Handler.
func (f function) Handle(ctx context.Context, r *gateway.Request) (*gateway.Response, error) {
	answer, err := f.function.Handle(ctx, &api.FunctionRequest{
		Query: r.Query.Raw(), Params: r.Params, Header: r.Header, Body: r.Body,
		Host: r.Host, Scheme: r.Scheme, Base: r.Base, Remote: r.Remote, ID: r.ID,
		Principal: r.Principal, Inside: r.Inside, MaxAnswer: gateway.MaxAnswer,
	})
	if err != nil {
		return nil, err
	}
	return &gateway.Response{Status: answer.Status, Header: answer.Header, Body: answer.Body}, nil
}

// Permits says to the gateway which callers would get past the function.
func (f function) Permits(principal *apikey.Principal) bool { return f.function.Permits(principal) }

// ChangesWith says to the gateway with which kinds of news the function's answer changes.
func (f function) ChangesWith() []string {
	if changing, ok := f.function.(interface{ ChangesWith() []string }); ok {
		return changing.ChangesWith()
	}
	return nil
}

// stateOf converts the state of the gateway's routes to the API's type.
func stateOf(s gateway.RoutesState) api.RouteState {
	state := api.RouteState{Dir: s.Dir, Loaded: s.Loaded, Files: s.Files, FaultsAt: s.FaultsAt}
	for _, r := range s.Routes {
		state.Routes = append(state.Routes, api.RouteLine{
			File: r.File, Operation: r.Operation, Method: r.Method, Path: r.Path, Handler: r.Handler, MCP: r.MCP, Inbound: r.Inbound, Outbound: r.Outbound,
		})
	}
	state.Faults = faultsOf(s.Faults)
	return state
}

func faultsOf(faults []gateway.RouteFault) []api.RouteFault {
	var list []api.RouteFault
	for _, f := range faults {
		list = append(list, api.RouteFault{File: f.File, Operation: f.Operation, Pointer: f.Pointer, Message: f.Message})
	}
	return list
}

// reload reads the folder again. The built-in routes never change.
func reload(g *gateway.Routes) ([]api.RouteFault, error) {
	if g.State().Dir == "" {
		return nil, nil
	}
	err := g.Reload()
	if faults, ok := errors.AsType[gateway.RouteFaults](err); ok {
		return faultsOf(faults), nil
	}
	return nil, err
}
