// Package jsonschema compiles and checks the JSON Schemas of an OpenAPI document, and extracts them, so that each
// is complete in itself. References stay within the document: nothing is ever read from a disk or a network to
// resolve them.
package jsonschema

import (
	"bytes"
	"cmp"
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

// location is the name of a schema while it is compiled. It is never fetched.
const location = "https://schema.invalid/"

// Schema checks values. It may be used by several goroutines.
type Schema struct {
	compiled *library.Schema
	facts    map[*library.Schema]*facts
}

// Format is a format of texts in addition to those of JSON Schema.
type Format struct {
	Name string
	// Check returns the fault of a text, without repeating the text; empty: none.
	Check func(text string) string
}

// formatError is the fault that a Format has found in a text.
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

// Compile compiles a schema that is complete in itself. Formats are asserted. Patterns have the syntax of RE2.
func Compile(value jsontext.Value, formats ...Format) (*Schema, error) {
	return compile(value, nil, &patterns{}, formats...)
}

// patterns are the regular expressions of a document's schemas, by their text. Documents write the same ones many
// times, and one can take 100 KB.
type patterns struct {
	mu    sync.Mutex // guards the fields below
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

// compile is Compile within a budget. The cost of the value itself has been taken already.
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
	compiling := true // values are checked against the format regex later, without a budget
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
		return nil, fmt.Errorf("compile schema: %w", ownError(err))
	}
	found := survey{facts: make(map[*library.Schema]*facts)}
	found.visit(compiled)
	if found.dynamic && (found.foreign || resources(value)) {
		return nil, errors.New("$dynamicRef and $recursiveRef are followed only where no schema below has an $id of its own")
	}
	return &Schema{compiled, found.facts}, nil
}

// resources reports whether a schema contains others with an $id, or values that look like them.
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

// nowhere loads the documents that a schema refers to: it has none.
type nowhere struct{}

func (nowhere) Load(string) (any, error) {
	return nil, errors.New("it is not in the document")
}

// ownError puts an error of the library into our own words.
func ownError(err error) error {
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
	place := cmp.Or(found[0].Pointer, "the schema")
	return fmt.Errorf("%s %s", place, found[0].Detail)
}

// Validate returns what is wrong with a value, which should be JSON; nil: nothing. When ctx ends, or the value
// takes more work than its size allows, Validate stops and reports that. It copies nothing of a value but its
// names.
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
