package policy

import (
	"context"

	"waybill.dev/services/gateway/internal/route"
)

type setQuery []change

type setQueryOptions struct{ Params []change }

func setQueryPolicy() Policy {
	return Policy{
		Name: "set-query-params-inbound", Export: "SetQueryParamsInboundPolicy",
		About:   "Sets query parameters of the request. The others stay as they came, byte for byte.",
		Options: changesSchema("params", "The parameters, at most 100.", "", ""),
		Example: `{"params": [{"name": "format", "value": "json"}]}`,
		New:     typed(func(o *setQueryOptions, _ *Env) (Parts, []Fault) { return Parts{In: setQuery(o.Params)}, nil }),
	}
}

// In sets query parameters.
func (s setQuery) In(_ context.Context, r *route.Request) (*route.Response, error) {
	for _, c := range s {
		if c.overwrites() || !r.Query.Has(c.Name) {
			if err := r.Query.Set(c.Name, c.Value); err != nil {
				return nil, err //nolint:wrapcheck // a problem
			}
		}
	}
	return nil, nil
}

type removeQuery []string

type removeQueryOptions struct{ Params []string }

func removeQueryPolicy() Policy {
	return Policy{
		Name: "remove-query-params-inbound", Export: "RemoveQueryParamsInboundPolicy",
		About:   "Removes query parameters of the request. The others stay as they came, byte for byte.",
		Options: namesSchema("params", "The names of the parameters, at most 100.", ""),
		Example: `{"params": ["debug"]}`,
		New:     typed(func(o *removeQueryOptions, _ *Env) (Parts, []Fault) { return Parts{In: removeQuery(o.Params)}, nil }),
	}
}

// In removes query parameters.
func (names removeQuery) In(_ context.Context, r *route.Request) (*route.Response, error) {
	for _, name := range names {
		if err := r.Query.Remove(name); err != nil {
			return nil, err //nolint:wrapcheck // a problem
		}
	}
	return nil, nil
}
