package input

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/problem"
	"waybill.dev/shared/rfc3339"
)

// Form reads the members of a JSON object one by one and collects the faults. A member that is not
// read is an unknown field.
type Form struct {
	at       string // where the object is in the body, as a JSON pointer
	names    []string
	values   map[string]jsonscan.Value
	asked    map[string]bool
	notes    *faultList // of the whole body
	elements []*Form    // objects in it, which are read separately
}

// ParseForm reads body, which must be one JSON object. It fails with a *problem.Problem when the
// body is not JSON, or not an object.
func ParseForm(body []byte) (*Form, error) {
	faults, err := scan(body)
	if err != nil {
		return nil, err
	}
	if jsonscan.Value(body).Kind() != '{' {
		return nil, problem.Invalid(append(faults, problem.Fault{Detail: "must be an object"})...)
	}
	names, values, ok := members(body, maxMembers)
	if !ok {
		return nil, problem.Invalid(append(faults, problem.Fault{Detail: tooMany})...)
	}
	return &Form{names: names, values: values, asked: make(map[string]bool), notes: &faultList{faults: faults}}, nil
}

var tooMany = fmt.Sprintf("must have at most %d members", maxMembers) //nolint:gochecknoglobals // a constant

// Pointer returns the JSON pointer of the parts below the body.
func Pointer(parts ...string) string {
	var b strings.Builder
	for _, part := range parts {
		b.WriteByte('/')
		b.WriteString(strings.ReplaceAll(strings.ReplaceAll(part, "~", "~0"), "/", "~1"))
	}
	return b.String()
}

// Fault adds a fault at the place given by parts.
func (f *Form) Fault(detail string, parts ...string) {
	pointer, whole := jsonscan.Below(f.at, parts...)
	f.notes.add(problem.Fault{Pointer: pointer, Detail: jsonscan.WithLongName(detail, whole)})
}

// Ignore accepts the named members with any value.
func (f *Form) Ignore(names ...string) {
	for _, name := range names {
		f.asked[name] = true
	}
}

// Err returns the faults, unknown fields included, as a *problem.Problem,
// or nil. Each place is listed once.
func (f *Form) Err() error {
	f.unknown()
	return f.notes.err(func(a, b problem.Fault) int { return strings.Compare(a.Pointer, b.Pointer) })
}

// unknown notes the members that were not read, in the object and in the objects in it.
func (f *Form) unknown() {
	for _, name := range f.names {
		if !f.asked[name] {
			f.Fault("is not a known member", name)
		}
	}
	for _, element := range f.elements {
		element.unknown()
	}
}

// Has reports whether the member exists, also if it is null.
func (f *Form) Has(name string) bool {
	_, ok := f.values[name]
	return ok
}

// Null reports whether the member exists and is null. If so, it accepts the member.
func (f *Form) Null(name string) bool {
	if f.values[name].Kind() == 'n' {
		f.asked[name] = true
		return true
	}
	return false
}

// Require adds a fault for each of the named members that is missing.
func (f *Form) Require(names ...string) {
	for _, name := range names {
		if !f.Has(name) {
			f.Fault("is required", name)
		}
	}
}

func (f *Form) takeMember(name string, kind byte, what string) (jsonscan.Value, bool) {
	f.asked[name] = true
	value, ok := f.values[name]
	if !ok {
		return nil, false
	}
	got := value.Kind()
	if got == 'f' {
		got = 't'
	}
	if got != kind {
		f.Fault("must be "+what, name)
		return nil, false
	}
	return value, true
}

// Text returns a string of min to max characters; ok is false when it is absent or faulty.
func (f *Form) Text(name string, minimum, maximum int) (text string, ok bool) {
	value, ok := f.takeMember(name, '"', "a string")
	if !ok {
		return "", false
	}
	text = unquote(value)
	if n := utf8.RuneCountInString(text); n < minimum || n > maximum {
		f.Fault(fmt.Sprintf("must have %d to %d characters", minimum, maximum), name)
		return "", false
	}
	return text, true
}

// Bool returns a boolean.
func (f *Form) Bool(name string) (value, ok bool) {
	raw, ok := f.takeMember(name, 't', "true or false")
	return ok && raw.Kind() == 't', ok
}

// Number returns a number from min to max.
func (f *Form) Number(name string, minimum, maximum float64) (number float64, ok bool) {
	raw, ok := f.takeMember(name, '0', "a number")
	if !ok {
		return 0, false
	}
	return f.checkRange(raw, minimum, maximum, name)
}

// Integer returns a whole number from min to max.
func (f *Form) Integer(name string, minimum, maximum int) (number int, ok bool) {
	raw, ok := f.takeMember(name, '0', "a whole number")
	if !ok {
		return 0, false
	}
	value, ok := f.checkRange(raw, float64(minimum), float64(maximum), name)
	if ok && value != math.Trunc(value) {
		f.Fault("must be a whole number", name)
		return 0, false
	}
	return int(value), ok
}

