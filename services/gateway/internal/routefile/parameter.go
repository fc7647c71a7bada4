package routefile

import (
	"context"
	"mime"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
)

// Where parameters are.
const (
	inPath   = "path"
	inQuery  = "query"
	inHeader = "header"
	inCookie = "cookie"
)

// parameters reads the parameters of the path item and those of the operation, which replace the
// same ones of the path item.
func (d *document) parameters(s *routedOperation, lists ...*jsontree.Node) {
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
			if slices.ContainsFunc(here, p.isSame) {
				s.refuse(n.Pointer(), "%s is there twice", p.Name)
			}
			here = append(here, p)
		}
		s.Parameters = slices.DeleteFunc(s.Parameters, func(p Parameter) bool { return slices.ContainsFunc(here, p.isSame) })
		s.Parameters = append(s.Parameters, here...)
	}
	cookie := func(p Parameter) bool { return p.In == inCookie }
	s.Cookies = slices.DeleteFunc(slices.Clone(s.Parameters), func(p Parameter) bool { return !cookie(p) })
	s.Parameters = slices.DeleteFunc(s.Parameters, cookie)
	for _, name := range s.template.names() {
		text := Parameter{
			Name: name, In: inPath, Required: true, Style: styleSimple,
			Schema: jsontext.Value(`{"type":"string"}`),
		}
		if !slices.ContainsFunc(s.Parameters, text.isSame) {
			s.Parameters = append(s.Parameters, text)
		}
	}
}

// isSame reports whether two parameters are the same. The case of header names does not matter.
func (p *Parameter) isSame(other Parameter) bool {
	return p.In == other.In && (p.Name == other.Name || p.In == inHeader && strings.EqualFold(p.Name, other.Name))
}

// parameter reads one; ok is false for one that does not count, and for a faulty one.
func (d *document) parameter(s *routedOperation, n *jsontree.Node) (p Parameter, ok bool) {
	target, nowhere := n.Follow(d.root)
	if target == nil {
		s.refuse(n.Pointer(), "%s leads nowhere in this file", nowhere)
		return p, false
	}
	p.Name, _ = target.Member("name").Text()
	p.In, _ = target.Member("in").Text()
	switch {
	case p.Name == "":
		s.refuse(n.Pointer(), "a parameter needs a name")
		return p, false
	case p.In == inHeader && ignoredHeader(p.Name):
		return p, false // OpenAPI says that these are ignored
	case p.In == inHeader && !isToken(p.Name):
		s.refuse(n.Pointer(), "%s is no name of a header", p.Name)
		return p, false
	case p.In == inPath && !slices.Contains(s.template.names(), p.Name):
		s.refuse(n.Pointer(), "the path has no parameter %s", p.Name)
		return p, false
	case !slices.Contains([]string{inPath, inQuery, inHeader, inCookie}, p.In):
		s.refuse(n.Pointer(), "a parameter is in path, query, header or cookie")
		return p, false
	}
	p.Description, _ = target.Member("description").Text()
	p.Required = target.Member("required").True() || p.In == inPath
	p.Style, p.Explode = style(p.In, target)
	p.Reserved, p.Empty = target.Member("allowReserved").True(), target.Member("allowEmptyValue").True()
	schema := target.Member("schema")
	if content := target.Member("content"); schema == nil && content.Len() > 0 {
		p.Style, schema = contentStyle(content)
		p.Explode = false
	}
	if schema == nil {
		p.Schema = jsontext.Value("{}")
		return p, true
	}
	p.Pointer, p.Schema = schema.Pointer(), schema.Raw
	ok = d.describe(s, &p)
	return p, ok
}

// contentStyle returns the style and the schema of a parameter that is described by media types.
// There should be only one.
func contentStyle(content *jsontree.Node) (name string, schema *jsontree.Node) {
	if media, described := jsonMedia(content); described != nil && !strings.Contains(media, "*") {
		return styleJSON, described.Member("schema")
	}
	for media, described := range content.Members() {
		kind, _, _ := mime.ParseMediaType(media)
		name, schema = styleMedia+media, described.Member("schema")
		if strings.HasPrefix(kind, "text/") {
			name = styleText
		}
		break
	}
	return name, schema
}

func style(in string, n *jsontree.Node) (name string, explode bool) {
	name = styleSimple
	if in == inQuery || in == inCookie {
		name = styleForm
	}
	if text, ok := n.Member("style").Text(); ok {
		name = text
	}
	explode = name == styleForm
	if given := n.Member("explode"); given != nil {
		explode = given.True()
	}
	return name, explode
}

// describe reads the types and the default of a parameter's schema.
func (d *document) describe(s *routedOperation, p *Parameter) bool {
	if !d.schema(s, p.Pointer) {
		return false
	}
	text, err := d.file.Schemas.Bundle(p.Pointer, jsonschema.Requests)
	if err != nil {
		s.refuse(p.Pointer, "%s", err)
		return false
	}
	n, err := jsontree.Parse(text)
	if err != nil {
		s.refuse(p.Pointer, "%s", err)
		return false
	}
	if value := n.Member("default"); value != nil {
		p.Default = value.Raw.Clone()
		schema, err := d.file.Schemas.Compile(p.Pointer)
		if err != nil {
			s.refuse(p.Pointer, "%s", err)
			return false
		}
		found := schema.Validate(context.Background(), p.Default)
		if text := quote(string(p.Default)); len(found) > 0 && len(schema.Validate(context.Background(), text)) == 0 {
			p.Default, found = text, nil // a number where the schema asks for text, as YAML parsers make it
		}
		for _, violation := range found {
			s.refuse(p.Pointer+"/default", "the default does not fit its own schema: %s", strings.TrimSpace(violation.Pointer+" "+violation.Detail))
		}
	}
	return true
}

func ignoredHeader(name string) bool {
	switch http.CanonicalHeaderKey(name) {
	case "Accept", "Content-Type", "Authorization":
		return true
	}
	return false
}

// isToken reports whether a text may be the name of a header.
func isToken(name string) bool {
	return name != "" && !strings.ContainsFunc(name, func(r rune) bool {
		return r <= ' ' || r >= 0x7f || strings.ContainsRune(`()<>@,;:\"/[]?={}`, r)
	})
}
