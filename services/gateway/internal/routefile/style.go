package routefile

import (
	"math"
	"strconv"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/jsonscan"
)

// The styles in which values are written.
const (
	styleSimple = "simple"
	styleLabel  = "label"
	styleMatrix = "matrix"
	styleForm   = "form"
	styleSpace  = "spaceDelimited"
	stylePipe   = "pipeDelimited"
	styleDeep   = "deepObject"
	// styleJSON is the style of a parameter with a JSON media type, styleText of one with a text type. Styles
	// for other media types begin with styleMedia.
	styleJSON  = "json"
	styleText  = "text"
	styleMedia = "media "
)

// styles returns the styles that are allowed in a place.
func styles(in string) []string {
	switch in {
	case inQuery:
		return []string{styleForm, styleSpace, stylePipe, styleDeep, styleJSON, styleText}
	case inPath:
		return []string{styleSimple, styleLabel, styleMatrix, styleJSON, styleText}
	case inCookie:
		return []string{styleForm, styleJSON, styleText}
	}
	return []string{styleSimple, styleJSON, styleText}
}

// separator returns the separator between the elements of a value that is one text.
func (p *Parameter) separator() string {
	switch {
	case p.Style == styleSpace:
		return " "
	case p.Style == stylePipe:
		return "|"
	case p.Style == styleLabel && p.Explode:
		return "."
	case p.Style == styleMatrix && p.Explode:
		return ";"
	}
	return ","
}

// join writes a value as one text. escape escapes the values; separators are not escaped, so that a back end can
// distinguish them from values.
func (p *Parameter) join(value jsonscan.Value, escape func(string) string) string {
	if p.Style == styleJSON {
		return escape(string(value))
	}
	before, equals := "", "="
	switch p.Style {
	case styleLabel:
		before = "."
	case styleMatrix:
		before = ";"
		if value.Kind() != '{' || !p.Explode {
			before += escape(p.Name) + equals
		}
	}
	var words []string
	switch value.Kind() {
	case '[':
		for element := range value.Elements() {
			text := escape(word(element))
			if p.Style == styleMatrix && p.Explode && len(words) > 0 {
				text = escape(p.Name) + equals + text
			}
			words = append(words, text)
		}
	case '{':
		for name, member := range value.Members() {
			if p.Explode {
				words = append(words, escape(word(name))+equals+escape(word(member)))
			} else {
				words = append(words, escape(word(name)), escape(word(member)))
			}
		}
	default:
		return before + escape(word(value))
	}
	separator := p.separator()
	if p.In == inQuery && separator != "," {
		separator = escape(separator) // no URL has these characters unescaped
	}
	return before + strings.Join(words, separator)
}

// word writes a value inside another: a text as it is, other values as JSON, but a whole number with digits
// only. Some clients write 7.0 or 1e3, which readers of parameters may not accept as a number.
func word(value jsonscan.Value) string {
	if text, ok := value.Text(); ok {
		return text
	}
	const most = 1 << 53 // beyond this, floats skip whole numbers
	if value.Kind() == '0' && strings.ContainsAny(string(value), ".eE") {
		if number, err := strconv.ParseFloat(string(value), 64); err == nil && number == math.Trunc(number) && math.Abs(number) < most {
			return strconv.FormatInt(int64(number), 10)
		}
	}
	return string(value)
}

// plain escapes nothing.
func plain(text string) string { return text }

// reserved are the characters that are not escaped if a parameter allows them: those that end neither a value
// nor a query.
const reserved = ":/?@!$'()*,;"

func (p *Parameter) escape(text string) string {
	if !p.Reserved {
		return route.Component(text)
	}
	var b strings.Builder
	for i := range len(text) {
		if c := text[i : i+1]; strings.Contains(reserved, c) {
			b.WriteString(c)
		} else {
			b.WriteString(route.Component(c))
		}
	}
	return b.String()
}

// pairs collects names and escaped values until they are too long. A name is repeated for each of its values, so
// the pairs may be much longer than the JSON that they come from.
type pairs struct {
	remaining int // remaining bytes, before names are escaped; below 0: there were too many
	put       func(name, text string)
}

// takeBytes takes so many bytes, and reports whether there was room for them.
func (o *pairs) takeBytes(bytes int) bool {
	if o.remaining >= 0 {
		o.remaining -= bytes
	}
	return o.remaining >= 0
}

// add adds a pair, and reports whether there was room for it.
func (o *pairs) add(name, text string) bool {
	if !o.takeBytes(len(name) + len(text)) {
		return false
	}
	o.put(name, text)
	return true
}

// write writes a value as the parameters of a query.
func (p *Parameter) write(value jsonscan.Value, to *pairs) {
	switch {
	case p.Style == styleJSON:
		to.add(p.Name, p.escape(string(value)))
	case p.Style == styleDeep && (value.Kind() == '{' || value.Kind() == '['):
		p.deep(p.Name, value, to)
	case value.Kind() == '{' && p.Explode:
		for name, member := range value.Members() {
			name := word(name)
			if member.Kind() != '[' {
				to.add(name, p.escape(word(member)))
				continue
			}
			for element := range member.Elements() {
				if !to.add(name, p.escape(word(element))) {
					return
				}
			}
		}
	case value.Kind() == '[' && p.Explode:
		for element := range value.Elements() {
			if !to.add(p.Name, p.escape(word(element))) {
				return
			}
		}
	default:
		to.add(p.Name, p.join(value, p.escape))
	}
}

// deep writes a value with a name in brackets for each of its members or elements.
func (p *Parameter) deep(name string, value jsonscan.Value, to *pairs) {
	switch value.Kind() {
	case '{':
		for member, of := range value.Members() {
			if !to.takeBytes(len(name)) {
				return
			}
			p.deep(name+"["+word(member)+"]", of, to)
		}
	case '[':
		// Many readers keep only the last of several values without a place of their own.
		i := 0
		for element := range value.Elements() {
			if !to.takeBytes(len(name)) {
				return
			}
			p.deep(name+"["+strconv.Itoa(i)+"]", element, to)
			i++
		}
	default:
		to.add(name, p.escape(word(value)))
	}
}
