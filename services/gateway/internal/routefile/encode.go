package routefile

import (
	"bytes"
	"cmp"
	"fmt"
	"maps"
	"mime/multipart"
	"net/textproto"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/jsontree"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/jsonscan"
)

// The media types of forms.
const (
	Urlencoded = "application/x-www-form-urlencoded"
	FormData   = "multipart/form-data"
)

// formBody returns the body as a form that arguments can be sent as, and where it is described. If
// there is none, it notes why not.
func (d *document) formBody(s *source, content *jsontree.Node) (*Body, *jsontree.Node) {
	s.unsent = "its body is " + s.Media[0].Type + ", but arguments are sent as JSON or as a form of named fields"
	for _, kind := range []string{Urlencoded, FormData} {
		at := slices.IndexFunc(s.Media, func(m Media) bool { return m.Type == kind && d.file.Schemas.IsObject(m.Pointer) })
		if at < 0 {
			continue
		}
		form := &s.Media[at]
		if _, err := d.file.Schemas.Compile(form.Pointer); err != nil {
			s.unsent = "its form can't be used: " + err.Error()
			continue
		}
		if why := form.Unread(); why != "" {
			s.unsent = "its form has " + why
			continue
		}
		if file := form.file(d.file); file != "" {
			s.unsent, s.upload = "its form has a file, "+file+", but arguments are JSON", true
			continue
		}
		s.unsent, s.upload = "", false
		for _, described := range content.Members() {
			if at == 0 {
				return &Body{MediaType: kind, Form: form}, described
			}
			at--
		}
	}
	return nil, nil
}

// file returns the name of a field that is a file; empty: there is none.
func (m *Media) file(of *File) string {
	shape := of.Schemas.Shape(m.Pointer)
	for _, name := range shape.Names() {
		field := shape.Member(name)
		if field.Binary() || field.Element().Binary() || !isReadable(m.Fields[name].MediaType) {
			return name
		}
	}
	return ""
}

// isReadable reports whether what is sent as one of media types, separated by commas, is text.
func isReadable(types string) bool {
	for kind := range strings.SplitSeq(types, ",") {
		kind = strings.TrimSpace(kind)
		if kind != "" && !IsJSON(kind) && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml") {
			return false
		}
	}
	return true
}

// Unread says which member of the form has a style that is none; empty: all can be read and written.
func (m *Media) Unread() string {
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		style := m.Fields[name].Style
		if style != "" && !slices.Contains([]string{styleForm, styleSpace, stylePipe, styleDeep}, style) {
			return "a field " + name + " of the style " + style + ", which is none of forms"
		}
	}
	return ""
}

// sent is a field as it is sent: its value is escaped as in a query.
type sent struct {
	Pair

	media string // empty: text of no type
}

// encode writes an object as a form. Fault says why it can't be one.
func (m *Media) encode(object jsonscan.Value) (body []byte, contentType, fault string) {
	if len(object) > route.MaxRequest {
		return nil, "", fmt.Sprintf("has more than %d bytes for a form", route.MaxRequest)
	}
	var fields []sent
	for raw, value := range object.Members() {
		name, _ := raw.Text()
		fields = m.field(fields, name, value)
	}
	if m.Type == FormData {
		return multipartOf(fields)
	}
	for i, field := range fields {
		if i > 0 {
			body = append(body, '&')
		}
		body = append(append(append(body, component(field.Name)...), '='), field.Value...)
	}
	return append([]byte{}, body...), Urlencoded, ""
}

// field adds a member of an object. One that is null is not there. What the document says nothing
// of is written as OpenAPI has it: arrays element by element, objects as JSON.
func (m *Media) field(fields []sent, name string, value jsonscan.Value) []sent {
	of := m.Fields[name]
	first, _, _ := strings.Cut(of.MediaType, ",")
	media := strings.TrimSpace(first)
	asJSON := func(value jsonscan.Value) {
		fields = append(fields, sent{Pair{name, component(string(value))}, cmp.Or(media, "application/json")})
	}
	switch {
	case value.Kind() == 'n':
	case of.Style == "" && (IsJSON(media) || value.Kind() == '{'):
		asJSON(value)
	case of.Style == "" && value.Kind() == '[':
		for element := range value.Elements() {
			if kind := element.Kind(); kind == '{' || kind == '[' {
				asJSON(element)
			} else {
				fields = append(fields, sent{Pair{name, component(word(element))}, media})
			}
		}
	default:
		p := Parameter{Name: name, In: inQuery, Style: cmp.Or(of.Style, styleForm), Explode: of.Explode}
		for _, pair := range Pairs(strings.Join(p.query(nil, value), "&")) {
			fields = append(fields, sent{pair, media})
		}
	}
	return fields
}

func multipartOf(fields []sent) (body []byte, contentType, fault string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A") // else a name could end its header
	var b bytes.Buffer
	w := multipart.NewWriter(&b)
	for _, field := range fields {
		header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + quoted.Replace(field.Name) + `"`}}
		if field.media != "" {
			header.Set("Content-Type", field.media)
		}
		part, err := w.CreatePart(header)
		if err == nil {
			_, err = part.Write([]byte(unescape(field.Value)))
		}
		if err != nil {
			return nil, "", "can't be written as a form"
		}
	}
	if err := w.Close(); err != nil {
		return nil, "", "can't be written as a form"
	}
	return b.Bytes(), w.FormDataContentType(), ""
}
