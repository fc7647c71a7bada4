// Package selfapi has the API's own operations as Go functions, for routes of a gateway in the same process: each
// operation of the HTTP API under its operation id, answered by the same handler. It also has functions without an
// operation in the API: the event types with a sample of each, and the receivers' guide.
package selfapi

import (
	"context"
	"net/http"

	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/problem"
)

// Module is the name that route files import the operations by.
const Module = "waybill"

// The exports that are no operation of the API.
const (
	ExportCatalogue = "listEventTypes"
	ExportGuide     = "receiverGuide"
	ExportAsk       = "askWhyNotDelivered"
)

// Operation is an operation of the API: its method and path, and the scopes that a caller needs.
type Operation struct {
	ID     string // as in the OpenAPI document
	Method string
	Path   string // a {name} stands for one segment
	Scope  domain.Scope
	Or     domain.Scope // another scope that is enough; empty: none
	And    domain.Scope // another scope that is required, too; empty: none
	// News are the kinds of news after which its answer may be another.
	News []news.Kind
	// Slashes lets a parameter have slashes, which are sent escaped.
	Slashes bool
}

// Options of the module; both are required.
type Options struct {
	Operations []Operation
	// API is the HTTP API. It accepts the caller in a request's context, see auth.WithPrincipal, and is not called before
	// the first route is.
	API http.Handler
}

// New returns the functions by their export.
func New(options Options) map[string]Function {
	api := &client{options.API}
	functions := map[string]Function{
		ExportCatalogue: open(listEventTypes),
		ExportGuide:     open(receiverGuide),
		ExportAsk:       asker{},
	}
	for _, operation := range options.Operations {
		functions[operation.ID] = &own{operation: operation, api: api}
	}
	return functions
}

// own is an operation of the API.
type own struct {
	operation Operation
	api       *client
}

// Handle implements Function.
func (o *own) Handle(ctx context.Context, r *Request) (*Response, error) {
	path, ok := fill(o.operation, r.Params)
	if !ok {
		return nil, problem.Missing()
	}
	return o.api.call(ctx, r, message{o.operation.Method, path, r.Query, r.Body}, r.MaxAnswer)
}

// Permits implements Function.
func (o *own) Permits(principal *apikey.Principal) bool {
	needs := &o.operation
	if needs.And != "" && !permits(principal, needs.And) {
		return false
	}
	return needs.Scope == "" || permits(principal, needs.Scope) || needs.Or != "" && permits(principal, needs.Or)
}

// ChangesWith returns the kinds of news after which its answer may be another.
func (o *own) ChangesWith() []string {
	kinds := make([]string, len(o.operation.News))
	for i, kind := range o.operation.News {
		kinds[i] = string(kind)
	}
	return kinds
}

func permits(principal *apikey.Principal, scopes ...domain.Scope) bool {
	if principal == nil {
		return false
	}
	for _, scope := range scopes {
		if !principal.May(scope) {
			return false
		}
	}
	return true
}
