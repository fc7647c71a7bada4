package routefile

import (
	"net/url"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// Matcher returns the function that reports whether an escaped path matches the operation, and
// returns its parameters, decoded once. Parameters without a name are numbered from "0" on. The
// function may be called by several goroutines. A path matches nothing if a segment or a parameter
// is . or ..
//
// In the mode open-api a parameter is a part of one segment, at least a character long, and a slash
// at the end makes no difference. In the mode url-pattern, a slash at the end does.
func (o *Operation) Matcher() (func(path string) (params map[string]string, ok bool), error) {
	t, err := parseTemplate(o.Mode, o.Path)
	if err != nil {
		return nil, err
	}
	return t.matcher()
}

func (t pathTemplate) matcher() (func(path string) (map[string]string, bool), error) {
	if t.mode == OpenAPI {
		if m, simple := t.segments(); simple {
			return m.match, nil
		}
	}
	if n := len(t.parts); t.mode == OpenAPI && t.parts[n-1].name == "" {
		t.parts = slices.Clone(t.parts)
		t.parts[n-1].literal = strings.TrimSuffix(t.parts[n-1].literal, "/")
	}
	expression, groups, err := t.expression()
	if err != nil {
		return nil, err
	}
	var names []string
	for _, p := range t.parts {
		if p.name != "" {
			names = append(names, p.name)
		}
	}
	return patternMatcher{expression, groups, names, t.mode == OpenAPI}.match, nil
}

// patternMatcher matches by a regular expression, which RE2 does in linear time.
type patternMatcher struct {
	expression *regexp.Regexp
	groups     []int
	names      []string
	slash      bool // one at the end makes no difference
}

func (m patternMatcher) match(path string) (map[string]string, bool) {
	path, ok := canonical(path)
	if !ok || hasDots(path) {
		return nil, false
	}
	if m.slash {
		path = strings.TrimSuffix(path, "/")
	}
	found := m.expression.FindStringSubmatch(path)
	if found == nil {
		return nil, false
	}
	params := make(map[string]string, len(m.names))
	for i, name := range m.names {
		value, err := url.PathUnescape(found[m.groups[i]])
		if err != nil || isDots(value) {
			return nil, false
		}
		params[name] = value
	}
	return params, true
}

// segmentMatcher matches paths with segments that are each a literal or a parameter.
type segmentMatcher struct {
	literals []string // decoded
	names    []string // "" for a literal
	params   int
}

// segments returns a matcher for a path with parameters that are whole segments.
func (t pathTemplate) segments() (m segmentMatcher, simple bool) {
	var segment templatePart
	add := func() {
		decoded, _ := url.PathUnescape(segment.literal)
		m.literals, m.names = append(m.literals, decoded), append(m.names, segment.name)
		if segment.name != "" {
			m.params++
		}
		segment = templatePart{}
	}
	for _, p := range t.parts {
		if p.name != "" {
			if segment.literal != "" || segment.name != "" {
				return m, false
			}
			segment.name = p.name
			continue
		}
		for i, literal := range strings.Split(p.literal, "/") {
			if i > 0 {
				add()
			}
			if literal != "" && segment.name != "" {
				return m, false
			}
			segment.literal += literal
		}
	}
	add()
	if n := len(m.names); n > 2 && m.literals[n-1] == "" && m.names[n-1] == "" {
		m.literals, m.names = m.literals[:n-1], m.names[:n-1] // the slash at the end
	}
	return m, true
}

func (m segmentMatcher) match(path string) (map[string]string, bool) {
	if len(path) > 1 {
		path = strings.TrimSuffix(path, "/")
	}
	if strings.Count(path, "/") != len(m.names)-1 {
		return nil, false
	}
	var params map[string]string
	if m.params > 0 {
		params = make(map[string]string, m.params)
	}
	i := 0
	for segment := range strings.SplitSeq(path, "/") {
		decoded, ok := decode(segment)
		if !ok {
			return nil, false
		}
		switch name := m.names[i]; {
		case name == "" && decoded != m.literals[i], name != "" && decoded == "":
			return nil, false
		case name != "":
			params[name] = decoded
		}
		i++
	}
	return params, true
}

// decode returns the text of an escaped segment; ok is false for a segment that two servers might
// understand differently.
func decode(segment string) (decoded string, ok bool) {
	decoded, err := url.PathUnescape(segment)
	return decoded, err == nil && !isDots(decoded) && readable(decoded)
}

// readable reports whether decoded bytes are text.
func readable(decoded string) bool {
	return utf8.ValidString(decoded) && strings.IndexByte(decoded, 0) < 0
}
