package input

import (
	"cmp"
	"fmt"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/shared/jsonscan"
	"waybill.dev/shared/problem"
)

// Query reads the parameters of a query one by one and collects the faults. A parameter that is not
// read is a fault: a misspelt filter must not list everything.
type Query struct {
	values url.Values
	asked  map[string]bool
	notes  faultList
}

// ParseQuery reads a raw query.
func ParseQuery(raw string) *Query {
	q := &Query{asked: make(map[string]bool)}
	values, err := url.ParseQuery(raw)
	if err != nil {
		q.Fault("?", "is not a valid query")
	}
	q.values = values
	return q
}

// Fault adds a fault of a parameter. If the name is long, only its beginning is shown.
func (q *Query) Fault(name, detail string) {
	if len(name) > jsonscan.MaxPointer {
		name = strings.ToValidUTF8(name[:jsonscan.MaxPointer], "")
	}
	q.notes.add(problem.Fault{Parameter: name, Detail: detail})
}

// Err returns the faults, unknown parameters included, as a *problem.Problem, or nil.
func (q *Query) Err() error {
	for name := range q.values {
		if !q.asked[name] {
			q.Fault(name, "is not a known parameter")
		}
	}
	return q.notes.err(func(a, b problem.Fault) int {
		return cmp.Or(strings.Compare(a.Parameter, b.Parameter), strings.Compare(a.Detail, b.Detail))
	})
}

// Text returns the parameter; ok is false when it is absent. It may be given only once, and must be
// UTF-8 without U+0000.
func (q *Query) Text(name string) (text string, ok bool) {
	q.asked[name] = true
	values := q.values[name]
	if len(values) == 0 {
		return "", false
	}
	text = values[0]
	switch {
	case len(values) > 1:
		q.Fault(name, "is given more than once")
	case !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0:
		q.Fault(name, "is not valid text")
	default:
		return text, true
	}
	return "", false
}

// Texts returns a parameter that may be given up to most times, each time with 1 to longest
// characters; nil: it is absent.
func (q *Query) Texts(name string, maxTimes, maxLength int) []string {
	q.asked[name] = true
	values := q.values[name]
	if len(values) > maxTimes {
		q.Fault(name, fmt.Sprintf("is given more than %d times", maxTimes))
		return nil
	}
	for _, text := range values {
		if text == "" || utf8.RuneCountInString(text) > maxLength || !utf8.ValidString(text) || strings.IndexByte(text, 0) >= 0 {
			q.Fault(name, fmt.Sprintf("must have 1 to %d characters", maxLength))
			return nil
		}
	}
	return values
}

// Within returns a text of 1 to most characters, or none when it is absent.
func (q *Query) Within(name string, maxLength int) string {
	text, ok := q.Text(name)
	if ok && (text == "" || utf8.RuneCountInString(text) > maxLength) {
		q.Fault(name, fmt.Sprintf("must have 1 to %d characters", maxLength))
		return ""
	}
	return text
}

// Integer returns a whole number from min to max, or fallback when it is absent.
func (q *Query) Integer(name string, minimum, maximum, fallback int) int {
	text, ok := q.Text(name)
	if !ok {
		return fallback
	}
	number, err := strconv.Atoi(text)
	if err != nil || number < minimum || number > maximum || text[0] == '+' {
		q.Fault(name, fmt.Sprintf("must be a whole number from %d to %d", minimum, maximum))
		return fallback
	}
	return number
}

// Time returns an RFC 3339 time; zero: it is absent.
func (q *Query) Time(name string) time.Time {
	text, ok := q.Text(name)
	if !ok {
		return time.Time{}
	}
	at, ok := parseTime(text)
	if !ok {
		q.Fault(name, "must be an RFC 3339 time")
	}
	return at
}

// Bool returns a parameter that is true or false; ok is false when it is absent or faulty.
func (q *Query) Bool(name string) (value, ok bool) {
	text, ok := q.Text(name)
	if !ok {
		return false, false
	}
	if text != "true" && text != "false" {
		q.Fault(name, "must be true or false")
		return false, false
	}
	return text == "true", true
}

// Prefixed returns the parameters whose names start with prefix, by the rest of their names; nil:
// there are none.
func (q *Query) Prefixed(prefix string) map[string]string {
	var found map[string]string
	for name := range q.values {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok {
			continue
		}
		text, ok := q.Text(name)
		if !utf8.ValidString(name) || strings.IndexByte(name, 0) >= 0 {
			q.Fault(name, "is not a valid name")
			continue
		}
		if ok {
			if found == nil {
				found = make(map[string]string)
			}
			found[rest] = text
		}
	}
	return found
}

// OneOf returns a parameter that must be one of the allowed values.
func OneOf[T ~string](q *Query, name string, allowed []T) T {
	text, ok := q.Text(name)
	if !ok {
		return ""
	}
	if !slices.Contains(allowed, T(text)) {
		words := make([]string, len(allowed))
		for i, a := range allowed {
			words[i] = string(a)
		}
		q.Fault(name, "must be one of "+strings.Join(words, ", "))
		return ""
	}
	return T(text)
}
