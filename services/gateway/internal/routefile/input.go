package routefile

import (
	"errors"
	"fmt"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// bodyArgument is the argument that a body is, beside parameters.
const bodyArgument = "body"

// intake describes the parameters and the body of an operation as arguments of a tool.
type intake struct {
	schema   jsontext.Value
	compiled *jsonschema.Schema
	template pathTemplate
	match    func(path string) (map[string]string, bool)
	// whole: the arguments are the body, byte for byte.
	whole bool
}

// Input returns the JSON Schema of the arguments, an object that is complete in itself: the schema
// of the body when the request is only a body that is an object, otherwise the parameters, and the
// body as `body`. Schemas are those of the document, except for white space. Input fails when the
// request can't be expressed in arguments.
func (o *Operation) Input() (jsontext.Value, error) {
	in, err := o.arguments()
	if err != nil {
		return nil, err
	}
	return in.schema, nil
}

// arguments reads the operation's parameters and body, once.
func (o *Operation) arguments() (*intake, error) {
	o.once.Do(func() { o.intake, o.intakeErr = o.readInput() })
	return o.intake, o.intakeErr
}

func (o *Operation) readInput() (*intake, error) {
	t, err := parseTemplate(o.Mode, o.Path)
	if err != nil {
		return nil, err
	}
	if err := o.checkArguments(t); err != nil {
		return nil, err
	}
	in := &intake{template: t, whole: o.Body != nil && len(o.Parameters) == 0 && o.File.Schemas.IsObject(o.Body.Pointer)}
	switch {
	case in.whole:
		in.schema, err = o.File.Schemas.BundleObject(o.Body.Pointer, jsonschema.Arguments)
	case o.Body == nil && len(o.Parameters) == 0:
		in.schema = jsontext.Value(`{"type":"object","properties":{},"additionalProperties":false}`)
	default:
		in.schema, err = o.File.Schemas.Object(o.properties())
	}
	if err != nil {
		return nil, err
	}
	// White space costs every client that lists tools, so the schema is compacted.
	in.schema = in.schema.Clone()
	if err := in.schema.Compact(); err != nil {
		return nil, fmt.Errorf("write the arguments' schema: %w", err)
	}
	if in.match, err = t.matcher(); err != nil {
		return nil, err
	}
	if in.compiled, err = o.File.Schemas.CompileText(in.schema); err != nil {
		return nil, err
	}
	return in, nil
}

// checkArguments returns the reason why a request can't be expressed in arguments.
func (o *Operation) checkArguments(t pathTemplate) error {
	var found []string
	if o.unsent != "" && (o.BodyRequired || o.upload) {
		found = append(found, o.unsent)
	}
	if t.unnamed() {
		found = append(found, "its path has a part without a name, but arguments have names")
	}
	names := make(map[string]string)
	for _, p := range o.Parameters {
		if p.Name == bodyArgument && o.Body != nil {
			found = append(found, "the "+p.In+" parameter body and the request's body would be one argument")
		}
		if other, taken := names[p.Name]; taken {
			found = append(found, "the parameter "+p.Name+" is in "+other+" and in "+p.In+", and would be one argument")
		}
		names[p.Name] = p.In
		if why := p.Unread(); why != "" {
			found = append(found, "the parameter "+p.Name+" "+why)
		}
	}
	if len(found) > 0 {
		return errors.New(strings.Join(found, "; "))
	}
	return nil
}

// Unsent returns the reason why AI clients call the operation without its body; empty: they call it
// with the body, or it has none.
func (o *Operation) Unsent() string { return o.unsent }

func (o *Operation) properties() []jsonschema.Property {
	var properties []jsonschema.Property
	for _, p := range o.Parameters {
		properties = append(properties, jsonschema.Property{
			Name: p.Name, Pointer: p.Pointer, Schema: p.Schema, Description: p.Description,
			Required: p.Required && p.Default == nil,
		})
	}
	if o.Body != nil {
		schema := o.Body.Schema
		if schema == nil {
			schema = jsontext.Value("{}")
		}
		properties = append(properties, jsonschema.Property{
			Name: bodyArgument, Pointer: o.Body.Pointer, Schema: schema, Description: o.Body.Description, Required: o.Body.Required,
		})
	}
	return properties
}
