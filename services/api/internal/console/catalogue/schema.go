package catalogue

import (
	"fmt"
	"slices"
	"strings"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/api/internal/console"
)

// document is the part of the OpenAPI document that describes events.
type document struct {
	schemas map[string]jsontext.Value
}

// schema is a schema of the document.
type schema struct {
	Ref           string         `json:"$ref"`
	Type          jsontext.Value `json:"type"`
	Format        string         `json:"format"`
	Description   string         `json:"description"`
	MinLength     int            `json:"minLength"`
	MaxLength     int            `json:"maxLength"`
	Properties    properties     `json:"properties"`
	Required      []string       `json:"required"`
	Items         *schema        `json:"items"`
	AllOf         []schema       `json:"allOf"`
	Discriminator struct {
		Mapping map[string]string `json:"mapping"`
	} `json:"discriminator"`
}

// properties are the members of an object, in the document's order.
type properties []property

type property struct {
	Name   string
	Schema schema
}

// UnmarshalJSONFrom implements json.UnmarshalerFrom: a map would lose the order.
func (p *properties) UnmarshalJSONFrom(d *jsontext.Decoder) error {
	if _, err := d.ReadToken(); err != nil {
		return fmt.Errorf("read properties: %w", err)
	}
	for d.PeekKind() == '"' {
		name, err := d.ReadToken()
		if err != nil {
			return fmt.Errorf("read properties: %w", err)
		}
		one := property{Name: name.String()}
		if err := json.UnmarshalDecode(d, &one.Schema); err != nil {
			return fmt.Errorf("read property: %w", err)
		}
		*p = append(*p, one)
	}
	_, err := d.ReadToken()
	if err != nil {
		return fmt.Errorf("read properties: %w", err)
	}
	return nil
}

func readDocument(p *console.Page) (*document, error) {
	var whole struct {
		Components struct {
			Schemas map[string]jsontext.Value `json:"schemas"`
		} `json:"components"`
	}
	if err := p.API.Get("/openapi", nil, &whole); err != nil {
		return nil, err
	}
	return &document{whole.Components.Schemas}, nil
}

const refs = "#/components/schemas/"

// maxDepth bounds the references that are followed: no schema of ours is deeper.
const maxDepth = 12

// get returns a schema with all references replaced by their targets.
func (d *document) get(ref string, depth int) schema {
	var s schema
	if json.Unmarshal(d.schemas[strings.TrimPrefix(ref, refs)], &s) != nil {
		return schema{}
	}
	return d.resolve(s, depth)
}

func (d *document) resolve(s schema, depth int) schema {
	if depth > maxDepth {
		return s
	}
	if s.Ref != "" {
		found, text := d.get(s.Ref, depth+1), s.Description
		if text != "" {
			found.Description = text
		}
		return found
	}
	for _, part := range slices.Backward(s.AllOf) { // special members come last there, and first here
		part = d.resolve(part, depth+1)
		s.Properties = append(s.Properties, part.Properties...)
		s.Required = append(s.Required, part.Required...)
	}
	s.AllOf = nil
	for i := range s.Properties {
		s.Properties[i].Schema = d.resolve(s.Properties[i].Schema, depth+1)
	}
	if s.Items != nil {
		items := d.resolve(*s.Items, depth+1)
		s.Items = &items
	}
	return s
}

// dataSchema returns the schema of the data of events of the type name, and the schema's JSON text.
func (d *document) dataSchema(name string) (data schema, text string) {
	ref := d.get("PublishedEvent", maxDepth).Discriminator.Mapping[name]
	var published schema
	if json.Unmarshal(d.schemas[strings.TrimPrefix(ref, refs)], &published) != nil {
		return schema{}, ""
	}
	for _, p := range published.Properties {
		if p.Name == "data" {
			return d.get(p.Schema.Ref, 0), d.text(p.Schema.Ref)
		}
	}
	return schema{}, ""
}

// text writes a schema, with those that it refers to, as one JSON Schema.
func (d *document) text(ref string) string {
	name := strings.TrimPrefix(ref, refs)
	definitions := map[string]jsontext.Value{}
	d.collect(name, definitions)
	whole := struct {
		Schema      string                    `json:"$schema"`
		Ref         string                    `json:"$ref"`
		Definitions map[string]jsontext.Value `json:"$defs"`
	}{"https://json-schema.org/draft/2020-12/schema", "#/$defs/" + name, definitions}
	text, err := json.Marshal(whole, json.Deterministic(true), jsontext.WithIndent("  "))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(text), refs, "#/$defs/")
}

func (d *document) collect(name string, into map[string]jsontext.Value) {
	raw := d.schemas[name]
	if _, ok := into[name]; ok || raw == nil {
		return
	}
	into[name] = raw
	for rest := string(raw); ; {
		_, after, ok := strings.Cut(rest, refs)
		if !ok {
			return
		}
		other, tail, _ := strings.Cut(after, `"`)
		d.collect(other, into)
		rest = tail
	}
}

// field is a line of the table of a schema.
type field struct {
	Name, Type, Text string
	Members          []string // members, if it is an object
	Required         bool
}

// fields lists the members of an object, the required ones first.
func (s *schema) fields() []field {
	var list, optional []field
	for i := range s.Properties {
		p := &s.Properties[i]
		of := &p.Schema
		f := field{Name: p.Name, Type: of.kind(), Text: of.Description, Required: slices.Contains(s.Required, p.Name)}
		if of.MaxLength > 0 {
			f.Text = strings.TrimSpace(f.Text + fmt.Sprintf(" %d to %d characters.", of.MinLength, of.MaxLength))
		}
		if of.Items != nil {
			of = of.Items
		}
		for _, member := range of.Properties {
			f.Members = append(f.Members, member.Name)
		}
		if f.Required {
			list = append(list, f)
		} else {
			optional = append(optional, f)
		}
	}
	return append(list, optional...)
}

// kind describes the values that a schema allows in a word or two.
func (s *schema) kind() string {
	types := typeOf(s.Type)
	switch {
	case len(types) == 0:
		return "anything"
	case s.Format == "date-time":
		return "time"
	case s.Items != nil:
		return "list of " + s.Items.kind() + "s"
	}
	return strings.Join(types, " or ")
}
