package jsonschema

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
)

// modernize turns the schemas of an OpenAPI 3.0 document into schemas of JSON Schema 2020-12:
// `nullable`, which counts only beside a type; the boolean `exclusiveMinimum` and
// `exclusiveMaximum`; and `$ref`, which allows no other keywords beside it except `readOnly` and
// `writeOnly`, because people write those there. Everything else stays as it is written, and every
// value stays in its place.
func modernize(document *jsontree.Node) jsontext.Value {
	return rewrite(document, false)
}

// rewrite rewrites a value if something below it changes.
func rewrite(n *jsontree.Node, schema bool) jsontext.Value {
	switch n.Kind() {
	case '[':
		return rewriteArray(n, schema)
	case '{':
		if schema {
			return rewriteSchema(n)
		}
		return rewriteObject(n, func(name string, member *jsontree.Node) jsontext.Value {
			switch {
			case name == "example", name == "examples", name == "default", strings.HasPrefix(name, "x-"):
				return member.Raw
			case name == "schemas" && n.Name() == "components":
				return rewriteObject(member, func(_ string, s *jsontree.Node) jsontext.Value { return rewrite(s, true) })
			}
			return rewrite(member, name == "schema")
		})
	}
	return n.Raw
}

// rewriteObject writes an object with other values; a nil one is left out.
func rewriteObject(n *jsontree.Node, value func(name string, member *jsontree.Node) jsontext.Value) jsontext.Value {
	if n.Kind() != '{' {
		return n.Raw
	}
	changed := false
	text := []byte{'{'}
	for name, member := range n.Members() {
		written := value(name, member)
		changed = changed || string(written) != string(member.Raw)
		if written != nil {
			text = appendMember(text, name, written)
		}
	}
	if !changed {
		return n.Raw
	}
	return append(text, '}')
}

// appendMember appends a member to an object that is not yet closed.
func appendMember(text []byte, name string, value []byte) []byte {
	if text[len(text)-1] != '{' {
		text = append(text, ',')
	}
	text, _ = jsontext.AppendQuote(text, name)
	return append(append(text, ':'), value...)
}

func rewriteArray(n *jsontree.Node, schema bool) jsontext.Value {
	changed := false
	text := []byte{'['}
	for i, element := range n.Elements() {
		if i > 0 {
			text = append(text, ',')
		}
		written := rewrite(element, schema)
		changed = changed || string(written) != string(element.Raw)
		text = append(text, written...)
	}
	if !changed {
		return n.Raw
	}
	return append(text, ']')
}

func rewriteSchema(n *jsontree.Node) jsontext.Value {
	if reference := n.Member("$ref"); reference != nil && n.Len() > 1 {
		return rewriteObject(n, func(name string, member *jsontree.Node) jsontext.Value {
			switch name {
			case "$ref", "readOnly", "writeOnly":
				return member.Raw
			}
			return nil
		})
	}
	return rewriteObject(n, func(name string, member *jsontree.Node) jsontext.Value {
		switch name {
		case "nullable":
			return nil
		case "type":
			if n.Member("nullable").True() && member.Kind() == '"' {
				return jsontext.Value("[" + string(member.Raw) + `,"null"]`)
			}
		case "minimum", "maximum":
			if n.Member(exclusive(name)).True() {
				return nil
			}
		case "exclusiveMinimum", "exclusiveMaximum":
			return rewriteBound(n, name, member)
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas":
			return rewriteObject(member, func(_ string, s *jsontree.Node) jsontext.Value { return rewrite(s, true) })
		case "items", "allOf", "anyOf", "oneOf", "not", "additionalProperties":
			return rewrite(member, true)
		}
		return member.Raw
	})
}

// rewriteBound turns a boolean exclusiveMinimum or exclusiveMaximum into the bound itself.
func rewriteBound(n *jsontree.Node, name string, member *jsontree.Node) jsontext.Value {
	bound := n.Member(strings.ToLower(strings.TrimPrefix(name, "exclusive")))
	switch {
	case member.Kind() == '0':
		return member.Raw
	case member.True() && bound != nil:
		return bound.Raw
	}
	return nil
}

func exclusive(bound string) string {
	return "exclusive" + strings.ToUpper(bound[:1]) + bound[1:]
}
