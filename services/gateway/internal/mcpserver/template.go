package mcpserver

import (
	"fmt"
	"net/url"
	"regexp"
	"strings"
)

// template is a uri with variables, of the simplest form of RFC 6570: `{name}` stands for
// one or more characters of one segment.
type template struct {
	pattern *regexp.Regexp
	names   []string
	shape   string // the uri with unnamed variables: two templates of one shape are the same
}

var variable = regexp.MustCompile(`\{([^{}]*)\}`)

var variableName = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]*[A-Za-z0-9_])?$`)

func newTemplate(uri string) (*template, error) {
	if strings.ContainsAny(variable.ReplaceAllString(uri, ""), "{}") {
		return nil, fmt.Errorf("the uri %q has a brace without its partner", uri)
	}
	t := new(template)
	var pattern, shape strings.Builder
	pattern.WriteString("^")
	literal := func(text string) {
		if shape.Len() == 0 {
			text = lowerScheme(text)
		}
		text = escape(text)
		shape.WriteString(text)
		pattern.WriteString(regexp.QuoteMeta(text))
	}
	rest := uri
	for _, found := range variable.FindAllStringSubmatch(uri, -1) {
		if !variableName.MatchString(found[1]) {
			return nil, fmt.Errorf("the uri %q has a variable that is not {name}", uri)
		}
		before, after, _ := strings.Cut(rest, found[0])
		literal(before)
		pattern.WriteString("([^/?#]+)")
		shape.WriteString("{}")
		t.names = append(t.names, found[1])
		rest = after
	}
	literal(rest)
	t.shape = shape.String()
	t.pattern = regexp.MustCompile(pattern.String() + "$")
	return t, nil
}

// match returns the decoded values of the variables in a normal URI. An escaped slash in a uri never
// becomes a segment boundary: the path escapes the value again.
func (t *template) match(uri string) (map[string]string, bool) {
	found := t.pattern.FindStringSubmatch(uri)
	if found == nil {
		return nil, false
	}
	params := make(map[string]string, len(t.names))
	for i, name := range t.names {
		value, err := url.PathUnescape(found[i+1])
		if err != nil {
			return nil, false
		}
		params[name] = value
	}
	return params, true
}
