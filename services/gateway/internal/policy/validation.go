package policy

import (
	"cmp"
	"context"
	"net/http"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/problem"
)

// mode says what happens when there are faults.
type mode string

const (
	reject  mode = "reject-and-log"
	logOnly mode = "log-only"
	ignore  mode = "none"
)

// validation checks requests against the document.
type validation struct {
	name      string // name of the policy
	operation string
	body      mode
	media     []media // the entries for bodies; none: no body is documented
	required  bool
	groups    []group
}

// group is the parameters of one place, such as the query.
type group struct {
	in         string
	mode       mode
	parameters []parameter
}

// modes say for each place what happens when there are faults.
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
			"at most 100. JSON, text and the fields of forms, with files or without, are checked; a body of another media type passes if the document has the type, " +
			"and `waybill routes check` names it. A body that is checked is at most 1 MiB long. Values are read in the style that the document gives them. Cookies are checked as headers are. " +
			"A body is refused if its schema takes more than about 50 ms for each MiB of it (nested choices). " +
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

// validation makes the policy of an operation. Places that the options don't name are rejected when
// faulty.
func (m *modes) validation(name string, op *routefile.Operation) (route.Inbound, []Fault) {
	v := &validation{name: name, operation: op.ID, body: cmp.Or(m.Body, reject)}
	var faults []Fault
	for _, place := range []struct {
		in   string
		mode mode
	}{{"path", m.Path}, {"query", m.Query}, {"header", m.Header}, {"cookie", m.Header}} {
		if place.mode == ignore {
			continue
		}
		parameters, found := readParameters(op, place.in)
		faults = append(faults, found...)
		v.groups = append(v.groups, group{place.in, cmp.Or(place.mode, reject), parameters})
	}
	bodies, found := readMedia(op)
	v.media, v.required = bodies, op.BodyRequired
	if v.body != ignore {
		faults = append(faults, found...)
	}
	for i := range faults {
		faults[i].Detail += "; a route without the policy, or with none for this place, passes it unchecked"
	}
	return v, faults
}

// Notes says which bodies pass unchecked.
func (v *validation) Notes() []string {
	var notes []string
	for i := range v.media {
		if what := v.media[i].uncheckedTypes(); what != "" && v.body != ignore {
			notes = append(notes, "policy "+v.name+": "+what+" pass unchecked")
		}
	}
	return notes
}

// compile compiles the schema at a pointer or, without a pointer, schema, which has no references;
// nil: there is none.
func compile(op *routefile.Operation, pointer string, schema []byte) (*jsonschema.Schema, error) {
	switch {
	case pointer != "":
		return op.File.Schemas.Compile(pointer)
	case len(schema) > 0:
		return jsonschema.Compile(schema)
	}
	return nil, nil
}

// In checks the request, and reports all faults at once.
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
	wrongMedia := false
	if len(v.media) > 0 && v.body != ignore {
		of, kind, params := v.chooseMedia(r)
		empty := isEmpty(r)
		wrongMedia = of == nil && !empty
		switch {
		case empty && v.required:
			take(v.body, func() []problem.Fault { return []problem.Fault{{Detail: "is required"}} })
		case !empty && !wrongMedia:
			take(v.body, func() []problem.Fault { return of.check(ctx, r.Body, kind, params) })
		}
	}
	if len(told)+len(noted) > 0 || wrongMedia {
		if len(told) == 0 && (!wrongMedia || v.body != reject) {
			r.Record.Note(domain.SeverityWarn, "policy "+v.name, "The request does not match the documentation of its route.", "faults", len(noted), "contentType", wrongMedia)
		}
		// Places may contain names that the caller has chosen, so they are only counted.
		r.Runtime.Logger.InfoContext(ctx, "a request does not match the documentation of its route", "operation", v.operation,
			"requestId", r.ID, "faults", len(told)+len(noted), "contentType", wrongMedia, "rejected", len(told) > 0 || wrongMedia && v.body == reject)
	}
	switch {
	case wrongMedia && v.body == reject:
		return nil, problem.New(problem.UnsupportedMediaType, "The body must be "+v.documented()+".")
	case len(told) > 0:
		return nil, problem.Invalid(told...)
	}
	return nil, nil
}

func (g group) check(ctx context.Context, r *route.Request) []problem.Fault {
	var faults []problem.Fault
	var pairs []routefile.Pair
	switch {
	case len(g.parameters) == 0:
	case g.in == "query":
		pairs = routefile.Pairs(r.Query.Raw())
	case g.in == "cookie":
		pairs = cookies(r)
	}
	for i := range g.parameters {
		p := &g.parameters[i]
		for _, detail := range p.check(ctx, r, pairs) {
			fault := problem.Fault{Parameter: p.Name, Detail: detail}
			switch p.In {
			case "header":
				fault = problem.Fault{Header: http.CanonicalHeaderKey(p.Name), Detail: detail}
			case "cookie":
				fault = problem.Fault{Header: "Cookie", Detail: p.Name + ": " + detail}
			}
			faults = append(faults, fault)
		}
	}
	return faults
}
