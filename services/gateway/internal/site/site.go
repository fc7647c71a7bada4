package site

import (
	"net/http"
	"slices"
	"strings"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/upstream"
)

// Site is all routes of one folder. It never changes: a request finishes with the site that it
// began with. A site holds no open resources, so it needs no closing.
type Site struct {
	paths []*pathItem // in the order in which they are matched
	// exact has the routes whose path is plain text, by that path, as indexes into paths.
	exact map[string][]int
	// patterns are the indexes of all other paths.
	patterns []int
	routes   []*Route
	files    int // number of files
	weight   int64

	upstreams []upstream.BackEnd
}

// Files returns the number of the site's route files.
func (s *Site) Files() int { return s.files }

// Weight returns about how many bytes the site takes in memory: Limits.Weight, its schemas, and the
// answers that routes have ready.
func (s *Site) Weight() int64 { return s.weight }

// Upstreams returns the back ends that routes of the site forward to.
func (s *Site) Upstreams() []upstream.BackEnd { return s.upstreams }

// pathItem is one path item of a file, with the routes of its methods.
type pathItem struct {
	match  func(escaped string) (params map[string]string, ok bool)
	prefix string // beginning of every unescaped path that matches
	routes []*Route
}

// match is the result of looking up a path and a method.
type match struct {
	route  *Route // nil: no route has the path, or none of the path has the method
	params map[string]string
	// others are the routes of the path, when none of them has the method.
	others []*Route
	// template is the path as the route file writes it; empty: no route has the path.
	template string
}

// add takes a route; its path's matcher is used for all routes of that path item.
func (s *Site) add(r *Route) error {
	s.routes = append(s.routes, r)
	op := r.operation
	if last := len(s.paths) - 1; last >= 0 {
		if of := s.paths[last].routes[0].operation; of.File == op.File && of.Path == op.Path {
			s.paths[last].routes = append(s.paths[last].routes, r)
			return nil
		}
	}
	match, err := op.Matcher()
	if err != nil {
		return err
	}
	place := len(s.paths)
	s.paths = append(s.paths, &pathItem{match: match, prefix: literalPrefix(op), routes: []*Route{r}})
	plain, ok := plainPath(op)
	if !ok {
		s.patterns = append(s.patterns, place)
		return nil
	}
	for _, text := range plain {
		s.exact[text] = append(s.exact[text], place)
	}
	return nil
}

// find returns the first route that has path and method. A HEAD is answered as GET where
// no route is for HEAD.
func (s *Site) find(method, escaped string) match {
	if f, ok := s.findMethod(method, escaped); ok {
		return f
	}
	if method == http.MethodHead {
		if f, ok := s.findMethod(http.MethodGet, escaped); ok {
			return f
		}
	}
	var f match
	for c := s.matching(escaped); c.next(); {
		f.others = append(f.others, c.item.routes...)
	}
	if len(f.others) > 0 {
		f.template = f.others[0].operation.Path
	}
	return f
}

func (s *Site) findMethod(method, escaped string) (match, bool) {
	for c := s.matching(escaped); c.next(); {
		for _, r := range c.item.routes {
			if r.operation.Method == method {
				return match{route: r, params: c.params, template: r.operation.Path}, true
			}
		}
	}
	return match{}, false
}

// matching returns a cursor over the paths that match.
func (s *Site) matching(escaped string) cursor {
	if strings.IndexByte(escaped, '%') >= 0 {
		return cursor{site: s, escaped: escaped, patterns: s.all()}
	}
	return cursor{site: s, escaped: escaped, exact: s.exact[escaped], patterns: s.patterns}
}

// cursor goes over the paths that match, in their order.
type cursor struct {
	site            *Site
	escaped         string
	exact, patterns []int // indexes that have not been tried yet

	item   *pathItem
	params map[string]string
}

// next goes to the next path; false: there is none.
func (c *cursor) next() bool {
	for len(c.exact) > 0 || len(c.patterns) > 0 {
		if len(c.patterns) == 0 || len(c.exact) > 0 && c.exact[0] < c.patterns[0] {
			c.item, c.params = c.site.paths[c.exact[0]], nil
			c.exact = c.exact[1:]
			return true
		}
		c.item = c.site.paths[c.patterns[0]]
		c.patterns = c.patterns[1:]
		var ok bool
		if c.params, ok = c.item.matches(c.escaped); ok {
			return true
		}
	}
	return false
}

// all returns the places of all paths: an escaped path may mean a plain one, too.
func (s *Site) all() []int {
	places := make([]int, len(s.paths))
	for i := range places {
		places[i] = i
	}
	return places
}

// allow returns the methods that the path has.
func (f *match) allow() string {
	var methods []string
	for _, r := range f.others {
		methods = append(methods, r.operation.Method)
		if r.operation.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
	}
	slices.Sort(methods)
	return strings.Join(slices.Compact(methods), ", ")
}

// byMethod returns the first of the other routes that has the method.
func (f *match) byMethod(method string) *Route {
	for _, r := range f.others {
		if r.operation.Method == method {
			return r
		}
	}
	return nil
}

// matches calls the matcher, unless the prefix already rules the path out. No value of a parameter
// is . or .., in any spelling: it would be unclear which path of a back end is meant.
func (p *pathItem) matches(escaped string) (map[string]string, bool) {
	if !strings.HasPrefix(escaped, p.prefix) && strings.IndexByte(escaped, '%') < 0 {
		return nil, false
	}
	params, ok := p.match(escaped)
	if !ok {
		return nil, false
	}
	for _, value := range params {
		if route.Climbs(value) {
			return nil, false
		}
	}
	return params, true
}

// special returns the characters that begin a part of a path that is not plain text. A path with an
// escape or a character that must be escaped is not plain either.
func special(mode routefile.PathMode) string {
	if mode == routefile.URLPattern {
		return `:(*{\?+%`
	}
	return "{%"
}

// plainPath returns the paths of an operation without parameters; false: the path is not plain.
func plainPath(op *routefile.Operation) ([]string, bool) {
	if strings.ContainsAny(op.Path, special(op.Mode)) || strings.ContainsFunc(op.Path, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return nil, false
	}
	if op.Mode == routefile.URLPattern || op.Path == "/" {
		return []string{op.Path}, true
	}
	plain := strings.TrimSuffix(op.Path, "/")
	return []string{plain, plain + "/"}, true
}

// literalPrefix returns the plain text at the beginning of all paths of an operation, up to the
// last slash before the first special character.
func literalPrefix(op *routefile.Operation) string {
	text := op.Path
	if at := strings.IndexAny(text, special(op.Mode)); at >= 0 {
		text = text[:at]
	}
	text = text[:strings.LastIndexByte(text, '/')+1]
	if strings.ContainsFunc(text, func(r rune) bool { return r <= ' ' || r > '~' }) {
		return ""
	}
	return text
}
