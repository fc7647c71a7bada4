package jsonschema

import (
	"errors"
	"fmt"
	"strings"
	"sync"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
)

// Document is an OpenAPI document that schemas are taken from. It may be used by several
// goroutines.
type Document struct {
	root   *jsontree.Node
	budget *Budget
	marks  [Answers + 1]bool // sides for which some schema has marks
	types  sync.Map          // by schema, as a *jsontree.Node: its types

	patterns patterns

	mu       sync.Mutex // guards the fields below
	compiled map[string]*Schema
}

// NewDocument returns a Document for an OpenAPI document of version 3.0 or 3.1. Its schemas are made
// within a budget.
func NewDocument(root *jsontree.Node, version string, budget *Budget) (*Document, error) {
	if strings.HasPrefix(version, "3.0.") {
		converted, err := jsontree.Parse(modernize(root))
		if err != nil {
			return nil, fmt.Errorf("convert schemas: %w", err)
		}
		root = converted
	}
	return &Document{root: root, budget: budget, marks: marksOf(root), compiled: make(map[string]*Schema)}, nil
}

// Compile compiles the schema at a JSON pointer, for Requests. The result is cached.
func (d *Document) Compile(pointer string) (*Schema, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	n, err := d.start(pointer)
	if err != nil {
		return nil, err
	}
	if schema := d.compiled[n.Pointer()]; schema != nil {
		return schema, nil
	}
	text, err := d.bundle(n, Requests)
	if err != nil {
		return nil, err
	}
	schema, err := d.CompileText(text)
	if err != nil {
		return nil, err
	}
	d.compiled[n.Pointer()] = schema
	return schema, nil
}

// CompileText compiles a schema that was made of schemas of the document, see Object.
func (d *Document) CompileText(text jsontext.Value) (*Schema, error) {
	if err := d.budget.text(text); err != nil {
		return nil, err
	}
	return compile(text, d.budget, &d.patterns)
}

// Bundle returns the schema at a JSON pointer as a text that is complete in itself, for one side. The
// text is byte for byte that of the document when the schema refers to nothing else and hides nothing
// from the side; otherwise it has the schemas that it needs in `$defs`. (Schemas of OpenAPI 3.0 are
// rewritten where JSON Schema has other keywords.)
func (d *Document) Bundle(pointer string, side Side) (jsontext.Value, error) {
	n, err := d.start(pointer)
	if err != nil {
		return nil, err
	}
	text, err := d.bundle(n, side)
	if err != nil {
		return nil, err
	}
	return text, d.budget.text(text)
}

// start returns the schema at a pointer or, if that is only a reference, its target.
func (d *Document) start(pointer string) (*jsontree.Node, error) {
	n := d.root.At(pointer)
	for seen := map[*jsontree.Node]bool{}; n.Kind() == '{' && n.Len() == 1 && n.Member("$ref") != nil; {
		if seen[n] {
			return nil, fmt.Errorf("it refers only to itself")
		}
		seen[n] = true
		target, err := d.target(n.Member("$ref"), n)
		if err != nil {
			return nil, err
		}
		if target == nil {
			break // an anchor
		}
		n = target
	}
	switch n.Kind() {
	case '{', 't', 'f':
		return n, nil
	case 0:
		return nil, errors.New("there is no schema")
	}
	return nil, errors.New("a schema is an object, true or false")
}

// target returns the target of a schema's reference. «#/…» is a place of the document or, if the
// document has no such place, of the schema owner; nil: the reference names an anchor of owner.
func (d *Document) target(reference, owner *jsontree.Node) (*jsontree.Node, error) {
	text, ok := reference.Text()
	if !ok {
		return nil, errors.New("a reference is a text")
	}
	if !strings.HasPrefix(text, "#") {
		return nil, fmt.Errorf("it refers to %s, which is not in the document", text)
	}
	pointer, ok := jsontree.Fragment(text)
	if !ok {
		return nil, nil
	}
	target := d.root.At(pointer)
	if target == nil || pointer == "" {
		target = owner.At(pointer)
	}
	switch target.Kind() {
	case '{', 't', 'f':
		return target, nil
	}
	return nil, fmt.Errorf("it refers to %s, which is not a schema in the document", text)
}
