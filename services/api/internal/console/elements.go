package console

import (
	"errors"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/go-json-experiment/json/jsontext"
)

// Form is a form with the values that were typed, and their faults.
type Form struct {
	Values  url.Values
	Problem *Problem // nil: no faults
}

// NewForm returns a form with values to begin with.
func NewForm(values url.Values) *Form { return &Form{Values: values} }

// Failed reports whether err is a fault of the typed values, which the form then shows. The handler returns
// every other error.
func (f *Form) Failed(err error) bool {
	p, ok := errors.AsType[*Problem](err)
	if !ok || p.Status != http.StatusBadRequest && p.Status != http.StatusConflict && p.Status != http.StatusRequestEntityTooLarge {
		return false
	}
	f.Problem = p
	return true
}

// fault returns the fault of the field at a pointer, or below it.
func (f *Form) fault(pointer string) string {
	if f == nil || f.Problem == nil {
		return ""
	}
	for _, fault := range f.Problem.Faults {
		if fault.Pointer == pointer || fault.Parameter == pointer || strings.HasPrefix(fault.Pointer, pointer+"/") {
			return fault.Detail
		}
	}
	return ""
}

// Refuse adds a fault to a field, before the API is called.
func (f *Form) Refuse(name, detail string) {
	f.Problem = &Problem{
		Title: "Invalid input", Status: http.StatusBadRequest, Code: "INVALID_INPUT", Detail: "The form has a fault.",
		Faults: []Fault{{Pointer: "/" + name, Detail: detail}},
	}
}

// JSON returns the JSON that was typed into a field. Text that is not JSON can't be put into the API's body, so
// the console has to report it.
func (f *Form) JSON(name string) (text jsontext.Value, ok bool) {
	text = jsontext.Value(strings.TrimSpace(f.Values.Get(name)))
	if ok = text.IsValid(); !ok {
		f.Refuse(name, "must be JSON without duplicate names")
	}
	return text, ok
}

// Again returns the error of showing a form again that failed with err. A person who may change but not read
// gets only err.
func Again(shown, err error) error {
	if shown == nil {
		return nil
	}
	return err
}

// Rest returns the faults that none of the fields is at.
func (f *Form) Rest(pointers ...string) []Fault {
	if f == nil || f.Problem == nil {
		return nil
	}
	var rest []Fault
	for _, fault := range f.Problem.Faults {
		own := func(pointer string) bool {
			return fault.Pointer == pointer || strings.HasPrefix(fault.Pointer, pointer+"/")
		}
		if !slices.ContainsFunc(pointers, own) {
			rest = append(rest, fault)
		}
	}
	return rest
}

// Field is one field of a form, for the template "field".
type Field struct {
	Name, Label, Value, Hint, Fault, Type, Place string
	Required, Wide                               bool
	Options                                      []Option
	Rows                                         int
}

// Option is a possible value of a field.
type Option struct{ Value, Label string }

// Choices returns options for values, labelled with the values themselves, after an option none for no value.
func Choices[S ~string](none string, values ...S) []Option {
	list := []Option{{Value: "", Label: none}}
	for _, value := range values {
		list = append(list, Option{Value: string(value), Label: string(value)})
	}
	return list
}

// newField returns the field for a JSON pointer of the API: its name in the form is the pointer without the
// first slash.
func newField(f *Form, pointer, label string) Field {
	name := strings.TrimPrefix(pointer, "/")
	field := Field{Name: name, Label: label, Type: "text", Fault: f.fault(pointer)}
	if f != nil {
		field.Value = f.Values.Get(name)
	}
	return field
}

// ID returns the id of the HTML element.
func (f Field) ID() string { return "f-" + strings.ReplaceAll(f.Name, "/", "-") }

// Functions that templates apply to a field: (field .Form "/url" "Address" | hint "https only" | required).

func withHint(hint string, f Field) Field      { f.Hint = hint; return f }
func withType(kind string, f Field) Field      { f.Type = kind; return f }
func withPlace(text string, f Field) Field     { f.Place = text; return f }
func withRows(n int, f Field) Field            { f.Rows = n; return f }
func withOptions(list []Option, f Field) Field { f.Options = list; return f }
func withRequired(f Field) Field               { f.Required = true; return f }
func asWide(f Field) Field                     { f.Wide = true; return f }

// State is shown when there is nothing to list, by the template "state": nothing exists yet, nothing matches
// the filter, or the data is no longer kept.
type State struct {
	Icon, Title, Text string
	Command           string // that makes something
	Link, LinkLabel   string
}

// Confirm is a page that asks before an action: it names the thing and the effect.
type Confirm struct {
	Title  string // "Delete webhook we_…?"
	Effect string // the effect, in a sentence
	Facts  []Fact
	Verb   string // label of the button: "Delete webhook"
	Danger bool
	Action string // target of the form
	Hidden url.Values
	Back   string // target of Cancel
}

