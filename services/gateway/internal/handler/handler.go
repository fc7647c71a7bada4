// Package handler has the gateway's own handlers, except MCP: fixed answers from the configuration,
// redirects, the published document, and requests to back ends.
package handler

import (
	"context"
	"io/fs"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// Env is what handlers are made from.
type Env struct {
	Set    *routefile.Set // the set that has the operation
	Folder fs.FS          // folder of the route files; no path may lead out of it
	// Egress says which addresses a back end may have in addition to private ones.
	Egress *egress.Policy
	// Strict allows back ends only the addresses that Egress allows, and limits the effect of answers
	// to the deployment's host.
	Strict bool
	// Built is as in site.Limits.
	Built bool
	// Services checks back ends that are behind tunnels. If it is nil, there may be none.
	Services *upstream.Access
	// Getenv has the values of `${env.NAME}`.
	Getenv func(name string) (string, bool)
}

// builder makes a handler from its options and notes their faults in the form.
type builder func(options *input.Form, op *routefile.Operation, env *Env) route.Handler

// builders returns the builders of handlers, in the order in which faults name them.
func builders() []struct {
	export string
	build  builder
} {
	return []struct {
		export string
		build  builder
	}{
		{"staticHandler", newStatic}, {"urlForwardHandler", newForward}, {"urlRewriteHandler", newRewrite}, {"redirectHandler", newRedirect},
		{"openApiSpecHandler", newSpec},
	}
}

// builderOf returns the builder of a handler. If there is none, it returns nil and the fault, which lists the handlers.
func builderOf(export string) (builder, string) {
	var names []string
	for _, b := range builders() {
		if b.export == export {
			return b.build, ""
		}
		names = append(names, b.export)
	}
	names = append(names, "mcpServerHandler") // which the MCP server makes
	return nil, "handler/export is not one of " + routefile.Runtime + ": " + strings.Join(names, ", ")
}

// New makes the handler of an operation. faults are sentences about it. They never contain the value of
// an option.
func New(op *routefile.Operation, env Env) (handler route.Handler, faults []string) {
	build, fault := builderOf(op.Handler.Export)
	if build == nil {
		return nil, []string{fault}
	}
	options := op.Handler.Options
	if len(options) == 0 {
		options = []byte("{}")
	}
	form, err := input.ParseForm(options)
	if err == nil {
		handler = build(form, op, &env)
		err = form.Err()
	}
	p, ok := err.(*problem.Problem) //nolint:errorlint // forms return it bare
	if !ok {
		return handler, nil
	}
	for _, f := range p.Faults {
		faults = append(faults, strings.TrimSpace("handler/options"+f.Pointer+" "+f.Detail))
	}
	return nil, faults
}

// fixedAnswer gives the same answer to every call.
type fixedAnswer struct{ response route.Response }

// Handle implements route.Handler.
func (f *fixedAnswer) Handle(context.Context, *route.Request) (*route.Response, error) {
	response := f.response
	response.Header = f.response.Header.Clone()
	return &response, nil
}

// Size returns how many bytes the answer has.
func (f *fixedAnswer) Size() int { return len(f.response.Body) }

// MediaType returns the answer's Content-Type.
func (f *fixedAnswer) MediaType() string { return f.response.Header.Get("Content-Type") }

// Instant reports that calls do not wait for anything.
func (*fixedAnswer) Instant() bool { return true }
