package policy

import (
	"context"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// parameter is one of path, query or header.
type parameter struct {
	in, name string
	required bool
	explode  bool
	json     bool // its value is written as JSON
	separate string
	schema   *jsonschema.Schema // nil: anything will do
}

// maxParameter bounds the values of a parameter that are held to its schema, in bytes: each
// is read in up to four ways.
const maxParameter = 64 << 10

func size(values []string) int {
	n := 0
	for _, value := range values {
		n += len(value)
	}
	return n
}

// readParameters returns the operation's parameters of one place.
func readParameters(op *routefile.Operation, in string) (list []parameter, faults []Fault) {
	for i := range op.Parameters {
		p := &op.Parameters[i]
		if p.In != in || in == "header" && ofMedia(p.Name) {
			continue
		}
		schema, err := compile(op, p.Pointer, p.Schema)
		if err != nil {
			faults = append(faults, Fault{Detail: "can't be used here: the schema of the parameter " + p.Name + " is faulty"})
		}
		list = append(list, parameter{
			in: in, name: p.Name, required: p.Required, explode: p.Explode && in == "query",
			json: p.Style == "json", separate: separator(p.Style), schema: schema,
		})
	}
	return list, faults
}

// ofMedia tells whether OpenAPI describes the header elsewhere than in parameters.
func ofMedia(header string) bool {
	return strings.EqualFold(header, "Accept") || strings.EqualFold(header, "Content-Type") || strings.EqualFold(header, "Authorization")
}

// separator is what stands between the elements of an array in one value.
func separator(style string) string {
	switch style {
	case "spaceDelimited":
		return " "
	case "pipeDelimited":
		return "|"
	}
	return ","
}

// check returns what is wrong with the parameter's value in a request.
func (p *parameter) check(ctx context.Context, r *route.Request) []string {
	values, parts := p.values(r)
	switch {
	case parts:
		return nil // an object in several parameters, which are read by who takes them
	case len(values) == 0 && p.required:
		return []string{"is required"}
	case len(values) == 0 || p.schema == nil:
		return nil
	case size(values) > maxParameter:
		return []string{"is too long to be checked"}
	}
	var best []jsonschema.Violation
	for _, reading := range p.readings(values) {
		found := p.schema.Validate(ctx, reading)
		if len(found) == 0 {
			return nil
		}
		if best == nil || otherType(best) && !otherType(found) {
			best = found
		}
	}
	details := make([]string, len(best))
	for i, violation := range best {
		details[i] = violation.Detail
		if violation.Pointer != "" {
			details[i] = "at " + violation.Pointer + ": " + violation.Detail
		}
	}
	return details
}

// values returns the parameter's values; parts tells that it comes as name[member].
func (p *parameter) values(r *route.Request) (values []string, parts bool) {
	switch p.in {
	case "path":
		if value, ok := r.Params[p.name]; ok {
			return []string{value}, false
		}
		return nil, false
	case "header":
		return r.Header.Values(p.name), false
	}
	values = r.Query[p.name]
	if len(values) == 0 {
		for name := range r.Query {
			if strings.HasPrefix(name, p.name+"[") {
				return nil, true
			}
		}
	}
	return values, false
}

// readings returns what the values may mean as JSON: text says nothing of types, so 7 may
// be a number, a string, and an array of either. The schema knows which one is right.
func (p *parameter) readings(values []string) []jsontext.Value {
	if p.json {
		if len(values) > 1 {
			return []jsontext.Value{array(values, quote)}
		}
		return []jsontext.Value{jsontext.Value(values[0])}
	}
	if len(values) > 1 {
		return []jsontext.Value{array(values, plain), array(values, quote)}
	}
	one := values[0]
	list := values
	if !p.explode {
		list = strings.Split(one, p.separate)
	}
	return []jsontext.Value{plain(one), quote(one), array(list, plain), array(list, quote)}
}

// otherType tells whether the value as a whole is of another type than was asked for: then
// it was read the wrong way, if there is another one.
func otherType(violations []jsonschema.Violation) bool {
	for _, v := range violations {
		if v.Pointer == "" && strings.HasPrefix(v.Detail, "must be of type ") {
			return true
		}
	}
	return false
}

// plain returns the number or boolean that text is, else the text.
func plain(text string) jsontext.Value {
	value := jsontext.Value(text)
	if text == "true" || text == "false" || value.Kind() == '0' && value.IsValid() && strings.TrimSpace(text) == text {
		return value
	}
	return quote(text)
}

func quote(text string) jsontext.Value {
	value, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return jsontext.Value("null") // bytes that are no text
	}
	return value
}

func array(texts []string, each func(string) jsontext.Value) jsontext.Value {
	value := jsontext.Value{'['}
	for i, text := range texts {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, each(text)...)
	}
	return append(value, ']')
}