func (f *Form) checkRange(raw jsonscan.Value, minimum, maximum float64, parts ...string) (float64, bool) {
	number, err := strconv.ParseFloat(string(raw), 64)
	if err != nil || number < minimum || number > maximum {
		f.Fault(fmt.Sprintf("must be from %s to %s", formatNumber(minimum), formatNumber(maximum)), parts...)
		return 0, false
	}
	return number, true
}

func formatNumber(number float64) string { return strconv.FormatFloat(number, 'f', -1, 64) }

// Time returns an RFC 3339 time.
func (f *Form) Time(name string) (at time.Time, ok bool) {
	value, ok := f.takeMember(name, '"', "a string")
	if !ok {
		return time.Time{}, false
	}
	at, ok = parseTime(unquote(value))
	if !ok {
		f.Fault("must be an RFC 3339 time", name)
	}
	return at, ok
}

// Texts returns an array of min to max strings. Elements of another type are faults, and "" in the
// result, so that the other elements keep their index.
func (f *Form) Texts(name string, minimum, maximum int) (texts []string, ok bool) {
	values, ok := f.array(name, minimum, maximum)
	for i, value := range values {
		if value.Kind() != '"' {
			f.Fault("must be a string", name, strconv.Itoa(i))
			texts = append(texts, "")
			continue
		}
		texts = append(texts, unquote(value))
	}
	return texts, ok
}

// Numbers returns an array of min to max numbers, each from low to high; ok is false when any part
// of it is faulty.
func (f *Form) Numbers(name string, minimum, maximum int, low, high float64) (numbers []float64, ok bool) {
	values, ok := f.array(name, minimum, maximum)
	if !ok {
		return nil, false
	}
	numbers = make([]float64, 0, len(values))
	for i, value := range values {
		if value.Kind() != '0' {
			f.Fault("must be a number", name, strconv.Itoa(i))
			ok = false
			continue
		}
		number, valid := f.checkRange(value, low, high, name, strconv.Itoa(i))
		numbers, ok = append(numbers, number), ok && valid
	}
	return numbers, ok
}

func (f *Form) array(name string, minimum, maximum int) ([]jsonscan.Value, bool) {
	raw, ok := f.takeMember(name, '[', "an array")
	if !ok {
		return nil, false
	}
	values, ok := elements(raw, minimum, maximum)
	if !ok {
		f.Fault(fmt.Sprintf("must have %d to %d elements", minimum, maximum), name)
		return nil, false
	}
	return values, true
}

// Pair is a member of an object of strings.
type Pair struct{ Name, Value string }

// Pairs returns an object of at most maximum strings, in the order of the body.
func (f *Form) Pairs(name string, maxMembers int) (pairs []Pair, ok bool) {
	names, values, ok := f.object(name, maxMembers)
	if !ok {
		return nil, false
	}
	for _, key := range names {
		value := values[key]
		if value.Kind() != '"' {
			f.Fault("must be a string", name, key)
			ok = false
			continue
		}
		pairs = append(pairs, Pair{Name: key, Value: unquote(value)})
	}
	return pairs, ok
}

// Lists returns an object of at most maximum members. Each is an array of 1 to most strings, or one string.
func (f *Form) Lists(name string, maxMembers, maxStrings int) (lists map[string][]string, ok bool) {
	names, values, ok := f.object(name, maxMembers)
	if !ok {
		return nil, false
	}
	lists = make(map[string][]string, len(names))
	for _, key := range names {
		list := []jsonscan.Value{values[key]}
		good := true
		if values[key].Kind() == '[' {
			list, good = elements(values[key], 1, maxStrings)
		}
		if !good || slices.ContainsFunc(list, func(v jsonscan.Value) bool { return v.Kind() != '"' }) {
			f.Fault(fmt.Sprintf("must be a string, or an array of 1 to %d strings", maxStrings), name, key)
			ok = false
			continue
		}
		for _, value := range list {
			lists[key] = append(lists[key], unquote(value))
		}
	}
	return lists, ok
}

// object returns the members of an object, at most maximum, and their names in the order of the body.
func (f *Form) object(name string, maxMembers int) (names []string, values map[string]jsonscan.Value, ok bool) {
	raw, ok := f.takeMember(name, '{', "an object")
	if !ok {
		return nil, nil, false
	}
	names, values, ok = members(raw, maxMembers)
	if !ok {
		f.Fault(fmt.Sprintf("must have at most %d members", maxMembers), name)
	}
	return names, values, ok
}

func unquote(value jsonscan.Value) string {
	text, _ := value.Text()
	return text
}

// lastTime is the last time that RFC 3339 can express in UTC.
var lastTime = time.Date(9999, time.December, 31, 23, 59, 59, 999999999, time.UTC) //nolint:gochecknoglobals // a constant

// parseTime reads an RFC 3339 time of the years 1970 to 9999. If an offset puts it after these
// years, it returns the last time of them.
func parseTime(text string) (time.Time, bool) {
	at, ok := rfc3339.Parse(text)
	if at.After(lastTime) {
		at = lastTime
	}
	return at, ok && at.Year() >= 1970
}
