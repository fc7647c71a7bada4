package index

import (
	"slices"

	"waybill.dev/shared/filter"
)

// chooser finds the webhooks whose filter an event matches. A filter that needs certain values at a
// path is checked only for events with one of these values. If it needs values at several paths, it
// is filed under the path with the most values among all filters. A filter that needs a value
// within a range is checked only for events with a value in the range. Each other filter is checked
// for each event.
type chooser struct {
	always []*Hook // webhooks without a filter
	// indexes finds the filters that are filed under a path, by the member of data with which the
	// path begins; empty: paths outside of data.
	indexes map[string][]pathIndex
	others  []*hookFilter
}

// pathIndex finds filters by the values that an event has at one path.
type pathIndex interface {
	choose(event *filter.Event, hooks []*Hook) []*Hook
}

// hookFilter is a filter and its webhook.
type hookFilter struct {
	hook   *Hook
	filter *filter.Filter
}

func (f *hookFilter) choose(event *filter.Event, hooks []*Hook) []*Hook {
	if f.filter.Matches(event) {
		hooks = append(hooks, f.hook)
	}
	return hooks
}

// newChooser makes a chooser. filters has an entry for each hook; nil: the hook has no filter.
func newChooser(hooks []*Hook, filters []*filter.Filter) *chooser {
	c := &chooser{indexes: make(map[string][]pathIndex)}
	needs := make([][]filter.PathKeys, len(hooks))
	values := make(map[string]map[filter.Key]struct{}) // by path
	for i, f := range filters {
		if f == nil {
			c.always = append(c.always, hooks[i])
			continue
		}
		needs[i] = f.RequiredKeys()
		for _, need := range needs[i] {
			if values[need.Path()] == nil {
				values[need.Path()] = make(map[filter.Key]struct{})
			}
			for _, key := range need.Keys {
				values[need.Path()][key] = struct{}{}
			}
		}
	}
	byKey, byRange := make(map[string]*keyIndex), make(map[string]*rangeIndex)
	for i, f := range filters {
		if f == nil {
			continue
		}
		each := &hookFilter{hooks[i], f}
		if len(needs[i]) > 0 {
			best := slices.MaxFunc(needs[i], func(a, b filter.PathKeys) int { return len(values[a.Path()]) - len(values[b.Path()]) })
			c.addNeed(byKey, best, each)
		} else if within, ok := f.Range(); ok {
			c.addRange(byRange, within, each)
		} else {
			c.others = append(c.others, each)
		}
	}
	for _, r := range byRange {
		r.find = filter.NewRanges(r.ranges)
		r.ranges = nil
	}
	return c
}

func (c *chooser) addNeed(byKey map[string]*keyIndex, need filter.PathKeys, f *hookFilter) {
	k := byKey[need.Path()]
	if k == nil {
		k = &keyIndex{need, make(map[filter.Key][]*hookFilter)}
		byKey[need.Path()] = k
		c.indexes[need.Name()] = append(c.indexes[need.Name()], k)
	}
	for _, key := range need.Keys {
		k.filters[key] = append(k.filters[key], f)
	}
}

func (c *chooser) addRange(byRange map[string]*rangeIndex, within filter.Range, f *hookFilter) {
	r := byRange[within.Place()]
	if r == nil {
		r = &rangeIndex{}
		byRange[within.Place()] = r
		c.indexes[within.Name()] = append(c.indexes[within.Name()], r)
	}
	r.ranges = append(r.ranges, within)
	r.filters = append(r.filters, f)
}

// choose returns each webhook whose filter matches, once.
func (c *chooser) choose(payload []byte) []*Hook {
	event := filter.Read(payload)
	hooks := slices.Clone(c.always)
	for _, f := range c.others {
		hooks = f.choose(event, hooks)
	}
	for _, p := range c.indexes[""] {
		hooks = p.choose(event, hooks)
	}
	if len(c.indexes) == 0 {
		return hooks
	}
	for name := range event.Names() {
		if len(name) == 0 {
			continue // no path begins with this member
		}
		for _, p := range c.indexes[string(name)] {
			hooks = p.choose(event, hooks)
		}
	}
	return hooks
}

// keyIndex finds filters by the values that they need at one path.
type keyIndex struct {
	need    filter.PathKeys // has the path
	filters map[filter.Key][]*hookFilter
}

func (k *keyIndex) choose(event *filter.Event, hooks []*Hook) []*Hook {
	var room [1]filter.Key
	keys := room[:0]
	event.Keys(k.need, func(key filter.Key) { keys = append(keys, key) })
	var seen map[*hookFilter]struct{}
	if len(keys) > 1 { // several elements of an array: a filter may need more than one of them
		seen = make(map[*hookFilter]struct{})
	}
	for _, key := range keys {
		for _, f := range k.filters[key] {
			if seen != nil {
				if _, again := seen[f]; again {
					continue
				}
				seen[f] = struct{}{}
			}
			hooks = f.choose(event, hooks)
		}
	}
	return hooks
}

// rangeIndex finds filters by the ranges that they need at one path.
type rangeIndex struct {
	find    *filter.Ranges
	filters []*hookFilter
	ranges  []filter.Range // of filters; used only until find is made
}

func (r *rangeIndex) choose(event *filter.Event, hooks []*Hook) []*Hook {
	r.find.Find(event, func(number int) { hooks = r.filters[number].choose(event, hooks) })
	return hooks
}
