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
	marks  [Answers + 1]bool // the sides that some schema has marks for
	types  sync.Map          // by schema, as a *jsontree.Node: the types that it names

	patterns patterns

	mu       sync.Mutex // guards what follows
	compiled map[string]*Schema
}

// NewDocument takes an OpenAPI document of version 3.0 or 3.1, whose schemas are made within a
// budget.
func NewDocument(root *jsontree.Node, version string, budget *Budget) (*Document, error) {
	if strings.HasPrefix(version, "3.0.") {
		converted, err := jsontree.Parse(modern(root))
		if err != nil {
			return nil, fmt.Errorf("convert schemas: %w", err)
		}
		root = converted
	}
	return &Document{root: root, budget: budget, marks: marksOf(root), compiled: make(map[string]*Schema)}, nil
}

// Compile compiles the schema at a JSON pointer, for Requests. The second time, it is at hand.
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

// Bundle returns the schema at a JSON pointer so that it stands for itself, for one side: byte for
// byte when it refers to nothing else of the document and hides nothing from the side, otherwise with
// what it needs in `$defs`. (The schemas of OpenAPI 3.0 are written anew where JSON Schema has
// other words.)
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

// start returns the schema at a pointer or, where there is nothing but a reference, the
// one that is meant.
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

// target returns what a reference of a schema means. «#/…» is a place of the document or,
// where that has none, of the schema that owner is; nil: an anchor of it.
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
