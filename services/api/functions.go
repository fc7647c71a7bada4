package api

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/console"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/services/api/internal/kernel/live"
	"waybill.dev/services/api/internal/kernel/selfapi"
	"waybill.dev/services/api/internal/kernel/web"
	"waybill.dev/shared/apikey"
)

// Gateway answers the paths that are not the API's own.
type Gateway = web.Gateway

// Function is one of the API's own operations, to be called within the process. It answers
// as the operation does over HTTP.
type Function = selfapi.Function

// FunctionRequest is what a Function is called with.
type FunctionRequest = selfapi.Request

// FunctionsModule is the name by which route files import the functions.
const FunctionsModule = selfapi.Module

// Functions returns the API's own operations by the names of their exports. They call
// handler, which is that of a Service; it is not called before one of them is.
func Functions(handler http.Handler) map[string]Function {
	routes := Routes()
	operations := make([]selfapi.Operation, 0, len(routes))
	for _, r := range routes {
		if !r.Stream && !r.Bytes { // a function's answer ends, and its body is JSON
			operations = append(operations, selfapi.Operation{ID: r.Operation, Method: r.Method, Path: r.Path, Scope: r.Scope, Or: r.Or, And: r.And, News: r.News, Slashes: r.Slashes})
		}
	}
	return selfapi.New(selfapi.Options{Operations: operations, API: handler})
}

// GuidesModule is the name by which route files import the guides.
const GuidesModule = selfapi.GuidesModule

// Guides returns the functions that search and read the guides of the folder docs, by the names
// of their exports. They are for everybody, and know nothing of any account.
func Guides() (map[string]Function, error) { return selfapi.Guides() }

// Paths returns the templates of the paths that the API answers itself, before its Gateway
// is asked.
func Paths() []string {
	templates := console.Paths()
	for _, r := range Routes() {
		templates = append(templates, r.Path)
		templates = append(templates, r.Aliases...)
	}
	return templates
}

// Tokens lets managers in at MCP servers by access tokens of the OpenID issuer.
type Tokens = auth.Tokens

// Tokens returns what takes access tokens; nil: there is no issuer.
func (s *Service) Tokens() *Tokens { return s.tokens }

// Follower hears what changes in an account.
type Follower = live.Follower

// Follow listens to what changes in an account, as a stream of it does, until it is stopped. The
// error is a *problem.Problem: there may be too many.
func (s *Service) Follow(account string) (*Follower, error) { return s.streams.Follow(account) }

// Authenticate finds out whose key it is. It fails with apikey.ErrUnauthenticated, or with
// an error that wraps domain.ErrUnavailable when that can't be told now. A call of the console
// has its session's principal in the context, which no request from outside has, and no key.
func (s *Service) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	if principal, ok := auth.FromContext(ctx); ok {
		return principal, nil
	}
	return s.keys.Authenticate(ctx, key)
}
