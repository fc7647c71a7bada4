package routefile

import (
	"context"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
)

// Where parameters are.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
)

// styleJSON is the style of a parameter that is described by a media type.
const styleJSON = "json"

// parameters reads those of the path item and those of the operation, which come in the
// place of the same of the path item.
func (d *document) parameters(s *source, lists ...*jsontree.Node) {
	for _, list := range lists {
		if list != nil && list.Kind() != '[' {
			s.fault(list.Pointer(), "must be an array")
		}
		var here []Parameter
		for _, n := range list.Elements() {
			p, ok := d.parameter(s, n)
			if !ok {
				continue
			}
			if slices.ContainsFunc(here, p.same) {
				s.fault(n.Pointer(), "%s is there twice", p.Name)
			}
			here = append(here, p)
		}
		s.Parameters = slices.DeleteFunc(s.Parameters, func(p Parameter) bool { return slices.ContainsFunc(here, p.same) })
		s.Parameters = append(s.Parameters, here...)
	}
	for _, name := range s.template.names() {
		text := Parameter{
			Name: name, In: inPath, Required: true, Style: "simple",
			Schema: jsontext.Value(`{"type":"string"}`), types: []string{"string"},
		}
		if !slices.ContainsFunc(s.Parameters, text.same) {
			s.Parameters = append(s.Parameters, text)
		}
	}
}

// same tells whether two parameters are one. Names of headers know no case.
func (p *Parameter) same(other Parameter) bool {
	return p.In == other.In && (p.Name == other.Name || p.In == inHeader && strings.EqualFold(p.Name, other.Name))
}

// parameter reads one; ok is false for one that does not count, and for a faulty one.
func (d *document) parameter(s *source, n *jsontree.Node) (p Parameter, ok bool) {
	target, nowhere := n.Follow(d.root)
	if target == nil {
		s.fault(n.Pointer(), "%s leads nowhere in this file", nowhere)
		return p, false
	}
	p.Name, _ = target.Member("name").Text()
	p.In, _ = target.Member("in").Text()
	switch {
	case p.Name == "":
		s.fault(n.Pointer(), "a parameter needs a name")
		return p, false
	case p.In == "cookie":
		return p, false
	case p.In == inHeader && ignoredHeader(p.Name):
		return p, false // OpenAPI says that these describe nothing
	case p.In == inHeader && !isToken(p.Name):
		s.fault(n.Pointer(), "%s is no name of a header", p.Name)
		return p, false
	case p.In == inPath && !slices.Contains(s.template.names(), p.Name):
		s.fault(n.Pointer(), "the path has no parameter %s", p.Name)
		return p, false
	case p.In != inPath && p.In != inQuery && p.In != inHeader:
		s.fault(n.Pointer(), "a parameter is in path, query, header or cookie")
		return p, false
	}
	p.Description, _ = target.Member("description").Text()
	p.Required = target.Member("required").True() || p.In == inPath
	p.Style, p.Explode = style(p.In, target)
	schema := target.Member("schema")
	if content := target.Member("content"); schema == nil && content != nil {
		p.Style = styleJSON
		for _, media := range content.Members() {
			schema = media.Member("schema")
		}
	}
	if schema == nil {
		p.Schema = jsontext.Value("{}")
		return p, true
	}
	p.Pointer, p.Schema = schema.Pointer(), schema.Raw
	ok = d.describe(s, &p)
	return p, ok
}

func style(in string, n *jsontree.Node) (name string, explode bool) {
	name = "simple"
	if in == inQuery {
		name = "form"
	}
	if text, ok := n.Member("style").Text(); ok {
		name = text
	}
	explode = name == "form"
	if given := n.Member("explode"); given != nil {
		explode = given.True()
	}
	return name, explode
}

// describe reads what a parameter's schema says of types and of a default.
func (d *document) describe(s *source, p *Parameter) bool {
	if !d.schema(s, p.Pointer) {
		return false
	}
	text, err := d.file.Schemas.Bundle(p.Pointer)
	if err != nil {
		s.fault(p.Pointer, "%s", err)
		return false
	}
	n, err := jsontree.Parse(text)
	if err != nil {
		s.fault(p.Pointer, "%s", err)
		return false
	}
	p.types, p.items = types(n), types(n.Member("items"))
	for name, schema := range n.Member("properties").Members() {
		p.members = append(p.members, property{name, types(schema)})
	}
	if value := n.Member("default"); value != nil {
		p.Default = value.Raw.Clone()
		schema, err := d.file.Schemas.Compile(p.Pointer)
		if err != nil {
			s.fault(p.Pointer, "%s", err)
			return false
		}
		for _, violation := range schema.Validate(context.Background(), p.Default) {
			s.fault(p.Pointer+"/default", "the default does not fit its own schema: %s", strings.TrimSpace(violation.Pointer+" "+violation.Detail))
		}
	}
	return true
}

// types returns the types that a schema names.
func types(schema *jsontree.Node) []string {
	n := schema.Member("type")
	if text, ok := n.Text(); ok {
		return []string{text}
	}
	var names []string
	for _, element := range n.Elements() {
		text, _ := element.Text()
		names = append(names, text)
	}
	return names
}

func ignoredHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept", "Content-Type", "Authorization":
		return true
	}
	return false
}

// isToken tells whether a text may be the name of a header.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
