package handler

import (
	"cmp"
	"context"
	"errors"
	"net/url"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// forward sends requests to the same path of a back end.
type forward struct {
	*backEnd

	base   *url.URL
	prefix string // prefix of the path, escaped, without a slash at its end
	search bool   // the query of the request is forwarded
}

// newForward makes the handler that asks at baseUrl.
func newForward(options *input.Form, op *routefile.Operation, env *Env) route.Handler {
	f := &forward{search: true}
	if search, given := options.Bool("forwardSearch"); given {
		f.search = search
	}
	if text := readSetting(options, "baseUrl", env); text != "" {
		base, err := env.baseOf(text)
		switch {
		case err != nil:
			options.Fault(err.Error(), "baseUrl")
		case base.RawQuery != "" || base.ForceQuery:
			options.Fault("must not have a query", "baseUrl")
		default:
			f.base, f.prefix = base, strings.TrimSuffix(base.EscapedPath(), "/")
		}
	}
	f.backEnd = newBackEnd(options, op, f.base, env)
	return f
}

// baseOf reads a URL of the configuration.
func (e *Env) baseOf(text string) (*url.URL, error) {
	if upstream.IsService(text) {
		return e.Services.ParseService(text) //nolint:wrapcheck // it is told as a fault, as it stands
	}
	return upstream.ParseRoute(e.Egress, text, e.Strict, e.Built) //nolint:wrapcheck // likewise
}

// Handle implements route.Handler.
func (f *forward) Handle(ctx context.Context, r *route.Request) (*route.Response, error) {
	search := ""
	if f.search {
		search = r.Query.Search()
	}
	if !strings.HasPrefix(r.Path, "/") {
		return nil, errPath
	}
	to, err := target(f.base, f.prefix+r.Path, search)
	if err != nil {
		return nil, err
	}
	return f.ask(ctx, r, to)
}

// errPath is no fault of the caller: paths of requests begin with a slash.
var errPath = errors.New("make a back end's URL: the path is none")

// errQuery is not the fault of a parameter: with characters that can't stand in a URL, the back
// end's view of where the query ends is unknown.
var errQuery = problem.New(problem.InvalidInput, "The query must not have spaces or #, but their escapes %20 and %23.")

// target returns the URL at base's host with an escaped path and a query, which begins with its ?.
// The path must be unambiguous.
func target(base *url.URL, path, search string) (*url.URL, error) {
	path = cmp.Or(path, "/")
	decoded, err := url.PathUnescape(path)
	to := &url.URL{Scheme: base.Scheme, Host: base.Host, Path: decoded, RawPath: path, RawQuery: strings.TrimPrefix(search, "?"), ForceQuery: search == "?"}
	if err != nil || to.EscapedPath() != path || path[0] != '/' {
		return nil, errPath
	}
	if strings.ContainsAny(search, " #") {
		return nil, errQuery
	}
	if route.Climbs(path) {
		return nil, problem.New(problem.InvalidInput, "No segment of the path may be . or .., in any spelling.")
	}
	return to, nil
}
