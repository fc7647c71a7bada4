package route

import (
	"net/url"
	"strings"

	"waybill.dev/shared/problem"
)

// Query is the query of a request. The query stays byte for byte as it arrived; only Set and Remove
// change it, and only the parameter that they name. Only & separates parameters, and a percent sign
// that begins no escape is text, as in browsers.
type Query struct {
	search string // with its ?; empty: none
	values url.Values
}

// ParseQuery returns the query that a URL has.
func ParseQuery(u *url.URL) Query {
	if u.RawQuery == "" && !u.ForceQuery {
		return Query{}
	}
	return Query{search: "?" + u.RawQuery}
}

// Search returns the query as it is, with the ? before it; empty: there is none.
func (q *Query) Search() string { return q.search }

// Raw returns the query without its ?.
func (q *Query) Raw() string { return strings.TrimPrefix(q.search, "?") }

// Values returns the decoded parameters. Callers must not change them.
func (q *Query) Values() url.Values {
	if q.values == nil && q.search != "" {
		q.values = make(url.Values)
		for part := range strings.SplitSeq(q.Raw(), "&") {
			if part != "" {
				name, value, _ := strings.Cut(part, "=")
				name = decode(name)
				q.values[name] = append(q.values[name], decode(value))
			}
		}
	}
	return q.values
}

// Get returns the first value of a parameter; empty: there is none.
func (q *Query) Get(name string) string { return q.Values().Get(name) }

// Has reports whether there is a parameter.
func (q *Query) Has(name string) bool { return q.Values().Has(name) }

// Set sets a parameter to one value, in the place of its first value or at the end. The error is
// that of Without.
func (q *Query) Set(name, value string) error {
	written := Component(name) + "=" + Component(value)
	set := false
	raw, err := q.edit(func(other string) (string, bool) {
		if other != name {
			return "", false
		}
		text := written
		if set {
			text = ""
		}
		set = true
		return text, true
	})
	if err != nil {
		return err
	}
	if !set {
		if raw != "" {
			raw += "&"
		}
		raw += written
	}
	*q = Query{search: "?" + raw}
	return nil
}

// Remove removes a parameter with all its values. The error is that of Without.
func (q *Query) Remove(name string) error {
	if q.search == "" {
		return nil
	}
	raw, err := q.Without(func(other string) bool { return other == name })
	if err != nil || raw == q.Raw() {
		return err
	}
	*q = ParseQuery(&url.URL{RawQuery: raw})
	return nil
}

// Without returns the query without its ? and without the parameters for whose names drop returns
// true. It fails, with a problem, when another parameter has such a name behind a semicolon: some
// back ends take a semicolon for &, and would still see the parameter.
func (q *Query) Without(drop func(name string) bool) (string, error) {
	return q.edit(func(name string) (string, bool) { return "", drop(name) })
}

// edit returns the query's parameters. Those for which instead returns true are replaced by its
// text; an empty text leaves the parameter out.
func (q *Query) edit(instead func(name string) (text string, ok bool)) (string, error) {
	raw := q.Raw()
	if raw == "" {
		return "", nil
	}
	var parts []string
	for part := range strings.SplitSeq(raw, "&") {
		name, _, _ := strings.Cut(part, "=")
		if part == "" {
			parts = append(parts, part)
			continue
		}
		text, ok := instead(decode(name))
		switch {
		case !ok:
			if name, hidden := behindSemicolon(part, instead); hidden {
				return "", problem.Invalid(problem.Fault{Parameter: name, Detail: "must not stand behind a semicolon: & divides parameters"})
			}
			parts = append(parts, part)
		case text != "":
			parts = append(parts, text)
		}
	}
	return strings.Join(parts, "&"), nil
}

// behindSemicolon returns the first name behind a semicolon in a parameter for which instead
// reports ok. A back end that divides parameters by semicolons would see that name.
func behindSemicolon(part string, instead func(name string) (string, bool)) (string, bool) {
	if strings.IndexByte(part, ';') < 0 {
		return "", false
	}
	for piece := range strings.SplitSeq(part, ";") {
		name, _, _ := strings.Cut(piece, "=")
		if name = decode(name); name != "" {
			if _, ok := instead(name); ok {
				return name, true
			}
		}
	}
	return "", false
}

// decode returns the text of a name or a value in a query.
func decode(text string) string { return unescape(strings.ReplaceAll(text, "+", " ")) }

// Component encodes text so that it stays within one part of a URL.
func Component(text string) string {
	return strings.ReplaceAll(url.QueryEscape(text), "+", "%20")
}

// PathOf returns the escaped path of a URL as it arrived: only characters that can't stand in a path
// are escaped. EscapedPath would in that case also turn %2F into a slash.
func PathOf(u *url.URL) string {
	escaped := u.EscapedPath()
	if u.RawPath == "" || escaped == u.RawPath {
		return escaped
	}
	var b strings.Builder
	for i := range len(u.RawPath) {
		c := u.RawPath[i]
		if strings.IndexByte("/%!$&'()*+,;=:@[]", c) >= 0 {
			b.WriteByte(c)
		} else {
			b.WriteString(url.PathEscape(string([]byte{c})))
		}
	}
	return b.String()
}
