package filter

import "slices"

// Range is a condition that an event must meet to match a filter: at a path it must have a value
// between two others, both included. A missing bound is open.
type Range struct {
	path      *path
	kind      byte // of the bounds
	low, high *operand
}

// Place returns the same text for ranges of one path and one kind of values.
func (r Range) Place() string { return string(r.kind) + r.path.text }

// Name returns the member of data with which the path begins; empty: the path is not in data.
func (r Range) Name() string { return r.path.name() }

// Range returns a range that an event must be within; false: the filter has none. It prefers a
// range with both bounds.
func (f *Filter) Range() (best Range, ok bool) {
	for _, r := range f.root.ranges(nil) {
		if !ok || r.low != nil && r.high != nil && (best.low == nil || best.high == nil) {
			best, ok = r, true
		}
	}
	return best, ok
}

// ranges appends the ranges of a part, and joins those of one place.
func (p *filterPart) ranges(list []Range) []Range {
	if p.op == opAnd {
		for i := range p.parts {
			list = p.parts[i].ranges(list)
		}
		return list
	}
	if p.op != opGt && p.op != opGte && p.op != opLt && p.op != opLte {
		return list
	}
	place := Range{path: p.path, kind: p.operand.kind}
	at := slices.IndexFunc(list, func(r Range) bool { return r.kind == place.kind && r.path.text == place.path.text })
	if at < 0 {
		at, list = len(list), append(list, place)
	}
	r := &list[at]
	switch p.op {
	case opGt, opGte:
		if r.low == nil || r.low.compare(p.operand) < 0 {
			r.low = p.operand
		}
	default:
		if r.high == nil || r.high.compare(p.operand) > 0 {
			r.high = p.operand
		}
	}
	return list
}

// Ranges are ranges of one place. They find those that an event is within. They never change.
type Ranges struct {
	sorted []numberedRange // by their low bound
	// highest has, for the middle of each part of sorted (halved again and again), the highest
	// bound in that part.
	highest []*operand
}

type numberedRange struct {
	Range
	number int
}

// NewRanges returns the ranges of a list, numbered as in the list.
func NewRanges(list []Range) *Ranges {
	r := &Ranges{highest: make([]*operand, len(list))}
	for i, each := range list {
		r.sorted = append(r.sorted, numberedRange{each, i})
	}
	slices.SortFunc(r.sorted, func(a, b numberedRange) int {
		switch {
		case a.low == nil && b.low == nil:
			return 0
		case a.low == nil:
			return -1
		case b.low == nil:
			return 1
		}
		return a.low.compare(b.low)
	})
	r.noteHighest(0, len(list))
	return r
}

// noteHighest notes the highest bound from one place to another; nil: the bound is open.
func (r *Ranges) noteHighest(from, to int) *operand {
	middle := (from + to) / 2
	highest := r.sorted[middle].high
	for _, half := range [][2]int{{from, middle}, {middle + 1, to}} {
		if half[0] == half[1] {
			continue
		}
		if other := r.noteHighest(half[0], half[1]); highest != nil && (other == nil || other.compare(highest) > 0) {
			highest = other
		}
	}
	r.highest[middle] = highest
	return highest
}

// Find calls yield with the numbers of the ranges that an event is within. Its cost grows with the
// number of these, and with the logarithm of the number of all ranges.
func (r *Ranges) Find(e *Event, yield func(number int)) {
	if v := e.at(r.sorted[0].path); v != nil {
		r.find(e, v, 0, len(r.sorted), yield)
	}
}

func (r *Ranges) find(e *Event, v *value, from, to int, yield func(number int)) {
	for from < to {
		middle := (from + to) / 2
		if !atMost(e, v, r.highest[middle]) {
			return
		}
		r.find(e, v, from, middle, yield)
		each := r.sorted[middle]
		if each.low != nil {
			if order, ok := each.low.order(e, v); !ok || order < 0 {
				return // the low bounds after this one are higher still
			}
		}
		if atMost(e, v, each.high) {
			yield(each.number)
		}
		from = middle + 1
	}
}

// atMost reports whether a value is at or below a bound.
func atMost(e *Event, v *value, bound *operand) bool {
	if bound == nil {
		return true
	}
	order, ok := bound.order(e, v)
	return ok && order <= 0
}