// Fact is a line of a list of names and values.
type Fact struct{ Name, Value string }

// Tab is one of several views of a thing, for the template "tabs".
type Tab struct {
	Label, Path string
	Count       string // empty: not shown
	Current     bool
}

// Paging has the links through a list, for the template "paging". There is no link to the last page, because
// lists are not counted.
type Paging struct{ Newer, Older string }

// maxTrail is how many pages back "Newer" leads; after that, it leads to the newest page.
const maxTrail = 8

// Paging returns the links through a list with cursors. Next is the answer's nextCursor.
func (p *Page) Paging(next *string) Paging {
	var paging Paging
	query := p.Request.URL.Query()
	cursor := query.Get("cursor")
	var trail []string
	if text := query.Get("trail"); text != "" {
		trail = strings.Split(text, "~")
	}
	at := func(cursor string, trail []string) string {
		to := p.Request.URL.Query()
		to.Del("cursor")
		to.Del("trail")
		if cursor != "" {
			to.Set("cursor", cursor)
		}
		if len(trail) > 0 {
			to.Set("trail", strings.Join(trail, "~"))
		}
		if len(to) == 0 {
			return p.Request.URL.Path
		}
		return p.Request.URL.Path + "?" + to.Encode()
	}
	if cursor != "" {
		if n := len(trail); n > 0 {
			paging.Newer = at(trail[n-1], trail[:n-1])
		} else {
			paging.Newer = at("", nil)
		}
	}
	if next != nil && *next != "" {
		if cursor != "" {
			trail = append(trail, cursor)
		}
		paging.Older = at(*next, trail[max(0, len(trail)-maxTrail):])
	}
	return paging
}

// Offsets returns the links through a list with limit and offset. Shown is the number of entries on the page.
func (p *Page) Offsets(offset, shown, total int) Paging {
	var paging Paging
	at := func(offset int) string {
		to := p.Request.URL.Query()
		to.Del("offset")
		if offset > 0 {
			to.Set("offset", strconv.Itoa(offset))
		}
		if len(to) == 0 {
			return p.Request.URL.Path
		}
		return p.Request.URL.Path + "?" + to.Encode()
	}
	if offset > 0 {
		paging.Newer = at(max(0, offset-max(1, shown)))
	}
	if offset+shown < total {
		paging.Older = at(offset + shown)
	}
	return paging
}

// typing is the format of the browser's field for times, in UTC.
const typing = "2006-01-02T15:04:05"

// FieldToRFC3339 converts the value of the browser's field for times to RFC 3339.
func FieldToRFC3339(text string) string {
	for _, layout := range []string{typing, "2006-01-02T15:04", "2006-01-02 15:04", time.DateOnly} {
		if t, err := time.Parse(layout, text); err == nil {
			return t.Format(time.RFC3339)
		}
	}
	return text
}

// Range is a choice of a time, for the template "range": a span up to now, or from when to when.
type Range struct {
	Form         *Form
	Since, Until string // the names of the parameters
	Spans        []Tab
}

// Range returns the choice for a page with these names of parameters.
func (p *Page) Range(form *Form, since, until string) Range {
	r := Range{Form: form, Since: since, Until: until}
	now := p.Now().UTC().Truncate(time.Minute)
	for _, s := range []struct {
		label string
		long  time.Duration
	}{{"1 hour", time.Hour}, {"24 hours", 24 * time.Hour}, {"7 days", 7 * 24 * time.Hour}} {
		to := p.Request.URL.Query()
		for _, name := range []string{until, "cursor", "trail", "offset"} {
			to.Del(name)
		}
		to.Set(since, now.Add(-s.long).Format(time.RFC3339))
		r.Spans = append(r.Spans, Tab{Label: s.label, Path: p.Request.URL.Path + "?" + to.Encode(), Current: p.Query(since) == to.Get(since) && p.Query(until) == ""})
	}
	return r
}

// Filters returns the parameters with the names in the page's address, in the form of the API, and a form that
// shows them. since, until, startTime, endTime, startDate and endDate are times.
func (p *Page) Filters(names ...string) (url.Values, *Form) {
	query, shown := p.Pick(names...), p.Pick(names...)
	for _, name := range []string{"since", "until", "startTime", "endTime", "startDate", "endDate"} {
		if t, err := time.Parse(time.RFC3339, FieldToRFC3339(query.Get(name))); err == nil {
			query.Set(name, FieldToRFC3339(query.Get(name)))
			shown.Set(name, t.UTC().Format(typing))
		}
	}
	return query, NewForm(shown)
}
