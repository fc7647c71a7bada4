package catalogue

import (
	"slices"
	"strings"
)

// code is the type of an event's data in a language.
type code struct{ Language, Text string }

func codes(name string, s *schema) []code {
	title := pascal(strings.ReplaceAll(name, ".", "_"))
	classes := &python{}
	classes.class(title, s, 0)
	return []code{
		{"Go", "type " + title + " " + goType(s, 0) + "\n"},
		{"TypeScript", "export interface " + title + " " + tsType(s, 0) + "\n"},
		{"Python", "from typing import Any, NotRequired, TypedDict\n\n" + strings.Join(classes.list, "\n\n") + "\n"},
	}
}

// pascal writes estimated_delivery or estimatedDelivery as EstimatedDelivery, and Id and Url in
// capitals at the end.
func pascal(name string) string {
	var b strings.Builder
	for part := range strings.FieldsFuncSeq(name, func(r rune) bool { return r == '_' }) {
		b.WriteString(strings.ToUpper(part[:1]) + part[1:])
	}
	text := b.String()
	for from, to := range map[string]string{"Id": "ID", "Url": "URL"} {
		if rest, ok := strings.CutSuffix(text, from); ok {
			text = rest + to
		}
	}
	return text
}

// plainType returns the only type that a schema allows; empty: it allows several, or any.
func (s *schema) plainType() string {
	if types := typeOf(s.Type); len(types) == 1 {
		return types[0]
	}
	return ""
}

func goType(s *schema, depth int) string {
	switch s.plainType() {
	case "string":
		if s.Format == "date-time" {
			return "time.Time"
		}
		return "string"
	case "integer":
		return "int64"
	case "number":
		return "json.Number"
	case "boolean":
		return "bool"
	case "array":
		if s.Items != nil {
			return "[]" + goType(s.Items, depth)
		}
		return "[]any"
	}
	if len(s.Properties) == 0 {
		return "json.RawMessage"
	}
	indent := strings.Repeat("\t", depth+1)
	var b strings.Builder
	b.WriteString("struct {\n")
	for i := range s.Properties {
		p := &s.Properties[i]
		kind, option := goType(&p.Schema, depth+1), ""
		if !slices.Contains(s.Required, p.Name) {
			option = ",omitzero"
		}
		b.WriteString(indent + pascal(p.Name) + " " + kind + " `json:\"" + p.Name + option + "\"`\n")
	}
	return b.String() + strings.Repeat("\t", depth) + "}"
}

func tsType(s *schema, depth int) string {
	switch s.plainType() {
	case "string":
		return "string"
	case "integer", "number":
		return "number"
	case "boolean":
		return "boolean"
	case "array":
		if s.Items != nil {
			return "Array<" + tsType(s.Items, depth) + ">"
		}
		return "unknown[]"
	}
	if len(s.Properties) == 0 {
		return "unknown"
	}
	indent := strings.Repeat("  ", depth+1)
	var b strings.Builder
	b.WriteString("{\n")
	for i := range s.Properties {
		p := &s.Properties[i]
		mark := "?"
		if slices.Contains(s.Required, p.Name) {
			mark = ""
		}
		b.WriteString(indent + p.Name + mark + ": " + tsType(&p.Schema, depth+1) + ";\n")
	}
	return b.String() + strings.Repeat("  ", depth) + "}"
}

// python collects classes in the order in which they must be defined.
type python struct{ list []string }

func (c *python) class(name string, s *schema, depth int) string {
	lines := []string{"class " + name + "(TypedDict):"}
	for i := range s.Properties {
		p := &s.Properties[i]
		kind := c.of(name, p.Name, &p.Schema, depth)
		if !slices.Contains(s.Required, p.Name) {
			kind = "NotRequired[" + kind + "]"
		}
		lines = append(lines, "    "+p.Name+": "+kind)
	}
	c.list = append(c.list, strings.Join(lines, "\n"))
	return name
}

func (c *python) of(above, name string, s *schema, depth int) string {
	switch s.plainType() {
	case "string":
		return "str"
	case "integer":
		return "int"
	case "number":
		return "float"
	case "boolean":
		return "bool"
	case "array":
		if s.Items != nil {
			return "list[" + c.of(above, name, s.Items, depth) + "]"
		}
		return "list[Any]"
	}
	if len(s.Properties) == 0 || depth > maxDepth {
		return "Any"
	}
	return c.class(above+pascal(name), s, depth+1)
}
