// Package jsonschema compiles and checks the JSON Schemas of an OpenAPI document, and cuts
// them out of it, so that each stands for itself. A document is a world of its own:
// nothing is ever read from a disk or a network for the sake of a reference.
package jsonschema

import (
	"bytes"
	"errors"
	"fmt"

	"github.com/go-json-experiment/json/jsontext"
	library "github.com/santhosh-tekuri/jsonschema/v6"
)

// location is the name of a schema while it is compiled; nothing is behind it.
const location = "https://schema.invalid/"

// Schema checks values. It may be used by several goroutines.
type Schema struct{ compiled *library.Schema }

// Compile compiles a schema that stands for itself. Formats are asserted, patterns are
// those of RE2.
func Compile(value jsontext.Value) (*Schema, error) {
	document, err := library.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiler := library.NewCompiler()
	compiler.DefaultDraft(library.Draft2020)
	compiler.AssertFormat()
	compiler.UseLoader(nowhere{})
	if err := compiler.AddResource(location, document); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(location)
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", plain(err))
	}
	return &Schema{compiled}, nil
}

// nowhere is where documents come from that a schema refers to.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("it is not in the document")
}

// plain says in our own words what the library found.
func plain(err error) error {
	if load, ok := errors.AsType[*library.LoadURLError](err); ok {
		return fmt.Errorf("it refers to %s, which is not in the document", load.URL)
	}
	if schema, ok := errors.AsType[*library.SchemaValidationError](err); ok {
		err = schema.Err
	}
	invalid, ok := errors.AsType[*library.ValidationError](err)
	if !ok {
		return err
	}
	found := violations(invalid)
	if len(found) == 0 {
		return err
	}
	place := found[0].Pointer
	if place == "" {
		place = "the schema"
	}
	return fmt.Errorf("%s %s", place, found[0].Detail)
}

// Validate returns what is wrong with a value, which should be JSON; nil: nothing.
func (s *Schema) Validate(value []byte) []Violation {
	if found := unreadable(value); len(found) > 0 {
		return found
	}
	read, err := library.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return []Violation{{Detail: "is not valid JSON"}}
	}
	err = s.compiled.Validate(read)
	if err == nil {
		return nil
	}
	invalid, ok := errors.AsType[*library.ValidationError](err)
	if !ok {
		return []Violation{{Detail: "can't be checked"}}
	}
	return violations(invalid)
}
