package policy

import (
	"context"
	"mime"
	"net/http"
	"strings"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
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

func newValidation(options *input.Form, _ *routefile.PolicyDef, env *Env) built {
	v := &validation{body: readMode(options, "validateBody")}
	modes := map[string]mode{
		"path":   readMode(options, "validatePathParameters"),
		"query":  readMode(options, "validateQueryParameters"),
		"header": readMode(options, "validateHeaders"),
	}
	op := env.Operation
	if op == nil {
		return built{}
	}
	v.operation = op.ID
	for _, place := range []string{"path", "query", "header"} {
		parameters, faults := readParameters(op, place)
		for _, fault := range faults {
			options.Fault(fault)
		}
		v.groups = append(v.groups, group{modes[place], parameters})
	}
	if op.Body != nil {
		v.media, v.required = op.Body.MediaType, op.Body.Required
		schema, err := compile(op, op.Body.Pointer, nil)
		if err != nil {
			options.Fault("can't be used here: the body's schema is faulty")
		}
		v.schema = schema
	}
	return built{in: v}
}

// readMode reads an option; what is not said is rejected.
func readMode(options *input.Form, option string) mode {
	text, given := options.Text(option, 0, 64)
	switch m := mode(text); {
	case !given:
		return reject
	case m != reject && m != logOnly && m != ignore:
		options.Fault("must be reject-and-log, log-only or none", option)
	}
	return mode(text)
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
