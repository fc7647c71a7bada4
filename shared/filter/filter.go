// Package filter selects events: a filter is a JSON object that says what an event must have. It is parsed
// strictly and once, and evaluated over the bytes of events; it decodes only the parts that it needs.
//
// A filter's names are paths, or $and, $or and $not. A path is type, timestamp, or data. and the
// names of members with dots between them. All of them must match. A path's value is the value that
// the event must have there ($eq), or an object of operators. A path that an event does not have
// matches only $exists: false, $ne, $nin and $not. Null is a value.
package filter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"

	"waybill.dev/shared/jsonscan"
)

// Bounds of a filter.
const (
	MaxSize    = 8 << 10 // bytes, as written
	MaxClauses = 50      // comparisons; $and, $or and $not don't count
	MaxDepth   = 8       // nesting of objects and arrays, the filter itself included
)

// Filter is a valid filter. It is never changed, and may be used concurrently.
type Filter struct{ root filterPart }

// Parse reads a filter. It returns all faults, with pointers that begin at the filter; none: the
// filter is valid.
func Parse(text []byte) (*Filter, []jsonscan.Fault) {
	if len(text) > MaxSize {
		return nil, []jsonscan.Fault{{Detail: fmt.Sprintf("must have at most %d bytes", MaxSize)}}
	}
	faults, err := jsonscan.Check(context.Background(), text, jsonscan.Options{}) // the size of the text bounds the check
	if syntax, ok := errors.AsType[*jsonscan.SyntaxError](err); ok {
		return nil, []jsonscan.Fault{{Detail: "is not valid JSON, from byte " + strconv.Itoa(syntax.Offset) + " on"}}
	}
	if len(faults) > 0 {
		return nil, faults
	}
	p := &parser{}
	root := p.filter(text, nil, 1)
	if p.clauses > MaxClauses {
		p.fault(fmt.Sprintf("must have at most %d clauses", MaxClauses), nil)
	}
	if len(p.faults) > 0 {
		return nil, p.faults
	}
	return &Filter{root}, nil
}

// Matches reports whether an event matches the filter.
func (f *Filter) Matches(e *Event) bool { return f.root.firstMiss(e) == nil }

// Miss is the clause that an event does not match.
type Miss struct {
	Pointer string // of the clause in the filter
	Clause  string // in words of the filter, such as: data.weightKg $gt 10
}

// Miss returns the first clause that an event does not match; ok is false when it matches the
// filter. For $or and $not it is the whole clause, because their parts don't decide alone.
func (f *Filter) Miss(e *Event) (miss Miss, ok bool) {
	p := f.root.firstMiss(e)
	if p == nil {
		return Miss{}, false
	}
	return Miss{Pointer: p.pointer, Clause: p.String()}, true
}

// filterPart is a clause of a filter, or several parts that belong together.
type filterPart struct {
	op      operator
	path    *path        // the path that it is about; nil: it contains parts of the filter itself
	pointer string       // of the part in the filter
	raw     []byte       // the value of the operator, as written
	parts   []filterPart // of $and, $or and $not
	operand *operand     // of the other operators
	choices *choices     // of $in and $nin
}

// maxShown is how many bytes of a clause are shown.
const maxShown = 200

// String returns the part in words of the filter.
func (p *filterPart) String() string {
	var b strings.Builder
	if p.path != nil {
		b.WriteString(p.path.text)
		b.WriteByte(' ')
	}
	b.WriteString(string(p.op))
	b.WriteByte(' ')
	b.WriteString(compact(p.raw))
	text := b.String()
	if len(text) <= maxShown {
		return text
	}
	end := maxShown
	for !utf8.RuneStart(text[end]) {
		end--
	}
	return text[:end] + "…"
}

// compact returns a JSON value without the space between its parts.
func compact(raw []byte) string {
	var b strings.Builder
	quoted := false
	for i := 0; i < len(raw); i++ {
		c := raw[i]
		switch {
		case quoted && c == '\\':
			b.WriteByte(c)
			i++
			c = raw[i]
		case c == '"':
			quoted = !quoted
		case !quoted && (c == ' ' || c == '\t' || c == '\r' || c == '\n'):
			continue
		}
		b.WriteByte(c)
	}
	return b.String()
}

// PathKeys is a condition that an event must meet to match a filter: at a path it must have one of the keys.
type PathKeys struct {
	Keys []Key
	path *path
}

// Path returns the path as it is written.
func (n PathKeys) Path() string { return n.path.text }

// Name returns the member of data with which the path begins; empty: the path is not in data.
func (n PathKeys) Name() string { return n.path.name() }

// RequiredKeys returns conditions that an event must meet: the values at each path that the filter only
// compares with values. A caller with many filters uses it to find the few that an event may match.
func (f *Filter) RequiredKeys() []PathKeys { return f.root.requiredKeys(nil) }

func (p *filterPart) requiredKeys(list []PathKeys) []PathKeys {
	switch {
	case p.op == opAnd:
		for i := range p.parts {
			list = p.parts[i].requiredKeys(list)
		}
	case p.op == opEq && !p.path.instant:
		if key, ok := p.operand.key(); ok {
			list = append(list, PathKeys{[]Key{key}, p.path})
		}
	case p.op == opIn && !p.path.instant:
		list = append(list, PathKeys{p.choices.list(), p.path})
	}
	return list
}
