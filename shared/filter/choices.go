package filter

import (
	"math"
	"slices"
	"strings"
)

// choices are the values of an $in or $nin, in little more memory than their text: sorted, one after
// the other in one text. A filter is so short that the end of a value fits in 16 bits.
type choices struct {
	text string // for each value its kind and its key's text
	ends []uint16
}

// newChoices returns choices, or nil if the values are too long, which MaxSize rules out.
func newChoices(set keys) *choices {
	entries := make([]string, 0, len(set))
	for key := range set {
		entries = append(entries, string(key.Kind)+key.Text)
	}
	slices.Sort(entries)
	c := &choices{text: strings.Join(entries, ""), ends: make([]uint16, len(entries))}
	if len(c.text) > math.MaxUint16 {
		return nil
	}
	end := 0
	for i, entry := range entries {
		end += len(entry)
		c.ends[i] = uint16(end)
	}
	return c
}

// at returns an entry.
func (c *choices) at(i int) (kind byte, text string) {
	from := 0
	if i > 0 {
		from = int(c.ends[i-1])
	}
	return c.text[from], c.text[from+1 : c.ends[i]]
}

// has reports whether a value is one of the choices.
func (c *choices) has(kind byte, text []byte) bool {
	low, high := 0, len(c.ends)
	for low < high {
		middle := (low + high) / 2
		switch k, t := c.at(middle); {
		case k == kind && t == string(text):
			return true
		case k < kind || k == kind && t < string(text):
			low = middle + 1
		default:
			high = middle
		}
	}
	return false
}

func (c *choices) hasKey(key Key) bool { return c.has(key.Kind, []byte(key.Text)) }

// list returns the keys.
func (c *choices) list() []Key {
	list := make([]Key, len(c.ends))
	for i := range list {
		list[i].Kind, list[i].Text = c.at(i)
	}
	return list
}
