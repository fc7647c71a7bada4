package policy

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"mime/multipart"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"waybill.dev/services/gateway/internal/jsonschema"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/input"
	"waybill.dev/shared/problem"
)

// The media types of forms.
const (
	urlencoded = routefile.Urlencoded
	formData   = routefile.FormData
)

// maxFields bounds the fields of a form.
const maxFields = 1000

// media is one of the media types of a documented body, with its schema.
type media struct {
	*routefile.Media

	schema *jsonschema.Schema // nil: anything is allowed
	shape  jsonschema.Shape
}

// readMedia returns the forms that the document knows of the operation's body.
func readMedia(op *routefile.Operation) (list []media, faults []Fault) {
	for i := range op.Media {
		m := media{Media: &op.Media[i]}
		var err error
		if m.Pointer != "" {
			m.schema, err = op.File.Schemas.Compile(m.Pointer)
			m.shape = op.File.Schemas.Shape(m.Pointer)
		}
		if err != nil {
			faults = append(faults, Fault{Detail: "can't be used here: the body's schema for " + m.Type + " is faulty"})
		}
		if why := m.Unread(); why != "" {
			faults = append(faults, Fault{Detail: "can't be used here: the body has " + why})
		}
		list = append(list, m)
	}
	return list, faults
}

// isRange reports whether the entry is a range of media types.
func (m *media) isRange() bool { return strings.Contains(m.Type, "*") }

// matches returns how closely the media type of a body fits that of the document; 0: not at all.
func (m *media) matches(sent string) int {
	before, ranged := strings.CutSuffix(m.Type, "*")
	switch {
	case m.Type == sent:
		return 4
	case routefile.IsJSON(m.Type) && routefile.IsJSON(sent):
		return 3
	case ranged && m.Type != "*/*" && strings.HasPrefix(sent, before):
		return 2
	case m.Type == "*/*" || m.Type == "*":
		return 1
	}
	return 0
}

// isText reports whether a body of a media type can be checked against a schema as one text.
func isText(kind string) bool { return strings.HasPrefix(kind, "text/") && kind != "text/xml" }

// inUTF8 reports whether bodies of a media type must be in UTF-8.
func inUTF8(kind string) bool { return routefile.IsJSON(kind) || kind == urlencoded }

// checks reports whether bodies of a media type are checked against the schema of the entry, and
// have to be read for that.
func (m *media) checks(kind string) bool {
	switch {
	case m.schema == nil && !routefile.IsJSON(kind):
		return false
	case routefile.IsJSON(kind), kind == urlencoded, kind == formData:
		return true
	case m.shape.Is("string"):
		return m.shape.Narrow()
	case isText(kind):
		return m.isRange() || m.shape.Has("string", "number", "integer", "boolean")
	}
	return false
}

// uncheckedTypes names the bodies of the entry that are not checked; empty: none.
func (m *media) uncheckedTypes() string {
	switch {
	case m.schema == nil, m.shape.Is("string"), m.Type != "*/*" && m.checks(m.Type), m.Type == "text/*":
		return ""
	case m.isRange():
		return "bodies of " + m.Type + " that are neither JSON, nor a form, nor text"
	}
	return "bodies of " + m.Type
}

// chooseMedia returns the entry for a body, and the media type that the body is read as; nil: the media
// type is not documented. A body without any hint in its headers is taken for JSON if JSON is
// documented.
func (v *validation) chooseMedia(r *route.Request) (of *media, kind string, params map[string]string) {
	types := r.Header.Values("Content-Type")
	for _, encoding := range r.Header.Values("Content-Encoding") {
		if encoding != "" && !strings.EqualFold(encoding, "identity") {
			return nil, "", nil
		}
	}
	if len(types) == 0 || len(types) == 1 && types[0] == "" {
		of, kind = v.guessMedia(r.Body)
		return of, kind, nil
	}
	kind, params, err := mime.ParseMediaType(types[0])
	if err != nil || len(types) > 1 {
		return nil, "", nil
	}
	best := 0
	for i := range v.media {
		if n := v.media[i].matches(kind); n > best {
			of, best = &v.media[i], n
		}
	}
	charset, given := params["charset"]
	if of != nil && given && of.checks(kind) && inUTF8(kind) && !strings.EqualFold(charset, "utf-8") && !strings.EqualFold(charset, "us-ascii") {
		return nil, "", nil
	}
	return of, kind, params
}

// guessMedia returns the form of a body that came without a Content-Type.
func (v *validation) guessMedia(body []byte) (*media, string) {
	best := slices.MaxFunc(v.media, func(a, b media) int { return cmp.Compare(a.likely(), b.likely()) })
	if !best.isRange() {
		return &best, best.Type
	}
	if isText(best.Type) || !jsontext.Value(body).IsValid() && best.shape.Has("string") {
		return &best, "text/plain"
	}
	return &best, "application/json"
}

