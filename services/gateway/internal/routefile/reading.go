package routefile

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/jsontree"
)

// Pair is one parameter of a query, a form or a header with cookies: its decoded name, and its value
// as written.
type Pair struct{ Name, Value string }

// Pairs reads a query or a form. Invalid escapes are text.
func Pairs(text string) []Pair {
	var pairs []Pair
	for part := range strings.SplitSeq(text, "&") {
		if part != "" {
			name, value, _ := strings.Cut(part, "=")
			pairs = append(pairs, Pair{unescape(name), value})
		}
	}
	return pairs
}

func unescape(text string) string {
	if decoded, err := url.QueryUnescape(text); err == nil {
		return decoded
	}
	return text
}

// Shape returns the types in the parameter's schema.
func (p *Parameter) Shape(of *File) jsonschema.Shape {
	if p.Pointer != "" {
		return of.Schemas.Shape(p.Pointer)
	}
	if schema, err := jsontree.Parse(p.Schema); err == nil {
		return jsonschema.ShapeOf(schema)
	}
	return jsonschema.Shape{}
}

// Unread returns the reason why values of the parameter can't be read or written; empty: they can.
func (p *Parameter) Unread() string {
	if slices.Contains(styles(p.In), p.Style) {
		return ""
	}
	if media, ok := strings.CutPrefix(p.Style, styleMedia); ok {
		return "has the media type " + media + ", which this gateway does not know in parameters: JSON and text are"
	}
	return "has the style " + p.Style + ", which is none of a " + p.In + " parameter"
}

// reader reads the values of a parameter in the types that its schema names. With texts, a value
// that may be a text or something else is read as a text.
type reader struct {
	*Parameter

	texts bool
}

// ReadTexts returns the JSON values that a path parameter or a header may stand for, the likeliest
// first. fault says why there are none.
func (p *Parameter) ReadTexts(shape jsonschema.Shape, values []string) (readings []jsontext.Value, fault string) {
	text := strings.Join(values, ",") // the form of headers
	separator := ","
	switch p.Style {
	case styleJSON:
		return []jsontext.Value{jsontext.Value(text)}, ""
	case styleLabel:
		rest, ok := strings.CutPrefix(text, ".")
		if !ok {
			return nil, "must begin with a . as its style label has it"
		}
		if p.Explode {
			separator = "."
		}
		text = rest
	case styleMatrix:
		return p.matrix(shape, text)
	}
	readings = p.readings(shape, text, strings.Split(text, separator))
	if p.Style == styleLabel && !p.Explode && !strings.Contains(text, ",") && strings.Contains(text, ".") {
		readings = append(readings, p.readings(shape, text, strings.Split(text, "."))...) // the form of OpenAPI 3.0
	}
	return readings, ""
}

func (p *Parameter) matrix(shape jsonschema.Shape, text string) ([]jsontext.Value, string) {
	rest, ok := strings.CutPrefix(text, ";")
	pieces := strings.Split(rest, ";")
	if ok && p.Explode && shape.Is("object") {
		return p.readings(shape, rest, pieces), ""
	}
	for i, piece := range pieces {
		name, value, _ := strings.Cut(piece, "=")
		if !ok || name != p.Name {
			return nil, "must begin with ;" + p.Name + "= as its style matrix has it"
		}
		pieces[i] = value
	}
	if !p.Explode && len(pieces) == 1 {
		return p.readings(shape, pieces[0], strings.Split(pieces[0], ",")), ""
	}
	return p.readings(shape, strings.Join(pieces, ","), pieces), ""
}

// ReadPairs is like ReadTexts for a parameter in a query or in cookies. The argument others has the
// names of the other parameters in the same place: pairs with none of these names may be members of
// an object. If there are no readings, the request does not have the parameter.
func (p *Parameter) ReadPairs(shape jsonschema.Shape, pairs []Pair, others []string) (readings []jsontext.Value) {
	var raw []string
	for _, pair := range pairs {
		if pair.Name == p.Name {
			raw = append(raw, pair.Value)
		}
	}
	switch {
	case p.Style == styleDeep:
		if tree := treeOf(p.Name, pairs); tree != nil {
			return []jsontext.Value{reader{p, false}.tree(tree, shape), reader{p, true}.tree(tree, shape)}
		}
	case p.Explode && shape.Is("object") && p.Style == styleForm:
		return p.spread(shape, pairs, others)
	}
	switch {
	case len(raw) == 0:
		return nil
	case p.Style == styleJSON && len(raw) == 1:
		return []jsontext.Value{jsontext.Value(unescape(raw[0]))}
	case len(raw) == 1 && !p.Explode:
		return p.delimited(shape, raw[0])
	}
	texts := make([]string, len(raw))
	for i, value := range raw {
		texts[i] = unescape(value)
	}
	if len(texts) == 1 {
		return p.readings(shape, texts[0], texts)
	}
	return p.arrays(shape, texts)
}

