package routefile

import (
	"cmp"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// Part is a member of a form as it arrived.
type Part struct {
	Name string
	// Text is the value; in a form without files, exactly as it is written there.
	Text string
	// MediaType is the type that the part declares; empty: none.
	MediaType string
	// File: the part is a file. Each character of Text is one of its bytes.
	File bool
}

// Form returns the JSON objects that the parts of a form may stand for. The first has numbers where
// a text may be a number. Raw: the texts are escaped, as in a query.
func (m *Media) Form(shape jsonschema.Shape, parts []Part, raw bool) []jsontext.Value {
	return []jsontext.Value{m.form(shape, parts, raw, false), m.form(shape, parts, raw, true)}
}

func (m *Media) form(shape jsonschema.Shape, parts []Part, raw, texts bool) jsontext.Value {
	names := shape.Names()
	tree := &branch{}
	for i := range parts {
		part := &parts[i]
		name, place, deep := strings.Cut(part.Name, "[")
		if deep && strings.HasSuffix(place, "]") && !slices.Contains(names, part.Name) {
			tree.at(name).grow(strings.TrimSuffix(place, "]"), part.text(raw))
			continue
		}
		m.add(tree.at(part.Name), part, shape.Member(part.Name), raw)
	}
	if len(tree.names) == 0 {
		return jsontext.Value("{}")
	}
	root := jsontext.Value{'{'}
	for _, name := range tree.names {
		root = member(root, name, reader{&Parameter{Name: name, Style: styleForm, Explode: true}, texts}.tree(tree.members[name], shape.Member(name)))
	}
	return append(root, '}')
}

func (p *Part) text(raw bool) string {
	if raw {
		return unescape(p.Text)
	}
	return p.Text
}

// add adds a part to its member.
func (m *Media) add(to *branch, part *Part, shape jsonschema.Shape, raw bool) {
	field := m.Fields[part.Name]
	text := part.text(raw)
	media := cmp.Or(part.MediaType, field.MediaType)
	value := jsontext.Value(text)
	isJSON := IsJSON(media) || media == "" && field.Style == "" && (shape.Is("object") || shape.Element().Is("object"))
	switch {
	case part.File && !IsJSON(media):
		to.texts = append(to.texts, text)
	case isJSON && value.IsValid() && shape.Is("array") && value.Kind() != '[':
		to.at(string(rune(len(to.names)))).value = value
	case isJSON && value.IsValid():
		to.value = value
	case raw && shape.Is("array") && field.Delimited():
		of := Parameter{Style: field.Style}
		words := strings.Split(part.Text, ",")
		if field.Style != styleForm {
			words = strings.Split(text, of.separator())
		}
		for _, word := range words {
			to.texts = append(to.texts, unescape(word))
		}
	default:
		to.texts = append(to.texts, text)
	}
}

// IsJSON reports whether a media type is one of JSON.
func IsJSON(media string) bool {
	return media == "application/json" || strings.HasSuffix(media, "+json") || media == "text/json"
}
