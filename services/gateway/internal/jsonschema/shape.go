package jsonschema

import (
	"slices"

	"waybill.dev/services/gateway/internal/jsontree"
)

// maxParts bounds how many schemas are read to find out the types of a text.
const maxParts = 256

// Shape describes the types of a value according to its schema, as far as can be seen without reasoning. It is for
// values given as text, which has no types.
type Shape struct {
	document *Document
	parts    []*jsontree.Node // schemas that apply to the value
	types    []string         // that these schemas name, in order
}

// Shape returns the shape of the schema at a JSON pointer, which need not exist.
func (d *Document) Shape(pointer string) Shape {
	n, err := d.start(pointer)
	if pointer == "" || err != nil {
		return Shape{}
	}
	return d.shape(n)
}

// ShapeOf returns the shape of a schema that refers to nothing.
func ShapeOf(schema *jsontree.Node) Shape { return (&Document{root: schema}).shape(schema) }

func (d *Document) shape(schemas ...*jsontree.Node) Shape {
	s := Shape{document: d}
	for _, schema := range schemas {
		s.parts = d.gather(s.parts, schema, schema)
	}
	for _, n := range s.parts {
		s.types = append(s.types, d.typesOf(n)...)
	}
	slices.Sort(s.types)
	s.types = slices.Compact(s.types)
	return s
}

// gather adds a schema, and those that apply to the same value.
func (d *Document) gather(parts []*jsontree.Node, n, owner *jsontree.Node) []*jsontree.Node {
	if n.Kind() != '{' || len(parts) == maxParts || slices.Contains(parts, n) {
		return parts
	}
	parts = append(parts, n)
	if reference := n.Member("$ref"); reference != nil {
		if target, err := d.target(reference, owner); err == nil && target != nil {
			parts = d.gather(parts, target, target)
		}
	}
	for _, keyword := range []string{"allOf", "anyOf", "oneOf", "then", "else"} {
		if value := n.Member(keyword); value != nil {
			for schema := range below(keyword, value) {
				parts = d.gather(parts, schema, owner)
			}
		}
	}
	return parts
}

// Types returns the types that the value may have; none: the schema does not say.
func (s Shape) Types() []string { return s.types }

// typesOf returns the types that a schema names. A request makes a shape for each of its members, and an enum may be
// long, so the document remembers the types of each schema.
func (d *Document) typesOf(n *jsontree.Node) []string {
	if known, ok := d.types.Load(n); ok {
		return known.([]string) //nolint:errcheck,forcetypeassert // nothing else is stored
	}
	types := typesOf(n)
	slices.Sort(types)
	types = slices.Clip(slices.Compact(types))
	d.types.Store(n, types)
	return types
}

func typesOf(n *jsontree.Node) (types []string) {
	named := n.Member("type")
	if text, ok := named.Text(); ok {
		return []string{text}
	}
	for _, element := range named.Elements() {
		text, _ := element.Text()
		types = append(types, text)
	}
	values := n.Member("enum").Elements()
	if value := n.Member("const"); value != nil {
		values = append(slices.Clip(values), value)
	}
	for _, value := range values {
		kind := map[byte]string{'"': "string", '0': "number", 't': "boolean", 'f': "boolean", 'n': "null", '[': "array", '{': "object"}[byte(value.Kind())]
		if !slices.Contains(types, kind) {
			types = append(types, kind)
		}
	}
	if len(types) == 0 && n.Member("properties") != nil {
		types = append(types, "object")
	}
	if len(types) == 0 && n.Member("items") != nil {
		types = append(types, "array")
	}
	return types
}

// Has reports whether the value may have one of types, or the schema does not say.
func (s Shape) Has(types ...string) bool {
	all := s.types
	return len(all) == 0 || slices.ContainsFunc(types, func(name string) bool { return slices.Contains(all, name) })
}

// Is reports whether the schema allows only the type and null.
func (s Shape) Is(name string) bool {
	all := s.types
	return slices.Contains(all, name) && !slices.ContainsFunc(all, func(other string) bool { return other != name && other != "null" })
}

// Names returns the names of an object's members, as far as the schema has them.
func (s Shape) Names() []string {
	var names []string
	for _, n := range s.parts {
		for name := range n.Member("properties").Members() {
			if !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
	}
	return names
}

// Member returns the shape of an object's member.
func (s Shape) Member(name string) Shape {
	return s.below(func(n *jsontree.Node) *jsontree.Node {
		if named := n.Member("properties").Member(name); named != nil {
			return named
		}
		return n.Member("additionalProperties")
	})
}

// Element returns the shape of an array's elements.
func (s Shape) Element() Shape {
	return s.below(func(n *jsontree.Node) *jsontree.Node { return n.Member("items") })
}

func (s Shape) below(of func(*jsontree.Node) *jsontree.Node) Shape {
	var found []*jsontree.Node
	for _, n := range s.parts {
		if schema := of(n); schema != nil {
			found = append(found, schema)
		}
	}
	return s.document.shape(found...)
}

// Binary reports whether the schema says that the value is bytes, which JSON does not have.
func (s Shape) Binary() bool {
	return slices.ContainsFunc(s.parts, func(n *jsontree.Node) bool {
		format, _ := n.Member("format").Text()
		content, _ := n.Member("contentMediaType").Text()
		return format == "binary" || content == "application/octet-stream" && n.Member("contentEncoding") == nil
	})
}

// Open reports whether an object may have members that the schema does not name, and the schema describes or
// explicitly allows them.
func (s Shape) Open() bool {
	return len(s.Names()) == 0 || slices.ContainsFunc(s.parts, func(n *jsontree.Node) bool {
		more := n.Member("additionalProperties")
		return more != nil && more.Kind() != 'f'
	})
}

// Narrow reports whether the schema restricts the length or the content of a text.
func (s Shape) Narrow() bool {
	return slices.ContainsFunc(s.parts, func(n *jsontree.Node) bool {
		for _, keyword := range []string{"minLength", "maxLength", "pattern", "enum", "const", "not", "if"} {
			if n.Member(keyword) != nil {
				return true
			}
		}
		format, _ := n.Member("format").Text()
		return format != "" && format != "binary" && format != "byte"
	})
}
