package policy

import (
	"context"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// parameter is one of path, query, header or cookies.
type parameter struct {
	*routefile.Parameter

	schema     *jsonschema.Schema // nil: anything is allowed
	shape      jsonschema.Shape
	otherNames []string // the other parameters of the same place
}

// maxParameter bounds the values of a parameter that are checked against its schema, in bytes: each
// value is read in several ways.
const maxParameter = 64 << 10

// readParameters returns the operation's parameters of one place.
func readParameters(op *routefile.Operation, in string) (list []parameter, faults []Fault) {
	of := op.Parameters
	if in == "cookie" {
		of = op.Cookies
	}
	var names []string
	for i := range of {
		p := &of[i]
		if p.In != in || in == "header" && ofMedia(p.Name) {
			continue
		}
		schema, err := compile(op, p.Pointer, p.Schema)
		if err != nil {
			faults = append(faults, Fault{Detail: "can't be used here: the schema of the parameter " + p.Name + " is faulty"})
		}
		if why := p.Unread(); why != "" {
			faults = append(faults, Fault{Detail: "can't be used here: the parameter " + p.Name + " " + why})
		}
		names = append(names, p.Name)
		list = append(list, parameter{Parameter: p, schema: schema, shape: p.Shape(op.File)})
	}
	for i := range list {
		list[i].otherNames = slices.DeleteFunc(slices.Clone(names), func(name string) bool { return name == list[i].Name })
	}
	return list, faults
}

// ofMedia reports whether OpenAPI describes the header elsewhere than in parameters.
func ofMedia(header string) bool {
	return strings.EqualFold(header, "Accept") || strings.EqualFold(header, "Content-Type") || strings.EqualFold(header, "Authorization")
}

// check returns the faults of the parameter's value in a request. Pairs are the members of the
// query or the cookies.
func (p *parameter) check(ctx context.Context, r *route.Request, pairs []routefile.Pair) []string {
	readings, size, fault := p.values(r, pairs)
	switch {
	case fault != "":
		return []string{fault}
	case len(readings) == 0 && p.Required:
		return []string{"is required"}
	case len(readings) == 0 || p.schema == nil:
		return nil
	case p.Empty && string(readings[0]) == `""`:
		return nil
	case size > maxParameter:
		return []string{"is too long to be checked"}
	}
	found := likeliest(ctx, p.schema, readings)
	details := make([]string, len(found))
	for i, violation := range found {
		details[i] = violation.Detail
		if violation.Pointer != "" {
			details[i] = "at " + violation.Pointer + ": " + violation.Detail
		}
	}
	return details
}

// likeliest returns the faults of a value that may be read in several ways; nil: the value fits in
// one of them.
func likeliest(ctx context.Context, schema *jsonschema.Schema, readings []jsontext.Value) (best []jsonschema.Violation) {
	for i, reading := range readings {
		if slices.ContainsFunc(readings[:i], func(other jsontext.Value) bool { return string(other) == string(reading) }) {
			continue
		}
		found := schema.Validate(ctx, reading)
		if len(found) == 0 {
			return nil
		}
		if best == nil || otherType(best) && !otherType(found) {
			best = found
		}
	}
	return best
}

// values returns the possible readings of the parameter's values, and their length.
func (p *parameter) values(r *route.Request, pairs []routefile.Pair) (readings []jsontext.Value, size int, fault string) {
	var texts []string
	switch p.In {
	case "path":
		if value, ok := r.Params[p.Name]; ok {
			texts = []string{value}
		}
	case "header":
		texts = r.Header.Values(p.Name)
	default:
		readings = p.ReadPairs(p.shape, pairs, p.otherNames)
		for _, reading := range readings {
			size = max(size, len(reading))
		}
		return readings, size, ""
	}
	for _, value := range texts {
		size += len(value)
	}
	if len(texts) > 0 && size <= maxParameter {
		readings, fault = p.ReadTexts(p.shape, texts)
		return readings, size, fault
	}
	return make([]jsontext.Value, len(texts)), size, ""
}

func cookies(r *route.Request) []routefile.Pair {
	var pairs []routefile.Pair
	for _, header := range r.Header.Values("Cookie") {
		for part := range strings.SplitSeq(header, ";") {
			name, value, _ := strings.Cut(strings.TrimSpace(part), "=")
			pairs = append(pairs, routefile.Pair{Name: name, Value: value})
		}
	}
	return pairs
}

// otherType reports whether the value as a whole has the wrong type: then the reading was probably
// wrong, if there is another reading.
func otherType(violations []jsonschema.Violation) bool {
	for _, v := range violations {
		if v.Pointer == "" && strings.HasPrefix(v.Detail, "must be of type ") {
			return true
		}
	}
	return false
}
