package routefile

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"regexp"
	"strings"

	"waybill.dev/services/gateway/internal/jsonschema"
)

// pathTemplate is the path of a route file.
type pathTemplate struct {
	mode  PathMode
	parts []templatePart
}

// templatePart is a literal, in its canonical form, or a parameter.
type templatePart struct {
	literal string
	name    string
	// pattern matches the parameter's value in its canonical form; empty: one or more characters of
	// one segment.
	pattern string
	unnamed bool // name is a number
}

func parseTemplate(mode PathMode, path string) (pathTemplate, error) {
	t := pathTemplate{mode: mode}
	if !strings.HasPrefix(path, "/") {
		return t, errors.New("a path begins with /")
	}
	if i := strings.IndexAny(path, "?#"); i >= 0 && mode == OpenAPI {
		return t, fmt.Errorf("a path has no %c", path[i])
	}
	var err error
	if mode == URLPattern {
		t.parts, err = parsePattern(path)
	} else {
		t.parts, err = parseBraces(path)
	}
	if err != nil {
		return t, err
	}
	return t, t.check()
}

// parseBraces reads a path with parameters in braces.
func parseBraces(path string) (parts []templatePart, err error) {
	for path != "" {
		literal, rest, parameter := strings.Cut(path, "{")
		if strings.Contains(literal, "}") {
			return nil, errors.New("the path has a } without a {")
		}
		if parts, err = appendLiteral(parts, literal); err != nil || !parameter {
			return parts, err
		}
		name, after, closed := strings.Cut(rest, "}")
		if !closed || name == "" || strings.ContainsAny(name, "{/") {
			return nil, errors.New("the path has a { without a name and a }")
		}
		if len(parts) > 0 && parts[len(parts)-1].name != "" {
			return nil, fmt.Errorf("nothing tells the parameters %s and %s of the path apart", parts[len(parts)-1].name, name)
		}
		parts, path = append(parts, templatePart{name: name}), after
	}
	return parts, nil
}

// appendLiteral appends a literal in the form in which literals are compared.
func appendLiteral(parts []templatePart, literal string) ([]templatePart, error) {
	if literal == "" {
		return parts, nil
	}
	written, ok := canonical(literal)
	if !ok {
		return nil, errors.New("the path has a % that escapes nothing")
	}
	return append(parts, templatePart{literal: written}), nil
}

// canonical writes a path in one form, the same for all equal paths: only a slash within a segment,
// and the % of escapes, are escaped.
func canonical(path string) (string, bool) {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err != nil || !readable(decoded) {
			return "", false
		}
		segments[i] = strings.ReplaceAll(strings.ReplaceAll(decoded, "%", "%25"), "/", "%2F")
	}
	return strings.Join(segments, "/"), true
}

// escape escapes a canonical path for a URL.
func escape(path string) string {
	segments := strings.Split(path, "/")
	for i, segment := range segments {
		decoded, err := url.PathUnescape(segment)
		if err == nil { // can't fail: canonical has written it
			segments[i] = url.PathEscape(decoded)
		}
	}
	return strings.Join(segments, "/")
}

// check checks the rules of both modes.
func (t pathTemplate) check() error {
	seen := make(map[string]bool)
	for _, p := range t.parts {
		if p.name != "" && seen[p.name] {
			return fmt.Errorf("the path has the parameter %s twice", p.name)
		}
		seen[p.name] = true
	}
	var literals strings.Builder
	for _, p := range t.parts {
		literals.WriteString(p.literal)
		if p.name != "" {
			literals.WriteString("x")
		}
	}
	if hasDots(literals.String()) {
		return errors.New("the path has a segment . or .., which no request has")
	}
	return nil
}

// hasDots reports whether a segment of an escaped path is . or .. : such a path means another path,
// and servers disagree about which one.
func hasDots(path string) bool {
	for segment := range strings.SplitSeq(path, "/") {
		if isDots(segment) {
			return true
		}
	}
	return false
}

func isDots(text string) bool { return text == "." || text == ".." }

// names returns the parameters' names, in their order.
func (t pathTemplate) names() (names []string) {
	for _, p := range t.parts {
		if p.name != "" && !p.unnamed {
			names = append(names, p.name)
		}
	}
	return names
}

// unnamed reports whether a part of the path varies and has no name.
func (t pathTemplate) unnamed() bool {
	for _, p := range t.parts {
		if p.unnamed {
			return true
		}
	}
	return false
}

// key is equal for paths that match the same requests, as far as can be seen.
func (t pathTemplate) key() string {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(p.literal)
		if p.name != "" {
			b.WriteString("{" + p.pattern + "}")
		}
	}
	key := b.String()
	if t.mode == OpenAPI && len(key) > 1 {
		key = strings.TrimSuffix(key, "/")
	}
	return key
}

// fill writes the path with values of its parameters, which are escaped.
func (t pathTemplate) fill(values map[string]string) string {
	var b strings.Builder
	for _, p := range t.parts {
		b.WriteString(escape(p.literal))
		if p.name != "" {
			b.WriteString(values[p.name])
		}
	}
	return b.String()
}

// within takes the cost of a path's regular expressions from a budget.
func (t pathTemplate) within(budget *jsonschema.Budget) error {
	for _, p := range t.parts {
		if p.pattern == "" {
			continue
		}
		if err := budget.Pattern(p.pattern); err != nil {
			return err
		}
	}
	return nil
}

// expression returns the regular expression of the path, and the numbers of the groups that are
// parameters.
func (t pathTemplate) expression() (*regexp.Regexp, []int, error) {
	var b strings.Builder
	var groups []int
	next := 1
	for _, p := range t.parts {
		if p.name == "" {
			b.WriteString(regexp.QuoteMeta(p.literal))
			continue
		}
		pattern := cmp.Or(p.pattern, "[^/]+")
		inner, err := regexp.Compile(pattern)
		if err != nil {
			return nil, nil, fmt.Errorf("the path's parameter %s: %w", p.name, err)
		}
		groups = append(groups, next)
		next += 1 + inner.NumSubexp()
		b.WriteString("(" + pattern + ")")
	}
	whole, err := regexp.Compile("^(?s:" + b.String() + ")$")
	if err != nil {
		return nil, nil, fmt.Errorf("the path's regular expression: %w", err)
	}
	return whole, groups, nil
}
