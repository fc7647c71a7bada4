package policy

import (
	"context"
	"net/url"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
)

type setQuery []change

func setQueryInbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	anything := func(string, string) error { return nil }
	return built{in: setQuery(readChanges(options, "params", anything))}
}

// In sets query parameters.
func (s setQuery) In(_ context.Context, r *route.Request) (*route.Response, error) {
	if r.Query == nil {
		r.Query = make(url.Values)
	}
	for _, c := range s {
		if c.overwrite || !r.Query.Has(c.name) {
			r.Query.Set(c.name, c.value)
		}
	}
	return nil, nil
}

type removeQuery []string

func removeQueryInbound(options *input.Form, _ *routefile.PolicyDef, _ *Env) built {
	anything := func(string) error { return nil }
	return built{in: removeQuery(readNames(options, "params", anything))}
}

// In removes query parameters.
func (names removeQuery) In(_ context.Context, r *route.Request) (*route.Response, error) {
	for _, name := range names {
		r.Query.Del(name)
	}
	return nil, nil
}
