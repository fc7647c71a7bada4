package policy

import (
	"cmp"
	"context"
	"mime"
	"net/http"
	"strings"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// mode is what is done about faults.
type mode string

const (
	reject  mode = "reject-and-log"
	logOnly mode = "log-only"
	ignore  mode = "none"
)

// validation holds requests to what the document says of them.
type validation struct {
	name      string // of the policy
	operation string
	body      mode
	media     string // what Content-Type says of a body; empty: none is documented
	required  bool
	schema    *jsonschema.Schema // of the body; nil: anything will do
	groups    []group
}

// group is the parameters of one place.
type group struct {
	mode       mode
	parameters []parameter
}

// modes are what is done about the faults of each place.
type modes struct {
	Body   mode `json:"validateBody"`
	Query  mode `json:"validateQueryParameters"`
	Path   mode `json:"validatePathParameters"`
	Header mode `json:"validateHeaders"`
}

func validationPolicy() Policy {
	const values = `"type": "string", "enum": ["reject-and-log", "log-only", "none"], "default": "reject-and-log"`
	return Policy{
		Name: "request-validation-inbound", Export: "RequestValidationInboundPolicy",
		About: "Holds requests to what the operation says of them in its OpenAPI document. A request that does not match gets 400, with every fault at once, " +
			"at most 100. A body is refused if its schema takes more than about 50 ms for each MiB of it (nested choices). " +
			"A schema may use `$dynamicRef` only where no schema below has an `$id` of its own.",
		Options: `{
			"type": "object", "additionalProperties": false,
			"properties": {
				"validateBody": {` + values + `, "description": "What is done about faults of the body."},
				"validateQueryParameters": {` + values + `, "description": "The same for query parameters."},
				"validatePathParameters": {` + values + `, "description": "The same for parameters of the path."},
				"validateHeaders": {` + values + `, "description": "The same for headers."}
			}
		}`,
		Example: `{"validateBody": "reject-and-log", "validateHeaders": "none"}`,
		New: typed(func(o *modes, env *Env) (Parts, []Fault) {
			name := env.Definition
			return Parts{each: func(op *routefile.Operation) (route.Inbound, []Fault) { return o.validation(name, op) }}, nil
		}),
	}
}

// validation makes the policy of an operation. What the options don't say is rejected.
func (m *modes) validation(name string, op *routefile.Operation) (route.Inbound, []Fault) {
	v := &validation{name: name, operation: op.ID, body: cmp.Or(m.Body, reject)}
	var faults []Fault
	for _, place := range []struct {
		in   string
		mode mode
	}{{"path", m.Path}, {"query", m.Query}, {"header", m.Header}} {
		parameters, found := readParameters(op, place.in)
		faults = append(faults, found...)
		v.groups = append(v.groups, group{cmp.Or(place.mode, reject), parameters})
	}
	if op.Body != nil {
		v.media, v.required = op.Body.MediaType, op.Body.Required
		schema, err := compile(op, op.Body.Pointer, nil)
		if err != nil {
			faults = append(faults, Fault{Detail: "can't be used here: the body's schema is faulty"})
		}
		v.schema = schema
	}
	return v, faults
}

// compile returns the schema at a pointer, else the one that stands for itself; nil: there
// is none.
func compile(op *routefile.Operation, pointer string, schema []byte) (*jsonschema.Schema, error) {
	switch {
	case pointer != "":
		return op.File.Schemas.Compile(pointer)
	case len(schema) > 0:
		return jsonschema.Compile(schema)
	}
	return nil, nil
}

// In checks the request; all that is wrong with it is told at once.
func (v *validation) In(ctx context.Context, r *route.Request) (*route.Response, error) {
	var told, noted []problem.Fault
	take := func(m mode, check func() []problem.Fault) {
		switch m {
		case reject:
			told = append(told, check()...)
		case logOnly:
			noted = append(noted, check()...)
		}
	}
	for _, g := range v.groups {
		take(g.mode, func() []problem.Fault { return g.check(ctx, r) })
	}
	wrongMedia := v.media != "" && v.body != ignore && !v.fits(r)
	if !wrongMedia {
		take(v.body, func() []problem.Fault { return v.checkBody(ctx, r.Body) })
	}
	if len(told)+len(noted) > 0 || wrongMedia {
		if len(told) == 0 && (!wrongMedia || v.body != reject) {
			r.Record.Note(domain.SeverityWarn, "policy "+v.name, "The request does not match the documentation of its route.", "faults", len(noted), "contentType", wrongMedia)
		}
		// Places may have names that the caller made up, so they are only counted.
		r.Runtime.Logger.InfoContext(ctx, "a request does not match the documentation of its route", "operation", v.operation,
			"requestId", r.ID, "faults", len(told)+len(noted), "contentType", wrongMedia, "rejected", len(told) > 0 || wrongMedia && v.body == reject)
	}
	switch {
	case wrongMedia && v.body == reject:
		return nil, problem.New(problem.UnsupportedMediaType, "The body must be "+v.media+" in UTF-8.")
	case len(told) > 0:
		return nil, problem.Invalid(told...)
	}
	return nil, nil
}

// fits tells whether the body is JSON as far as its headers tell. One of which they tell
// nothing is taken for JSON.
func (v *validation) fits(r *route.Request) bool {
	if len(r.Body) == 0 {
		return true
	}
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return false
		}
	}
	types := r.Header.Values("Content-Type")
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		return true
	}
	media, params, err := mime.ParseMediaType(types[0])
	charset, given := params["charset"]
	if err != nil || len(types) > 1 || given && !strings.EqualFold(charset, "utf-8") {
		return false
	}
	return media == "application/json" || strings.EqualFold(media, v.media) || strings.HasSuffix(media, "+json")
}

func (v *validation) checkBody(ctx context.Context, body []byte) []problem.Fault {
	if v.media == "" {
		return nil
	}
	if len(body) == 0 {
		if v.required {
			return []problem.Fault{{Detail: "is required"}}
		}
		return nil
	}
	if v.schema == nil {
		return input.Check(ctx, body, "body")
	}
	var faults []problem.Fault
	for _, violation := range v.schema.Validate(ctx, body) {
		faults = append(faults, problem.Fault{Pointer: violation.Pointer, Detail: violation.Detail})
	}
	return faults
}

func (g group) check(ctx context.Context, r *route.Request) []problem.Fault {
	var faults []problem.Fault
	for _, p := range g.parameters {
		for _, detail := range p.check(ctx, r) {
			fault := problem.Fault{Parameter: p.name, Detail: detail}
			if p.in == "header" {
				fault = problem.Fault{Header: http.CanonicalHeaderKey(p.name), Detail: detail}
			}
			faults = append(faults, fault)
		}
	}
	return faults
}
