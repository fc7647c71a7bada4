package policy

import (
	"context"
	"net/http"
	"strconv"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/input"
)

// change sets a member to a value. An existing value may be left as it is.
type change struct {
	Name, Value string
	Overwrite   *bool // nil: true
}

func (c change) overwrites() bool { return c.Overwrite == nil || *c.Overwrite }

// changesSchema is the schema of options with a list of changes.
func changesSchema(option, description, name, value string) string {
	return `{
		"type": "object", "additionalProperties": false, "required": ["` + option + `"],
		"properties": {
			"` + option + `": {
				"type": "array", "minItems": 1, "maxItems": 100, "description": "` + description + `",
				"items": {
					"type": "object", "additionalProperties": false, "required": ["name", "value"],
					"properties": {
						"name": {"type": "string", "minLength": 1, "maxLength": 256` + name + `, "description": "Its name."},
						"value": {"type": "string", "maxLength": 8000` + value + `, "description": "The value that it gets."},
						"overwrite": {"type": "boolean", "default": true, "description": "Whether a value that is there already is replaced."}
					}
				}
			}
		}
	}`
}

// namesSchema is the schema of options with a list of names.
func namesSchema(option, description, name string) string {
	return `{
		"type": "object", "additionalProperties": false, "required": ["` + option + `"],
		"properties": {
			"` + option + `": {
				"type": "array", "minItems": 1, "maxItems": 100, "description": "` + description + `",
				"items": {"type": "string", "minLength": 1, "maxLength": 256` + name + `}
			}
		}
	}`
}

type setHeaders []change

type setHeadersOptions struct{ Headers []change }

func setHeadersInbound() Policy {
	return Policy{
		Name: "set-headers-inbound", Export: "SetHeadersInboundPolicy",
		About: "Sets headers of the request. The back end gets all of them. That includes headers such as `Authorization`, which are not passed on from callers. " +
			"Headers that say [whose key](gateway.md#whose-keys) the caller has can't be set.",
		Options: changesSchema("headers", "The headers, at most 100.", `, "format": "request-header-name"`, `, "format": "header-value"`),
		Example: `{"headers": [{"name": "X-Source", "value": "gateway"}, {"name": "Accept-Language", "value": "en", "overwrite": false}]}`,
		New:     typed(func(o *setHeadersOptions, _ *Env) (Parts, []Fault) { return Parts{In: setHeaders(o.Headers)}, nil }),
	}
}

func setHeadersOutbound() Policy {
	return Policy{
		Name: "set-headers-outbound", Export: "SetHeadersOutboundPolicy",
		About: "Sets headers of the answer. In an uploaded deployment no `Set-Cookie` may have a `Domain` or a name that begins with `waybill`, and no " +
			"`Clear-Site-Data` may clear cookies: that would reach other hosts than the deployment's own.",
		Options: changesSchema("headers", "The headers, at most 100.", `, "format": "header-name"`, `, "format": "header-value"`),
		Example: `{"headers": [{"name": "Cache-Control", "value": "max-age=60"}]}`,
		New: typed(func(o *setHeadersOptions, env *Env) (Parts, []Fault) {
			return Parts{Out: setHeaders(o.Headers)}, o.reach(env)
		}),
	}
}

// reach says which headers of answers would reach beyond the host of an uploaded deployment.
func (o *setHeadersOptions) reach(env *Env) (faults []Fault) {
	if !env.Uploaded || env.Built {
		return nil
	}
	for i, c := range o.Headers {
		if err := route.CheckUploaded(c.Name, c.Value); err != nil {
			faults = append(faults, Fault{Pointer: input.Pointer("headers", strconv.Itoa(i), "value"), Detail: err.Error()})
		}
	}
	return faults
}

// In sets headers of the request. Back ends get them even if a header of that name from the caller
// would not be passed on.
func (s setHeaders) In(_ context.Context, r *route.Request) (*route.Response, error) {
	if r.Header == nil {
		r.Header = make(http.Header)
	}
	if r.Outgoing == nil {
		r.Outgoing = make(http.Header)
	}
	for _, c := range s {
		if c.overwrites() || len(r.Header.Values(c.Name)) == 0 {
			r.Header.Set(c.Name, c.Value)
			r.Outgoing.Set(c.Name, c.Value)
		}
	}
	return nil, nil
}

// Out sets headers of the answer.
func (s setHeaders) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	for _, c := range s {
		if c.overwrites() || len(response.Header.Values(c.Name)) == 0 {
			response.Header.Set(c.Name, c.Value)
		}
	}
	return response, nil
}

type removeHeaders []string

type removeHeadersOptions struct{ Headers []string }

func removeHeadersInbound() Policy {
	return Policy{
		Name: "remove-headers-inbound", Export: "RemoveHeadersInboundPolicy",
		About:   "Removes headers of the request. The back end does not get them.",
		Options: namesSchema("headers", "The names of the headers, at most 100.", `, "format": "header-name"`),
		Example: `{"headers": ["User-Agent", "Referer"]}`,
		New: typed(func(o *removeHeadersOptions, _ *Env) (Parts, []Fault) {
			return Parts{In: removeHeaders(o.Headers)}, nil
		}),
	}
}

func removeHeadersOutbound() Policy {
	return Policy{
		Name: "remove-headers-outbound", Export: "RemoveHeadersOutboundPolicy",
		About:   "Removes headers of the answer.",
		Options: namesSchema("headers", "The names of the headers, at most 100.", `, "format": "header-name"`),
		Example: `{"headers": ["Server", "X-Powered-By"]}`,
		New: typed(func(o *removeHeadersOptions, _ *Env) (Parts, []Fault) {
			return Parts{Out: removeHeaders(o.Headers)}, nil
		}),
	}
}

// In removes headers of the request.
func (names removeHeaders) In(_ context.Context, r *route.Request) (*route.Response, error) {
	for _, name := range names {
		r.Header.Del(name)
		r.Outgoing.Del(name)
	}
	return nil, nil
}

// Out removes headers of the answer.
func (names removeHeaders) Out(_ context.Context, _ *route.Request, response *route.Response) (*route.Response, error) {
	for _, name := range names {
		response.Header.Del(name)
	}
	return response, nil
}