func (m *media) likely() int {
	switch {
	case m.Type == "application/json":
		return 3
	case routefile.IsJSON(m.Type):
		return 2
	case m.isRange():
		return 0
	}
	return 1
}

// documented names the media types that a body may have.
func (v *validation) documented() string {
	var names []string
	for i := range v.media {
		name := v.media[i].Type
		if inUTF8(name) {
			name += " in UTF-8"
		}
		names = append(names, name)
	}
	if last := len(names) - 1; last > 0 {
		return strings.Join(names[:last], ", ") + " or " + names[last]
	}
	return strings.Join(names, "")
}

// check holds a body, which is of a media type of the form, to the schema.
func (m *media) check(ctx context.Context, body []byte, kind string, params map[string]string) []problem.Fault {
	if !m.checks(kind) {
		return nil
	}
	switch {
	case m.schema == nil:
		return input.Check(ctx, body, "body")
	case routefile.IsJSON(kind):
		return m.checkReadings(ctx, body)
	case kind == urlencoded:
		if bytes.Count(body, []byte("&")) >= maxFields { // checked before so many fields are allocated
			return tooManyFields()
		}
		var parts []routefile.Part
		for _, pair := range routefile.Pairs(string(body)) {
			if m.Fields[pair.Name].Delimited() && len(pair.Value) > maxParameter {
				return []problem.Fault{{Pointer: input.Pointer(pair.Name), Detail: "is too long to be checked"}}
			}
			parts = append(parts, routefile.Part{Name: pair.Name, Text: pair.Value})
		}
		return m.form(ctx, parts, true)
	case kind == formData:
		parts, fault := readParts(body, params["boundary"])
		if fault == "" {
			fault = m.foreignPart(parts)
		}
		if fault != "" {
			return []problem.Fault{{Detail: fault}}
		}
		return m.form(ctx, parts, false)
	}
	readings, _ := (&routefile.Parameter{Style: "text"}).ReadTexts(m.shape, []string{text(body)})
	return m.checkReadings(ctx, readings...)
}

func tooManyFields() []problem.Fault {
	return []problem.Fault{{Detail: "has more than 1000 fields"}}
}

func (m *media) form(ctx context.Context, parts []routefile.Part, raw bool) []problem.Fault {
	if len(parts) > maxFields {
		return tooManyFields()
	}
	return m.checkReadings(ctx, m.Form(m.shape, parts, raw)...)
}

// checkReadings returns the faults of a value that may be read in several ways.
func (m *media) checkReadings(ctx context.Context, readings ...jsontext.Value) []problem.Fault {
	var faults []problem.Fault
	for _, violation := range likeliest(ctx, m.schema, readings) {
		faults = append(faults, problem.Fault{Pointer: violation.Pointer, Detail: violation.Detail})
	}
	return faults
}

// foreignPart says which part has another media type than the document has for its field.
func (m *media) foreignPart(parts []routefile.Part) string {
	for _, part := range parts {
		wanted := m.Fields[part.Name].MediaType
		if wanted == "" || part.MediaType == "" {
			continue
		}
		fits := func(one string) bool {
			of := media{Media: &routefile.Media{Type: strings.ToLower(strings.TrimSpace(one))}}
			return of.matches(part.MediaType) > 0
		}
		if !slices.ContainsFunc(strings.Split(wanted, ","), fits) {
			return "has a part of another media type than " + wanted
		}
	}
	return ""
}

// text returns bytes as text. If they are not UTF-8, each byte becomes a character.
func text(body []byte) string {
	if utf8.Valid(body) && bytes.IndexByte(body, 0) < 0 {
		return string(body)
	}
	runes := make([]rune, len(body))
	for i, b := range body {
		runes[i] = utf8.RuneError
		if b > 0 {
			runes[i] = rune(b)
		}
	}
	return string(runes)
}

// readParts reads a form with files.
func readParts(body []byte, boundary string) (parts []routefile.Part, fault string) {
	if boundary == "" {
		return nil, "has no boundary in its Content-Type"
	}
	reader := multipart.NewReader(bytes.NewReader(body), boundary)
	for {
		part, err := reader.NextPart()
		if errors.Is(err, io.EOF) && bytes.Contains(body, []byte("--"+boundary+"--")) {
			return parts, ""
		}
		if err != nil || len(parts) > maxFields {
			return nil, "is not a form that can be read"
		}
		content, err := io.ReadAll(part)
		if err != nil || part.FormName() == "" {
			return nil, "is not a form that can be read"
		}
		kind, _, _ := mime.ParseMediaType(part.Header.Get("Content-Type"))
		parts = append(parts, routefile.Part{Name: part.FormName(), Text: text(content), MediaType: kind, File: part.FileName() != ""})
	}
}

// isEmpty reports whether a request has no body, as far as is known before the body is read.
func isEmpty(r *route.Request) bool {
	if r.Unread == nil && r.Source == nil {
		return len(r.Body) == 0
	}
	length := r.Header.Get("Content-Length")
	return length == "0" || length == "" && r.Header.Get("Content-Type") == ""
}
