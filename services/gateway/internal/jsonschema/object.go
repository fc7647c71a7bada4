package jsonschema

import (
	"bytes"
	"slices"
	"strconv"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

// Property is a member of an object that is made of schemas of a document.
type Property struct {
	Name        string
	Pointer     string         // pointer to its schema in the document; empty: Schema is used
	Schema      jsontext.Value // must have no references
	Description string         // used when the schema has no description
	Required    bool
}

// Object returns a schema, complete in itself, for arguments that are an object with these properties and no
// others.
func (d *Document) Object(properties []Property) (jsontext.Value, error) {
	b := newBundler(d, Arguments)
	members, required := []byte{'{'}, []byte{'['}
	for _, property := range properties {
		text, err := b.property(property)
		if err != nil {
			return nil, err
		}
		members = appendMember(members, property.Name, text)
		if property.Required {
			if len(required) > 1 {
				required = append(required, ',')
			}
			required, _ = jsontext.AppendQuote(required, property.Name)
		}
	}
	definitions, err := b.definitions()
	if err != nil {
		return nil, err
	}
	text := appendMember([]byte{'{'}, "type", []byte(`"object"`))
	text = appendMember(text, "properties", append(members, '}'))
	if len(required) > 1 {
		text = appendMember(text, "required", append(required, ']'))
	}
	text = appendMember(text, "additionalProperties", []byte("false"))
	if definitions != "" {
		text = appendMember(text, "$defs", []byte("{"+definitions+"}"))
	}
	return append(text, '}'), d.budget.text(text)
}

func (b *bundler) property(p Property) (jsontext.Value, error) {
	if p.Pointer == "" {
		return describe(p.Schema, p.Description)
	}
	n := b.document.root.At(p.Pointer)
	if _, err := b.document.start(p.Pointer); err != nil {
		return nil, err
	}
	w := walker{bundler: b, host: n, at: input.Pointer("properties", p.Name)}
	edits, err := w.edit()
	if err != nil {
		return nil, err
	}
	return describe(apply(n, edits), p.Description)
}

// describe adds a description to a schema that has none.
func describe(schema jsontext.Value, description string) (jsontext.Value, error) {
	n, err := jsontree.Parse(schema)
	if err != nil {
		return nil, err
	}
	if description == "" || n.Kind() != '{' || n.Member("description") != nil {
		return schema, nil
	}
	quoted, err := jsontext.AppendQuote(nil, description)
	if err != nil {
		return nil, err
	}
	return insert(n, "description", quoted), nil
}

// insert puts a member at the beginning of an object.
func insert(n *jsontree.Node, name string, value []byte) jsontext.Value {
	text := appendMember([]byte{'{'}, name, value)
	if n.Len() > 0 {
		text = append(text, ',')
	}
	return append(text, n.Raw[1:]...)
}

// BundleObject is Bundle for a schema that IsObject. The result has the type "object".
func (d *Document) BundleObject(pointer string, side Side) (jsontext.Value, error) {
	text, err := d.Bundle(pointer, side)
	if err != nil {
		return nil, err
	}
	n, err := jsontree.Parse(text)
	if err != nil {
		return nil, err
	}
	kind := n.Member("type")
	switch {
	case kind == nil:
		return insert(n, "type", []byte(`"object"`)), nil
	case kind.Kind() == '[':
		return bytes.Join([][]byte{n.Raw[:kind.Start], n.Raw[kind.Start+len(kind.Raw):]}, []byte(`"object"`)), nil
	}
	return n.Raw, nil
}

// Choice returns a schema, complete in itself, for Answers that are an object and fit one of the schemas at JSON
// pointers. IsObject is true of each of them.
func (d *Document) Choice(pointers []string) (jsontext.Value, error) {
	if len(pointers) == 1 {
		return d.BundleObject(pointers[0], Answers)
	}
	b := newBundler(d, Answers)
	branches := []byte{'['}
	for i, pointer := range pointers {
		n, err := d.start(pointer)
		if err != nil {
			return nil, err
		}
		w := walker{bundler: b, host: n, at: input.Pointer("anyOf", strconv.Itoa(i))}
		edits, err := w.edit()
		if err != nil {
			return nil, err
		}
		if i > 0 {
			branches = append(branches, ',')
		}
		branches = append(branches, apply(n, edits)...)
	}
	definitions, err := b.definitions()
	if err != nil {
		return nil, err
	}
	text := appendMember([]byte{'{'}, "type", []byte(`"object"`))
	text = appendMember(text, "anyOf", append(branches, ']'))
	if definitions != "" {
		text = appendMember(text, "$defs", []byte("{"+definitions+"}"))
	}
	return append(text, '}'), d.budget.text(text)
}

// IsObject reports whether every value that fits the schema at a JSON pointer is an object,
// as far as can be seen without reasoning.
func (d *Document) IsObject(pointer string) bool {
	n, err := d.start(pointer)
	return err == nil && d.isObject(n, n, make(map[*jsontree.Node]bool))
}

// isObject notes its results in seen. A schema that leads back to itself says nothing.
func (d *Document) isObject(n, owner *jsontree.Node, seen map[*jsontree.Node]bool) bool {
	if is, known := seen[n]; known {
		return is
	}
	seen[n] = false
	seen[n] = d.saysObject(n, owner, seen)
	return seen[n]
}

func (d *Document) saysObject(n, owner *jsontree.Node, seen map[*jsontree.Node]bool) bool {
	if kind := n.Member("type"); kind != nil {
		if elements := kind.Elements(); len(elements) == 1 {
			kind = elements[0]
		}
		text, _ := kind.Text()
		return text == "object"
	}
	for _, keyword := range []string{"properties", "required", "additionalProperties", "patternProperties"} {
		if n.Member(keyword) != nil {
			return true
		}
	}
	if reference := n.Member("$ref"); reference != nil {
		target, err := d.target(reference, owner)
		return err == nil && target != nil && d.isObject(target, target, seen)
	}
	object := func(part *jsontree.Node) bool { return d.isObject(part, owner, seen) }
	if slices.ContainsFunc(n.Member("allOf").Elements(), object) {
		return true
	}
	for _, keyword := range []string{"anyOf", "oneOf"} {
		branches := n.Member(keyword).Elements()
		if len(branches) > 0 && !slices.ContainsFunc(branches, func(branch *jsontree.Node) bool { return !object(branch) }) {
			return true
		}
	}
	return false
}
