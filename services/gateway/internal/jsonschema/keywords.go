package jsonschema

import (
	"iter"

	"waybill.dev/services/gateway/internal/jsontree"
)

// below returns the schemas that stand directly in the value of a schema's keyword, in their order.
// A value in enum, const, default or examples is never a schema, whatever it looks like.
func below(keyword string, value *jsontree.Node) iter.Seq[*jsontree.Node] {
	return func(yield func(*jsontree.Node) bool) {
		switch keyword {
		case "properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies":
			for _, schema := range value.Members() {
				if !yield(schema) {
					return
				}
			}
		case "allOf", "anyOf", "oneOf", "prefixItems", "items":
			for _, schema := range value.Elements() {
				if !yield(schema) {
					return
				}
			}
			if keyword == "items" && value.Kind() == '{' {
				yield(value)
			}
		case "additionalProperties", "additionalItems", "unevaluatedProperties", "unevaluatedItems",
			"propertyNames", "contains", "not", "if", "then", "else", "contentSchema":
			yield(value)
		}
	}
}
