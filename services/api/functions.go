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

// Function is one of the API's own operations, as a function of the process. It answers as the
// operation does over HTTP.
type Function = selfapi.Function

// FunctionRequest is the argument of a Function.
type FunctionRequest = selfapi.Request

// FunctionsModule is the name by which route files import the functions.
const FunctionsModule = selfapi.Module

// Functions returns the API's own operations by the names of their exports. They call handler, the
// handler of a Service, but not before one of them is called.
func Functions(handler http.Handler) map[string]Function {
	routes := Routes()
	operations := make([]selfapi.Operation, 0, len(routes))
	for _, r := range routes {
		if !r.Stream && !r.Bytes { // only functions with a finite JSON answer
			operations = append(operations, selfapi.Operation{ID: r.Operation, Method: r.Method, Path: r.Path, Scope: r.Scope, Or: r.Or, And: r.And, News: r.News, Slashes: r.Slashes})
		}
	}
	return selfapi.New(selfapi.Options{Operations: operations, API: handler})
}

// GuidesModule is the name by which route files import the guides.
const GuidesModule = selfapi.GuidesModule

// Guides returns the functions that search and read the guides of the folder docs, by the names of
// their exports. They are public, and contain nothing of any account.
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

// Tokens returns the checker of access tokens; nil: there is no issuer.
func (s *Service) Tokens() *Tokens { return s.tokens }

// Follower gathers the changes in an account.
type Follower = live.Follower

// Follow starts a Follower of an account, which hears the same changes as the account's streams,
// until it is stopped. The error is a *problem.Problem: there may be too many.
func (s *Service) Follow(account string) (*Follower, error) { return s.streams.Follow(account) }

// Authenticate finds out to whom a key belongs. It fails with apikey.ErrUnauthenticated, or with an
// error that wraps domain.ErrUnavailable when it can't find out now. A call from the console has no
// key: its session's principal is in the context, where no request from outside can put one.
func (s *Service) Authenticate(ctx context.Context, key string) (apikey.Principal, error) {
	if principal, ok := auth.FromContext(ctx); ok {
		return principal, nil
	}
	return s.keys.Authenticate(ctx, key)
}
