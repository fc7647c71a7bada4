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

// formBody returns the form in which arguments can be sent as the body, and its description. If there is none,
// formBody notes the reason.
func (d *document) formBody(s *routedOperation, content *jsontree.Node) (*Body, *jsontree.Node) {
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

// isReadable reports whether media types, separated by commas, are all text.
func isReadable(types string) bool {
	for kind := range strings.SplitSeq(types, ",") {
		kind = strings.TrimSpace(kind)
		if kind != "" && !IsJSON(kind) && !strings.HasPrefix(kind, "text/") && !strings.HasSuffix(kind, "xml") {
			return false
		}
	}
	return true
}

// Unread returns the member of the form that has an invalid style; empty: all members can be read and written.
func (m *Media) Unread() string {
	for _, name := range slices.Sorted(maps.Keys(m.Fields)) {
		style := m.Fields[name].Style
		if style != "" && !slices.Contains([]string{styleForm, styleSpace, stylePipe, styleDeep}, style) {
			return "a field " + name + " of the style " + style + ", which is none of forms"
		}
	}
	return ""
}

// encode writes an object as a form. fault says why it can't.
func (m *Media) encode(object jsonscan.Value) (body []byte, contentType, fault string) {
	var w formWriter = &urlencodedForm{}
	if m.Type == FormData {
		w = newFormData()
	}
	for raw, value := range object.Members() {
		name, _ := raw.Text()
		if !m.field(w, name, value) {
			return nil, "", fmt.Sprintf("has more than %d bytes for a form", route.MaxRequest)
		}
	}
	body, contentType = w.end()
	return body, contentType, ""
}

// formWriter writes the fields of a form.
type formWriter interface {
	// add adds a field; its value is escaped as in a query. An empty media type is text of no type.
	add(name, value, media string)
	size() int // in bytes, so far
	end() (body []byte, contentType string)
}

// field writes a member of an object. A member that is null is left out. Members without a description are written
// by the rules of OpenAPI: arrays element by element, objects as JSON. field returns false, and stops, when the
// form becomes too long.
func (m *Media) field(w formWriter, name string, value jsonscan.Value) bool {
	of := m.Fields[name]
	first, _, _ := strings.Cut(of.MediaType, ",")
	media := strings.TrimSpace(first)
	asJSON := func(value jsonscan.Value) {
		w.add(name, route.Component(string(value)), cmp.Or(media, "application/json"))
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
				w.add(name, route.Component(word(element)), media)
			}
			if w.size() > route.MaxRequest {
				return false
			}
		}
	default:
		p := Parameter{Name: name, In: inQuery, Style: cmp.Or(of.Style, styleForm), Explode: of.Explode}
		to := &pairs{remaining: route.MaxRequest}
		to.put = func(name, text string) {
			w.add(name, text, media)
			if w.size() > route.MaxRequest {
				to.remaining = -1
			}
		}
		p.write(value, to)
		if to.remaining < 0 {
			return false
		}
	}
	return w.size() <= route.MaxRequest
}

// urlencodedForm is a form without files.
type urlencodedForm struct{ body []byte }

func (u *urlencodedForm) add(name, value, _ string) {
	if len(u.body) > 0 {
		u.body = append(u.body, '&')
	}
	u.body = append(append(append(u.body, route.Component(name)...), '='), value...)
}

func (u *urlencodedForm) size() int { return len(u.body) }

func (u *urlencodedForm) end() (body []byte, contentType string) {
	return append([]byte{}, u.body...), Urlencoded
}

// formData is a form in parts.
type formData struct {
	body  bytes.Buffer
	parts *multipart.Writer
}

func newFormData() *formData {
	f := &formData{}
	f.parts = multipart.NewWriter(&f.body)
	return f
}

func (f *formData) add(name, value, media string) {
	quoted := strings.NewReplacer(`\`, `\\`, `"`, `\"`, "\r", "%0D", "\n", "%0A") // otherwise a name could end its header
	header := textproto.MIMEHeader{"Content-Disposition": {`form-data; name="` + quoted.Replace(name) + `"`}}
	if media != "" {
		header.Set("Content-Type", media)
	}
	if part, err := f.parts.CreatePart(header); err == nil { // a buffer accepts every write
		_, _ = part.Write([]byte(unescape(value)))
	}
}

func (f *formData) size() int { return f.body.Len() }

func (f *formData) end() (body []byte, contentType string) {
	_ = f.parts.Close() // a buffer accepts every write
	return f.body.Bytes(), f.parts.FormDataContentType()
}
