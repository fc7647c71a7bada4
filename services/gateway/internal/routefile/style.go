package routefile

import (
	"net/url"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/shared/jsonscan"
)

// separator is what stands between the elements of a value that is one text.
func (p *Parameter) separator() string {
	switch p.Style {
	case "spaceDelimited":
		return " "
	case "pipeDelimited":
		return "|"
	}
	return ","
}

// join writes a value as one text.
func (p *Parameter) join(value jsonscan.Value) string {
	if p.Style == styleJSON {
		return string(value)
	}
	var words []string
	switch value.Kind() {
	case '[':
		for element := range value.Elements() {
			words = append(words, word(element))
		}
	case '{':
		for name, member := range value.Members() {
			if p.Explode {
				words = append(words, word(name)+"="+word(member))
			} else {
				words = append(words, word(name), word(member))
			}
		}
	default:
		return word(value)
	}
	return strings.Join(words, p.separator())
}

// word writes a value within another: a text as it is, the others as JSON.
func word(value jsonscan.Value) string {
	if text, ok := value.Text(); ok {
		return text
	}
	return string(value)
}

// query writes a value into a query.
func (p *Parameter) query(query url.Values, value jsonscan.Value) {
	switch {
	case p.Style == styleJSON:
		query.Set(p.Name, string(value))
	case value.Kind() == '{' && p.Style == "deepObject":
		for name, member := range value.Members() {
			query.Set(p.Name+"["+word(name)+"]", word(member))
		}
	case value.Kind() == '{' && p.Explode:
		for name, member := range value.Members() {
			query.Set(word(name), word(member))
		}
	case value.Kind() == '[' && p.Explode:
		for element := range value.Elements() {
			query.Add(p.Name, word(element))
		}
	default:
		query.Set(p.Name, p.join(value))
	}
}

// split reads what join writes.
func (p *Parameter) split(text string) jsontext.Value {
	if p.Style == styleJSON {
		return jsontext.Value(text)
	}
	switch {
	case slices.Contains(p.types, "array"):
		return list(strings.Split(text, p.separator()), p.items)
	case slices.Contains(p.types, "object"):
		return p.object(strings.Split(text, p.separator()))
	}
	return scalar(text, p.types)
}

func (p *Parameter) object(words []string) jsontext.Value {
	text := []byte{'{'}
	for i := 0; i < len(words); i++ {
		name, value, _ := strings.Cut(words[i], "=")
		if !p.Explode {
			name, value = words[i], ""
			i++
			if i < len(words) {
				value = words[i]
			}
		}
		var types []string
		for _, m := range p.members {
			if m.name == name {
				types = m.types
			}
		}
		text = member(text, name, scalar(value, types))
	}
	return append(text, '}')
}

func member(text []byte, name string, value jsontext.Value) []byte {
	if len(text) > 1 {
		text = append(text, ',')
	}
	text, _ = jsontext.AppendQuote(text, name) // what is no UTF-8 becomes U+FFFD
	return append(append(text, ':'), value...)
}

func list(texts, types []string) jsontext.Value {
	value := []byte{'['}
	for i, text := range texts {
		if i > 0 {
			value = append(value, ',')
		}
		value = append(value, scalar(text, types)...)
	}
	return append(value, ']')
}

// scalar reads a text as one of types; a text it is when nothing else fits.
func scalar(text string, types []string) jsontext.Value {
	raw := jsontext.Value(text)
	if !slices.Contains(types, "string") && text == strings.TrimSpace(text) && raw.IsValid() {
		named := map[jsontext.Kind][]string{'0': {"number", "integer"}, 't': {"boolean"}, 'f': {"boolean"}, 'n': {"null"}}[raw.Kind()]
		if slices.ContainsFunc(named, func(name string) bool { return slices.Contains(types, name) }) {
			return raw
		}
	}
	quoted, _ := jsontext.AppendQuote(nil, text) // likewise
	return quoted
}