// delimited reads several values that are written in one text. A separator should not be escaped: an
// escaped separator is part of a value. But many programs escape separators, so both readings are
// tried.
func (p *Parameter) delimited(shape jsonschema.Shape, raw string) []jsontext.Value {
	text := unescape(raw)
	if p.Style != styleForm {
		return p.readings(shape, text, strings.Split(text, p.separator()))
	}
	words := strings.Split(raw, ",")
	for i, word := range words {
		words[i] = unescape(word)
	}
	whole := strings.Split(text, ",")
	if len(words) == 1 && !shape.Element().Has("string") {
		words = whole
	}
	readings := p.readings(shape, text, words)
	if len(whole) > len(words) {
		readings = append(readings, p.readings(shape, text, whole)...)
	}
	return readings
}

// spread reads an object with members that are parameters themselves.
func (p *Parameter) spread(shape jsonschema.Shape, pairs []Pair, others []string) []jsontext.Value {
	names, open := shape.Names(), shape.Open()
	tree := &branch{}
	for _, pair := range pairs {
		if slices.Contains(names, pair.Name) || open && !slices.Contains(others, pair.Name) {
			tree.at(pair.Name).texts = append(tree.at(pair.Name).texts, unescape(pair.Value))
		}
	}
	if len(tree.names) == 0 {
		return nil
	}
	return []jsontext.Value{reader{p, false}.tree(tree, shape), reader{p, true}.tree(tree, shape)}
}

// readings returns the values that one text, or the words in it, may stand for.
func (p *Parameter) readings(shape jsonschema.Shape, text string, words []string) []jsontext.Value {
	var list []jsontext.Value
	if p.Style == styleText {
		return []jsontext.Value{reader{p, false}.scalar(text, shape), reader{p, true}.scalar(text, shape)}
	}
	if shape.Has("string", "number", "integer", "boolean", "null") {
		list = append(list, reader{p, false}.scalar(text, shape), reader{p, true}.scalar(text, shape))
	}
	if shape.Has("array") {
		list = append(list, p.arrays(shape, words)...)
	}
	if shape.Is("object") {
		list = append(list, reader{p, false}.object(words, shape), reader{p, true}.object(words, shape))
	}
	if len(list) == 0 {
		list = append(list, quote(text))
	}
	return list
}

func (p *Parameter) arrays(shape jsonschema.Shape, words []string) []jsontext.Value {
	if len(words) == 1 && words[0] == "" && p.In != inQuery {
		words = nil
	}
	return []jsontext.Value{reader{p, false}.array(words, shape.Element()), reader{p, true}.array(words, shape.Element())}
}

func (r reader) array(words []string, of jsonschema.Shape) jsontext.Value {
	value := []byte{'['}
	for i, word := range words {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, r.scalar(word, of)...)
	}
	return append(value, ']')
}

func (r reader) object(words []string, shape jsonschema.Shape) jsontext.Value {
	text := []byte{'{'}
	for i := 0; i < len(words); i++ {
		name, value, _ := strings.Cut(words[i], "=")
		if !r.Explode {
			name, value = words[i], ""
			i++
			if i < len(words) {
				value = words[i]
			}
		}
		text = member(text, r.trim(name), r.scalar(value, shape.Member(r.trim(name))))
	}
	return append(text, '}')
}

// trim takes the blanks away that may stand around the values in a header.
func (r reader) trim(text string) string {
	if r.In == inHeader {
		return strings.Trim(text, " \t")
	}
	return text
}

func member(text []byte, name string, value jsontext.Value) []byte {
	if len(text) > 1 {
		text = append(text, ',')
	}
	text, _ = jsontext.AppendQuote(text, name) // invalid UTF-8 becomes U+FFFD
	return append(append(text, ':'), value...)
}

// scalar reads a text as one of the types that the schema names, or as a text when no other type
// fits.
func (r reader) scalar(text string, shape jsonschema.Shape) jsontext.Value {
	text = r.trim(text)
	raw := jsontext.Value(text)
	if r.texts && shape.Has("string") || text != strings.TrimSpace(text) || !raw.IsValid() {
		return quote(text)
	}
	named := map[jsontext.Kind][]string{'0': {"number", "integer"}, 't': {"boolean"}, 'f': {"boolean"}, 'n': {"null"}}[raw.Kind()]
	if named == nil || !shape.Has(named...) || raw.Kind() == 'n' && len(shape.Types()) == 0 {
		return quote(text)
	}
	return raw
}

func quote(text string) jsontext.Value {
	value, err := jsontext.AppendQuote(nil, text)
	if err != nil {
		return jsontext.Value("null") // bytes that are no text
	}
	return value
}
