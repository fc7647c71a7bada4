package routefile

import (
	"bytes"
	"context"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan"
)

// Call is the request that arguments make for an operation.
type Call struct {
	Path   string // escaped
	Params map[string]string
	Query  string // escaped, without its ?
	// Header has the parameters of headers and, with a body, its Content-Type.
	Header http.Header
	Body   []byte // nil: none
}

// maxParameters bounds the values that arguments may put into the path, the query and the headers of a request, in bytes of JSON,
// and the query alone, in bytes before names are escaped: no server accepts a longer request line or header.
const maxParameters = 64 << 10

// Arguments checks arguments against Input's schema and makes a call from them. Missing arguments are an empty object; if the body
// is optional, that means no body. Missing parameters have their defaults. A failure of Input is returned as one violation. The body
// of the call is a part of args, unless it is a form.
func (o *Operation) Arguments(ctx context.Context, args jsontext.Value) (*Call, []jsonschema.Violation) {
	in, err := o.arguments()
	if err != nil {
		return nil, []jsonschema.Violation{{Detail: err.Error()}}
	}
	if len(bytes.TrimSpace(args)) == 0 {
		args = jsontext.Value("{}")
	}
	// Clients send an empty object when they have no arguments. If the body is optional, that is no body.
	if in.whole && !o.Body.Required && isEmpty(args) {
		return o.call(in, nil, nil)
	}
	if found := in.compiled.Validate(ctx, args); len(found) > 0 {
		return nil, found
	}
	if in.whole {
		return o.call(in, nil, args)
	}
	var body []byte
	size := 0
	values := make(map[string]jsonscan.Value)
	for raw, value := range jsonscan.Value(args).Members() {
		name, _ := raw.Text()
		switch {
		case o.hasParameter(name):
			values[name] = value
			size += len(value)
		case name == bodyArgument && o.Body != nil:
			body = value
		}
	}
	if size > maxParameters {
		return nil, []jsonschema.Violation{tooLong()}
	}
	return o.call(in, values, body)
}

func tooLong() jsonschema.Violation {
	return jsonschema.Violation{Detail: fmt.Sprintf("has more than %d bytes for the request's path, query and headers", maxParameters)}
}

func isEmpty(object jsontext.Value) bool {
	for range jsonscan.Value(object).Members() {
		return false
	}
	return jsonscan.Value(object).Kind() == '{'
}

func (o *Operation) hasParameter(name string) bool {
	return slices.ContainsFunc(o.Parameters, func(p Parameter) bool { return p.Name == name })
}

// call writes parameters and body into a call.
func (o *Operation) call(in *intake, args map[string]jsonscan.Value, body []byte) (*Call, []jsonschema.Violation) {
	c := &Call{Params: make(map[string]string), Header: make(http.Header)}
	var found []jsonschema.Violation
	if fault := c.setBody(o, body); fault != "" {
		found = append(found, jsonschema.Violation{Detail: fault})
	}
	var query []string
	inURL := &pairs{remaining: maxParameters, put: func(name, text string) { query = append(query, route.Component(name)+"="+text) }}
	written := make(map[string]string) // parameters of the path, escaped
	for i := range o.Parameters {
		p := &o.Parameters[i]
		value := args[p.Name]
		if value == nil {
			value = jsonscan.Value(p.Default)
		}
		if value == nil || value.Kind() == 'n' && p.In != inPath {
			continue
		}
		if p.In == inQuery {
			p.write(value, inURL)
			continue
		}
		if fault := c.set(p, value); fault != "" {
			found = append(found, jsonschema.Violation{Pointer: input.Pointer(p.Name), Detail: fault})
		}
		if p.In == inPath {
			written[p.Name] = p.join(value, url.PathEscape)
		}
	}
	if inURL.remaining < 0 {
		found = append(found, tooLong())
	}
	if len(found) > 0 {
		return nil, found
	}
	c.Query = strings.Join(query, "&")
	c.Path = in.template.fill(written)
	// The matcher decides: it must read these same values from the path, and nothing else.
	read, ok := in.match(c.Path)
	for _, name := range in.template.names() {
		if !ok || read[name] != c.Params[name] {
			found = append(found, jsonschema.Violation{Pointer: input.Pointer(name), Detail: "can't be a part of the path"})
		}
	}
	if len(found) > 0 {
		return nil, found
	}
	return c, nil
}

// setBody writes the body, and returns its fault.
func (c *Call) setBody(o *Operation, body []byte) (fault string) {
	if body == nil {
		return ""
	}
	kind := o.Body.MediaType
	if o.Body.Form != nil {
		body, kind, fault = o.Body.Form.encode(body)
	}
	c.Body = body
	c.Header.Set("Content-Type", kind)
	return fault
}

// set writes a value into the path or a header, and returns the value's fault.
func (c *Call) set(p *Parameter, value jsonscan.Value) (fault string) {
	text := p.join(value, plain)
	switch p.In {
	case inPath:
		if value.Kind() == 'n' || text == "" {
			return "must not be empty: it is a part of the path"
		}
		if route.Climbs(text) {
			return "must not have a part . or .. : it is a part of the path"
		}
		if strings.ContainsFunc(text, unicode.IsControl) {
			return "must not have control characters: it is a part of the path"
		}
		c.Params[p.Name] = text
	case inHeader:
		if strings.ContainsFunc(text, unicode.IsControl) {
			return "must not have control characters: it is a header"
		}
		c.Header.Set(p.Name, text)
	}
	return ""
}

// CallFromPath makes a call from the parameters of a path, such as those in a resource's uri: each is read as its schema asks. Other
// parameters have their defaults.
func (o *Operation) CallFromPath(ctx context.Context, params map[string]string) (*Call, []jsonschema.Violation) {
	args := []byte{'{'}
	var found []jsonschema.Violation
	known := 0
	for i := range o.Parameters {
		p := &o.Parameters[i]
		text, ok := params[p.Name]
		if !ok || p.In != inPath {
			continue
		}
		known++
		if len(args) > 1 {
			args = append(args, ',')
		}
		name, err := jsontext.AppendQuote(nil, p.Name)
		readings, fault := p.ReadTexts(p.Shape(o.File), []string{text})
		if err != nil || fault == "" && !readings[0].IsValid() {
			fault = "is not valid text"
		}
		if fault != "" {
			found = append(found, jsonschema.Violation{Pointer: input.Pointer(p.Name), Detail: fault})
			continue
		}
		args = append(append(append(args, name...), ':'), readings[0]...)
	}
	if known < len(params) {
		found = append(found, jsonschema.Violation{Detail: "has a parameter that the path does not have"})
	}
	if len(found) > 0 {
		return nil, found
	}
	return o.Arguments(ctx, append(args, '}'))
}
