package handler

import (
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/shared/input"
)

// publisher writes a document for the public. It leaves out private parts: all extensions, because
// gateways of all makes name their back ends in them; servers, which are the back ends in documents
// that were written for these; and operations with x-internal, by whatever path or reference they
// are reached. Values of examples, defaults and the like stay as they are written.
type publisher struct {
	root    *jsontree.Node
	needs   map[string]string // what operations require, needsKey or needsToken, by method and path
	servers []string          // that the document is to name
	used    string            // security schemes that the published operations require, as members of an object
}

// object is a JSON object that is being written.
type object struct{ text jsontext.Value }

func (o *object) add(name string, value []byte) {
	if len(o.text) == 0 {
		o.text = append(o.text, '{')
	} else {
		o.text = append(o.text, ',')
	}
	o.text, _ = jsontext.AppendQuote(o.text, name)
	o.text = append(append(o.text, ':'), value...)
}

func (o *object) end() jsontext.Value {
	if len(o.text) == 0 {
		return jsontext.Value("{}")
	}
	return append(o.text, '}')
}

// isExtension reports whether a member of an OpenAPI object is an extension.
func isExtension(name string) bool {
	return len(name) > 1 && (name[0] == 'x' || name[0] == 'X') && name[1] == '-'
}

func (p *publisher) document() jsontext.Value {
	paths := p.paths(p.root.Member("paths"))
	var o object
	for name, member := range p.root.Members() {
		switch {
		case isExtension(name), name == "servers":
		case name == "paths":
			o.add(name, paths)
		case name == "webhooks":
			o.add(name, p.webhooks(member))
		case name == "components":
			o.add(name, p.components(member))
		default:
			o.add(name, p.member(name, member))
		}
		if name == "info" && len(p.servers) > 0 {
			o.add("servers", p.named())
		}
	}
	if p.used != "" && p.root.Member("components") == nil {
		o.add("components", p.components(nil))
	}
	return o.end()
}

// named writes the servers that the document is to name.
func (p *publisher) named() jsontext.Value {
	list := jsontext.Value{'['}
	for i, server := range p.servers {
		if i > 0 {
			list = append(list, ',')
		}
		var o object
		text, _ := jsontext.AppendQuote(nil, server)
		o.add("url", text)
		list = append(list, o.end()...)
	}
	return append(list, ']')
}

func (p *publisher) paths(n *jsontree.Node) jsontext.Value {
	var o object
	for path, item := range n.Members() {
		if isExtension(path) {
			continue
		}
		if written, some := p.item(path, item); some {
			o.add(path, written)
		}
	}
	return o.end()
}

func (p *publisher) webhooks(n *jsontree.Node) jsontext.Value {
	var o object
	for name, item := range n.Members() {
		if written, some := p.item("", item); some {
			o.add(name, written)
		}
	}
	return o.end()
}

// item writes the operations of a path, in full where there is a reference to an item
// elsewhere; some is false when none is left.
func (p *publisher) item(path string, n *jsontree.Node) (written jsontext.Value, some bool) {
	target := p.follow(n)
	var o object
	for name, member := range target.Members() {
		switch {
		case isExtension(name), name == "servers":
		case !isMethod(name):
			o.add(name, p.member(name, member))
		case !member.Member("x-internal").True():
			o.add(name, p.operation(strings.ToUpper(name)+" "+path, member))
			some = true
		}
	}
	return o.end(), some
}

// follow returns the path item that n is or refers to; nil: there is none, or an item on the way to
// it is internal.
func (p *publisher) follow(n *jsontree.Node) *jsontree.Node {
	for range input.MaxDepth {
		if n.Member("x-internal").True() {
			return nil
		}
		reference, ok := n.Member("$ref").Text()
		if !ok {
			return n
		}
		pointer, local := jsontree.Fragment(reference)
		if !local {
			return nil
		}
		n = p.root.At(pointer)
	}
	return nil
}

func isMethod(name string) bool {
	switch name {
	case "get", "put", "post", "delete", "options", "head", "patch", "trace":
		return true
	}
	return false
}

