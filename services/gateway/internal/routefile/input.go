package routefile

import (
	"errors"
	"fmt"
	"slices"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// bodyArgument is the argument that a body is, beside parameters.
const bodyArgument = "body"

// intake is what an operation takes, as arguments of a tool.
type intake struct {
	schema   jsontext.Value
	compiled *jsonschema.Schema
	template template
	match    func(path string) (map[string]string, bool)
	// whole: the arguments are the body, byte for byte.
	whole bool
}

// Input returns the JSON Schema of the arguments, an object that stands for itself: the
// body's own when the request is nothing but a body that is an object, else the
// parameters, and the body as `body`. Schemas are as the document has them, but for white
// space. It fails when the request can't be told in arguments.
func (o *Operation) Input() (jsontext.Value, error) {
	in, err := o.arguments()
	if err != nil {
		return nil, err
	}
	return in.schema, nil
}

// arguments reads what the operation takes, once.
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
		in.schema, err = o.File.Schemas.BundleObject(o.Body.Pointer)
	case o.Body == nil && len(o.Parameters) == 0:
		in.schema = jsontext.Value(`{"type":"object","properties":{}}`)
	default:
		in.schema, err = o.File.Schemas.Object(o.properties())
	}
	if err != nil {
		return nil, err
	}
	// What a person laid out for reading is paid for by each client that lists tools.
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

// checkArguments says why a request can't be told in arguments.
func (o *Operation) checkArguments(t template) error {
	if o.otherBody {
		return errors.New("it needs a body that is not JSON, but arguments are JSON")
	}
	if t.unnamed() {
		return errors.New("its path has a part without a name, but arguments have names")
	}
	names := make(map[string]string)
	for _, p := range o.Parameters {
		if p.Name == bodyArgument && o.Body != nil {
			return fmt.Errorf("the %s parameter body and the request's body would be one argument", p.In)
		}
		if other, taken := names[p.Name]; taken {
			return fmt.Errorf("the parameter %s is in %s and in %s, and would be one argument", p.Name, other, p.In)
		}
		names[p.Name] = p.In
		if !slices.Contains(styles(p.In), p.Style) {
			return fmt.Errorf("the parameter %s has the style %s, which this gateway does not write", p.Name, p.Style)
		}
	}
	return nil
}

// styles are those that arguments can be written in.
func styles(in string) []string {
	if in == inQuery {
		return []string{"form", "spaceDelimited", "pipeDelimited", "deepObject", styleJSON}
	}
	return []string{"simple", styleJSON}
}

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
