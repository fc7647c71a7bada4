// Package jsonschema compiles and checks the JSON Schemas of an OpenAPI document, and cuts
// them out of it, so that each stands for itself. A document is a world of its own:
// nothing is ever read from a disk or a network for the sake of a reference.
package jsonschema

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"sync"

	"github.com/go-json-experiment/json/jsontext"
	library "github.com/santhosh-tekuri/jsonschema/v6"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
	"waybill.dev/shared/jsonscan"
)

// location is the name of a schema while it is compiled; nothing is behind it.
const location = "https://schema.invalid/"

// Schema checks values. It may be used by several goroutines.
type Schema struct {
	compiled *library.Schema
	facts    map[*library.Schema]*facts
}

// Format is a format of texts besides those of JSON Schema.
type Format struct {
	Name string
	// Check says what is wrong with a text, without repeating it; empty: nothing.
	Check func(text string) string
}

// formatError is what a Format has said of a text.
type formatError string

func (f formatError) Error() string { return string(f) }

func (f Format) validate(value any) error {
	if text, ok := value.(string); ok {
		if fault := f.Check(text); fault != "" {
			return formatError(fault)
		}
	}
	return nil
}

// Compile compiles a schema that stands for itself. Formats are asserted, patterns are
// those of RE2.
func Compile(value jsontext.Value, formats ...Format) (*Schema, error) {
	return compile(value, nil, &patterns{}, formats...)
}

// patterns are the regular expressions of a document's schemas, by their text. Documents write the same ones many
// times, and one can take 100 KB.
type patterns struct {
	mu    sync.Mutex // guards what follows
	known map[string]*regexp.Regexp
}

func (p *patterns) compile(expression string, budget *Budget) (*regexp.Regexp, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if known := p.known[expression]; known != nil {
		return known, nil
	}
	if err := budget.Pattern(expression); err != nil {
		return nil, err
	}
	compiled, err := regexp.Compile(expression)
	if err != nil {
		return nil, err //nolint:wrapcheck // the schema's fault tells it
	}
	if p.known == nil {
		p.known = make(map[string]*regexp.Regexp)
	}
	p.known[expression] = compiled
	return compiled, nil
}

// compile is Compile within a budget, from which the value itself is taken already.
func compile(value jsontext.Value, budget *Budget, known *patterns, formats ...Format) (*Schema, error) {
	document, err := library.UnmarshalJSON(bytes.NewReader(value))
	if err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiler := library.NewCompiler()
	compiler.DefaultDraft(library.Draft2020)
	compiler.AssertFormat()
	for _, f := range formats {
		compiler.RegisterFormat(&library.Format{Name: f.Name, Validate: f.validate})
	}
	compiler.UseLoader(nowhere{})
	compiling := true // values are held to the format regex later, at nobody's expense
	compiler.UseRegexpEngine(func(expression string) (library.Regexp, error) {
		if compiling {
			return known.compile(expression, budget)
		}
		return regexp.Compile(expression)
	})
	if err := compiler.AddResource(location, document); err != nil {
		return nil, fmt.Errorf("read schema: %w", err)
	}
	compiled, err := compiler.Compile(location)
	compiling = false
	if over := budget.Err(); over != nil {
		return nil, over
	}
	if err != nil {
		return nil, fmt.Errorf("compile schema: %w", plain(err))
	}
	found := survey{of: make(map[*library.Schema]*facts)}
	found.visit(compiled)
	if found.dynamic && (found.foreign || resources(value)) {
		return nil, errors.New("$dynamicRef and $recursiveRef are followed only where no schema below has an $id of its own")
	}
	return &Schema{compiled, found.of}, nil
}

// resources reports whether a schema has others with an $id in it, or what looks like them.
func resources(schema jsontext.Value) bool {
	root, err := jsontree.Parse(schema)
	return err == nil && identified(root, root)
}

func identified(n, root *jsontree.Node) bool {
	if n != root && n.Member("$id").Kind() == '"' {
		return true
	}
	for _, member := range n.Members() {
		if identified(member, root) {
			return true
		}
	}
	for _, element := range n.Elements() {
		if identified(element, root) {
			return true
		}
	}
	return false
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

// Validate returns what is wrong with a value, which should be JSON; nil: nothing. It ends
// with ctx, and then, as for a value that takes more work than its size allows, says so. Of a
// value, nothing but its names is ever copied.
func (s *Schema) Validate(ctx context.Context, value []byte) []Violation {
	if faults := input.CheckExact(ctx, value, "value"); len(faults) > 0 {
		found := make([]Violation, len(faults))
		for i, fault := range faults {
			found[i] = Violation{fault.Pointer, fault.Detail}
		}
		return found
	}
	if ctx.Err() != nil {
		return []Violation{{Detail: tooComplex}}
	}
	v := &run{ctx: ctx, facts: s.facts, budget: baseBudget + budgetPerByte*len(value)}
	v.look = v.budget - lookEvery
	r := jsonscan.Read(value)
	v.fits(s.compiled, &r, 0, nil)
	return v.result()
}
