package gateway

import (
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
)

// table is all routes of one folder. It never changes: what a request began with, it goes
// on with.
type table struct {
	paths []*pathItem // in the order in which they are asked
	// exact has the places in paths of those that are plain text.
	exact map[string][]int
	// patterns are the places of all others.
	patterns []int
	routes   []*Route
	closers  []func() error
	files    int // of how many files it was made

	// uses counts the requests that the table answers, and one for being the current one.
	uses atomic.Int64
}

// acquire counts a request; false: the table is gone, and another one is the current one.
func (t *table) acquire() bool {
	for {
		n := t.uses.Load()
		if n == 0 {
			return false
		}
		if t.uses.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// release ends what acquire began, and closes the table after the last request.
func (t *table) release() error {
	if t.uses.Add(-1) > 0 {
		return nil
	}
	return t.close()
}

// close closes what is a Closer.
func (t *table) close() error {
	errs := make([]error, len(t.closers))
	for i, end := range t.closers {
		errs[i] = end()
	}
	return errors.Join(errs...)
}

// pathItem is one path item of a file, with the routes of its methods.
type pathItem struct {
	match  func(escaped string) (params map[string]string, ok bool)
	prefix string // what each path that matches begins with, if it is written without escapes
	routes []*Route
}

// found is what a path and a method have led to.
type found struct {
	route  *Route // nil: no route of the path has the method
	params map[string]string
	// others are the routes of the path, when none of them has the method.
	others []*Route
	// template is how the route file writes the path.
	template string
}

// add takes a route; its path's matcher is used for all routes of that path item.
func (t *table) add(r *Route) error {
	t.routes = append(t.routes, r)
	op := r.operation
	if last := len(t.paths) - 1; last >= 0 {
		if of := t.paths[last].routes[0].operation; of.File == op.File && of.Path == op.Path {
			t.paths[last].routes = append(t.paths[last].routes, r)
			return nil
		}
	}
	match, err := op.Matcher()
	if err != nil {
		return err
	}
	place := len(t.paths)
	t.paths = append(t.paths, &pathItem{match: match, prefix: literalPrefix(op), routes: []*Route{r}})
	plain, ok := plainPath(op)
	if !ok {
		t.patterns = append(t.patterns, place)
		return nil
	}
	for _, text := range plain {
		t.exact[text] = append(t.exact[text], place)
	}
	return nil
}

// find returns the first route that has path and method. A HEAD is answered as GET where
// no route is for HEAD.
func (t *table) find(method, escaped string) (found, bool) {
	if f, ok := t.findMethod(method, escaped); ok {
		return f, true
	}
	if method == http.MethodHead {
		if f, ok := t.findMethod(http.MethodGet, escaped); ok {
			return f, true
		}
	}
	var f found
	for c := t.matching(escaped); c.next(); {
		f.others = append(f.others, c.item.routes...)
	}
	if len(f.others) == 0 {
		return found{}, false
	}
	f.template = f.others[0].operation.Path
	return f, true
}

func (t *table) findMethod(method, escaped string) (found, bool) {
	for c := t.matching(escaped); c.next(); {
		for _, r := range c.item.routes {
			if r.operation.Method == method {
				return found{route: r, params: c.params, template: r.operation.Path}, true
			}
		}
	}
	return found{}, false
}

// matching returns a cursor over the paths that match.
func (t *table) matching(escaped string) cursor {
	if strings.IndexByte(escaped, '%') >= 0 {
		return cursor{table: t, escaped: escaped, patterns: t.all()}
	}
	return cursor{table: t, escaped: escaped, exact: t.exact[escaped], patterns: t.patterns}
}

// cursor goes over the paths that match, in their order.
type cursor struct {
	table           *table
	escaped         string
	exact, patterns []int // places that are still to be looked at

	item   *pathItem
	params map[string]string
}

// next goes to the next path; false: there is none.
func (c *cursor) next() bool {
	for len(c.exact) > 0 || len(c.patterns) > 0 {
		if len(c.patterns) == 0 || len(c.exact) > 0 && c.exact[0] < c.patterns[0] {
			c.item, c.params = c.table.paths[c.exact[0]], nil
			c.exact = c.exact[1:]
			return true
		}
		c.item = c.table.paths[c.patterns[0]]
		c.patterns = c.patterns[1:]
		var ok bool
		if c.params, ok = c.item.matches(c.escaped); ok {
			return true
		}
	}
	return false
}

// all returns the places of all paths: an escaped path may mean a plain one, too.
func (t *table) all() []int {
	places := make([]int, len(t.paths))
	for i := range places {
		places[i] = i
	}
	return places
}

// allow returns the methods that the path has.
func (f *found) allow() string {
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
func (f *found) byMethod(method string) *Route {
	for _, r := range f.others {
		if r.operation.Method == method {
			return r
		}
	}
	return nil
}

// matches asks the matcher, unless the prefix tells already that it is in vain. No value of
// a parameter is . or .., in any spelling: nobody could say which path of a back end is
// meant.
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

// special are the characters with which something begins, in a path, that is no text. A
// path with an escape or a character that must be escaped is no plain one either.
func special(mode routefile.PathMode) string {
	if mode == routefile.URLPattern {
		return `:(*{\?+%`
	}
	return "{%"
}

// plainPath returns the paths that an operation without parameters has; false: it is no
// plain path.
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

// literalPrefix returns the plain text that all paths of an operation begin with, up to the
// last slash before what is special.
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
