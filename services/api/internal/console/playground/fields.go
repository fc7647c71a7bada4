package playground

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

// field is an argument in a form. Its name is "a/" and its place among the arguments: a/body/url.
type field struct {
	Name, Label, Hint string
	Kind              string
	Required          bool
	Options           []console.Option // choices for one value
	Choices           []string         // choices for several values
}

// The kinds of fields.
const (
	fieldText   = "text"
	fieldNumber = "number"
	fieldFlag   = "flag"
	fieldOne    = "one"   // one of Options
	fieldSome   = "some"  // several of Choices
	fieldLines  = "lines" // texts, one per line
	fieldJSON   = "json"
)

// schema is the part of a JSON Schema that is used to make a form. Values that it can't describe
// are typed as JSON; the server checks everything anyway.
type schema struct {
	Ref         string            `json:"$ref"`
	Type        jsontext.Value    `json:"type"`
	Description string            `json:"description"`
	Properties  map[string]schema `json:"properties"`
	Required    []string          `json:"required"`
	Enum        []jsontext.Value  `json:"enum"`
	Items       *schema           `json:"items"`
	Defs        map[string]schema `json:"$defs"`
}

// kind returns the type, of several the first that is not null.
func (s *schema) kind() string {
	var one string
	if json.Unmarshal(s.Type, &one) == nil {
		return one
	}
	var several []string
	if json.Unmarshal(s.Type, &several) == nil {
		for _, t := range several {
			if t != "null" {
				return t
			}
		}
	}
	return ""
}

// words returns the values of an enumeration of texts; nil: there is no enumeration, or it has
// other values.
func (s *schema) words() []string {
	var list []string
	for _, raw := range s.Enum {
		var text string
		if json.Unmarshal(raw, &text) != nil {
			return nil
		}
		list = append(list, text)
	}
	return list
}

// fieldsOf returns the fields of an item's form.
func fieldsOf(i *item) []field {
	if i.kind == kindPrompt {
		var list []field
		for _, a := range i.Arguments {
			list = append(list, field{Name: "a/" + a.Name, Label: console.Visible(a.Name), Hint: console.Visible(a.Description), Kind: fieldText, Required: a.Required})
		}
		return list
	}
	var s schema
	if len(i.InputSchema) == 0 || json.Unmarshal(i.InputSchema, &s) != nil {
		return nil
	}
	return s.fields("a", "", s.Defs, true)
}

// fields returns the fields of an object's members, the required ones first. Members of members are
// fields, too; anything deeper is typed as JSON.
func (s *schema) fields(prefix, label string, defs map[string]schema, deeper bool) []field {
	var list []field
	names := slices.Sorted(maps.Keys(s.Properties))
	slices.SortStableFunc(names, func(a, b string) int {
		switch ra, rb := slices.Contains(s.Required, a), slices.Contains(s.Required, b); {
		case ra == rb:
			return 0
		case ra:
			return -1
		}
		return 1
	})
	for _, name := range names {
		member := resolved(s.Properties[name], defs)
		f := field{Name: prefix + "/" + name, Label: label + console.Visible(name), Hint: console.Visible(member.Description), Required: slices.Contains(s.Required, name)}
		if deeper && member.kind() == "object" && len(member.Properties) > 0 {
			list = append(list, member.fields(f.Name, f.Label+".", defs, false)...)
			continue
		}
		member.shape(&f)
		list = append(list, f)
	}
	return list
}

// resolved returns the target of a reference, also for the schema's items.
func resolved(s schema, defs map[string]schema) schema {
	if known, ok := defs[strings.TrimPrefix(s.Ref, "#/$defs/")]; ok {
		known.Description = cmp.Or(s.Description, known.Description)
		s = known
	}
	if s.Items != nil {
		if known, ok := defs[strings.TrimPrefix(s.Items.Ref, "#/$defs/")]; ok {
			s.Items = &known
		}
	}
	return s
}

// shape sets the kind of a field.
func (s *schema) shape(f *field) {
	words := s.words()
	switch kind := s.kind(); {
	case len(words) > 0:
		f.Kind = fieldOne
		if !f.Required {
			f.Options = append(f.Options, console.Option{Label: "–"})
		}
		for _, w := range words {
			f.Options = append(f.Options, console.Option{Value: w, Label: w})
		}
	case kind == "string":
		f.Kind = fieldText
	case kind == "integer" || kind == "number":
		f.Kind = fieldNumber
	case kind == "boolean":
		f.Kind = fieldFlag
		f.Options = []console.Option{{Label: "–"}, {Value: "true", Label: "true"}, {Value: "false", Label: "false"}}
	case kind == "array" && s.Items != nil && len(s.Items.words()) > 0:
		f.Kind, f.Choices = fieldSome, s.Items.words()
	case kind == "array" && s.Items != nil && s.Items.kind() == "string":
		f.Kind = fieldLines
	default:
		f.Kind = fieldJSON
	}
}

// Has reports whether a value is chosen, for templates.
func (f field) Has(form *console.Form, value string) bool {
	return slices.Contains(form.Values[f.Name], value)
}

// read makes the call's arguments from the form. An empty field gives no argument.
func read(v *view) map[string]jsontext.Value {
	arguments := make(map[string]jsontext.Value)
	nested := make(map[string]map[string]jsontext.Value)
	for _, f := range v.Fields {
		value, ok := f.value(v.Form)
		if !ok {
			continue
		}
		name := strings.TrimPrefix(f.Name, "a/")
		if outer, inner, deep := strings.Cut(name, "/"); deep && strings.Contains(f.Label, ".") {
			if nested[outer] == nil {
				nested[outer] = make(map[string]jsontext.Value)
			}
			nested[outer][inner] = value
			continue
		}
		arguments[name] = value
	}
	for name, members := range nested {
		arguments[name] = encode(members)
	}
	return arguments
}

// value returns the typed value of a field; ok is false when nothing was typed, or it is not the
// required JSON.
func (f field) value(form *console.Form) (value jsontext.Value, ok bool) {
	typed := strings.TrimSpace(form.Values.Get(f.Name))
	if f.Kind == fieldSome {
		return encode(form.Values[f.Name]), len(form.Values[f.Name]) > 0
	}
	if typed == "" {
		return nil, false
	}
	switch f.Kind {
	case fieldNumber, fieldFlag:
		if raw := jsontext.Value(typed); raw.IsValid() {
			return raw, true
		}
	case fieldLines:
		var lines []string
		for line := range strings.Lines(typed) {
			if line = strings.TrimSpace(line); line != "" {
				lines = append(lines, line)
			}
		}
		return encode(lines), true
	case fieldJSON:
		raw := jsontext.Value(typed)
		if !raw.IsValid() {
			if form.Problem == nil {
				form.Problem = &console.Problem{Title: "Invalid input", Status: http.StatusBadRequest, Code: "INVALID_INPUT", Detail: "The form has a fault."}
			}
			form.Problem.Faults = append(form.Problem.Faults, console.Fault{Pointer: "/" + f.Name, Detail: "is not JSON"})
			return nil, false
		}
		return raw, true
	}
	return encode(typed), true
}
