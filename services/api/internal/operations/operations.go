// Package operations has Waybill's own operations as handlers of gateway routes, in the
// module waybill: each operation of its HTTP API under its operation id, answered in this
// process by the same handler, and what the API has no operation for: why a delivery is
// where it is, the events with a sample of each, and the receivers' guide.
package operations

import (
	"context"
	"net/http"

	"waybill.dev/services/api/internal/auth"
	"waybill.dev/services/api/internal/problem"
	"waybill.dev/services/api/internal/route"
	"waybill.dev/shared/domain"
)

// Module is the name that route files import the operations by.
const Module = "waybill"

// The exports that are no operation of the API.
const (
	ExportExplain   = "explainDelivery"
	ExportCatalogue = "listEventTypes"
	ExportGuide     = "receiverGuide"
	ExportAsk       = "askWhyNotDelivered"
)

// Operation is an operation of the API: where its door is, and what a caller needs.
type Operation struct {
	ID     string // as the OpenAPI document names it
	Method string
	Path   string // a {name} stands for one segment
	Scope  domain.Scope
}

// Options of the module; both are required.
type Options struct {
	Operations []Operation
	// Door is the HTTP API. It takes the caller that a request's context names, see
	// auth.WithPrincipal, and is not called before the first route is.
	Door http.Handler
}

// New returns the handlers by their export.
func New(options Options) map[string]route.Handler {
	d := &door{options.Door}
	handlers := map[string]route.Handler{
		ExportExplain:   &explainer{door: d},
		ExportCatalogue: route.Func(listEventTypes),
		ExportGuide:     route.Func(receiverGuide),
		ExportAsk:       asker{},
	}
	for _, operation := range options.Operations {
		handlers[operation.ID] = &own{operation: operation, door: d}
	}
	return handlers
}

// own is an operation of the API.
type own struct {
	operation Operation
	door      *door
}

// Handle implements route.Handler.
func (o *own) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	path, ok := fill(o.operation.Path, r.Params)
	if !ok {
		return nil, problem.Missing()
	}
	return o.door.call(ctx, r, message{o.operation.Method, path, r.Query.Encode(), r.Body}, route.MaxResponse)
}

// Permits implements route.Gate.
func (o *own) Permits(principal *auth.Principal) bool {
	return o.operation.Scope == "" || permits(principal, o.operation.Scope)
}

func permits(principal *auth.Principal, scopes ...domain.Scope) bool {
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