func (p *publisher) operation(which string, n *jsontree.Node) jsontext.Value {
	var o object
	for name, member := range n.Members() {
		if !isExtension(name) && name != "servers" {
			o.add(name, p.member(name, member))
		}
	}
	if needs := p.needs[which]; needs != "" && n.Member("security") == nil {
		p.use(needs)
		o.add("security", jsontext.Value(needs))
	}
	return o.end()
}

// use notes that a published operation needs something.
func (p *publisher) use(needs string) {
	scheme := keySchemes
	if needs == needsToken {
		scheme = tokenSchemes
	}
	if !strings.Contains(p.used, scheme) {
		p.used = strings.TrimPrefix(p.used+","+scheme, ",")
	}
}

// member writes a member of an object of OpenAPI or of a schema.
func (p *publisher) member(name string, n *jsontree.Node) jsontext.Value {
	switch name {
	case "const", "default", "dependentRequired", "enum", "example", "mapping", "scopes", "security", "value":
		return n.Raw // values, where names have no meaning of their own
	case "examples":
		if n.Kind() == '[' {
			return n.Raw
		}
		return names(n, p.value)
	case "$defs", "content", "definitions", "dependentSchemas", "encoding", "headers", "patternProperties", "properties":
		return names(n, p.value)
	case "callbacks":
		return names(n, p.callback)
	case "links":
		return names(n, p.link)
	case "responses":
		return p.responses(n)
	}
	return p.value(n)
}

// names writes an object whose members are named by the author, such as properties.
func names(n *jsontree.Node, write func(*jsontree.Node) jsontext.Value) jsontext.Value {
	if n.Kind() != '{' {
		return n.Raw
	}
	var o object
	for name, member := range n.Members() {
		o.add(name, write(member))
	}
	return o.end()
}

// value writes an object of OpenAPI, a schema, a list of them, or anything else.
func (p *publisher) value(n *jsontree.Node) jsontext.Value {
	switch n.Kind() {
	case '{':
		var o object
		for name, member := range n.Members() {
			if !isExtension(name) && name != "servers" {
				o.add(name, p.member(name, member))
			}
		}
		return o.end()
	case '[':
		list := jsontext.Value{'['}
		for i, element := range n.Elements() {
			if i > 0 {
				list = append(list, ',')
			}
			list = append(list, p.value(element)...)
		}
		return append(list, ']')
	}
	return n.Raw
}

func (p *publisher) responses(n *jsontree.Node) jsontext.Value {
	var o object
	for status, response := range n.Members() {
		if !isExtension(status) {
			o.add(status, p.value(response))
		}
	}
	return o.end()
}

// callback writes the path items of a callback, by the expressions of their URLs.
func (p *publisher) callback(n *jsontree.Node) jsontext.Value {
	if n.Member("$ref") != nil {
		return n.Raw
	}
	var o object
	for expression, item := range n.Members() {
		if isExtension(expression) {
			continue
		}
		if written, some := p.item("", item); some {
			o.add(expression, written)
		}
	}
	return o.end()
}

func (*publisher) link(n *jsontree.Node) jsontext.Value {
	if n.Kind() != '{' {
		return n.Raw
	}
	var o object
	for name, member := range n.Members() {
		if !isExtension(name) && name != "server" {
			o.add(name, member.Raw)
		}
	}
	return o.end()
}

// components writes the document's components, with the security schemes where a key is needed.
// Path items are left out: each is written where it is referred to.
func (p *publisher) components(n *jsontree.Node) jsontext.Value {
	var o object
	for name, member := range n.Members() {
		switch {
		case isExtension(name), name == "pathItems", name == "securitySchemes" && p.used != "":
		case name == "callbacks":
			o.add(name, names(member, p.callback))
		case name == "links":
			o.add(name, names(member, p.link))
		default:
			o.add(name, names(member, p.value))
		}
	}
	if p.used == "" {
		return o.end()
	}
	var s object
	own, err := jsontree.Parse([]byte("{" + p.used + "}"))
	for name, member := range n.Member("securitySchemes").Members() {
		if own.Member(name) == nil {
			s.add(name, p.value(member))
		}
	}
	if err == nil {
		for name, member := range own.Members() {
			s.add(name, member.Raw)
		}
	}
	o.add("securitySchemes", s.end())
	return o.end()
}
