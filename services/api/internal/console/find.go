package console

import (
	"slices"
	"strings"
)

// Hit is a page that a search leads to: of a thing, or of an act.
type Hit struct {
	Label, More string // a search looks through both
	Path, Icon  string
	Act         bool
}

// HitsShown is how many hits a search shows.
const HitsShown = 30

// Find returns the hits of all modules that contain every word of a text, things before actions. more says that
// there are further hits.
func (p *Page) Find(text string) (found []Hit, more bool) {
	text = strings.ToLower(text)
	words := strings.Fields(text)
	if len(words) == 0 {
		return nil, false
	}
	for i := range p.console.Modules {
		if find := p.console.Modules[i].Find; find != nil {
			found = append(found, find(p)...)
		}
	}
	found = slices.DeleteFunc(found, func(h Hit) bool {
		in := strings.ToLower(h.Label + " " + h.More)
		return slices.ContainsFunc(words, func(word string) bool { return !strings.Contains(in, word) })
	})
	place := func(h Hit) (n int) {
		if h.Act {
			n = 2
		}
		if !strings.HasPrefix(strings.ToLower(h.Label), text) {
			n++
		}
		return n
	}
	slices.SortStableFunc(found, func(a, b Hit) int { return place(a) - place(b) })
	return found[:min(len(found), HitsShown)], len(found) > HitsShown
}
