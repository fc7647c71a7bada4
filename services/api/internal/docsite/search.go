package docsite

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"
)

// entry is a part of a page that can be found: a section, an operation, a kind of problem.
type entry struct {
	Path  string
	Page  string // the title of the page
	Title string // title of the part
	text  string

	title, body string // in lower case, for the search
}

// index is the list of all entries. It is small: a search reads all of it in less than a millisecond.
type index struct{ entries []entry }

func (x *index) add(entries ...entry) {
	for _, e := range entries {
		e.text = strings.Join(strings.Fields(e.text), " ")
		e.title = strings.ToLower(e.Page + " " + e.Title)
		e.body = strings.ToLower(e.text)
		x.entries = append(x.entries, e)
	}
}

// found is an entry with the text around the first word that was found.
type found struct {
	entry

	Before, Hit, After string
	score              int
}

// maxFound is how many entries a search shows.
const maxFound = 30

// find returns the entries that contain all the words, the best first. A word counts most at the beginning of the
// title.
func (x *index) find(words string) []found {
	terms := strings.Fields(strings.ToLower(words))
	if len(terms) == 0 {
		return nil
	}
	var all []found
	for _, e := range x.entries {
		score := 0
		for _, term := range terms {
			one := min(strings.Count(e.body, term), 4)
			if strings.Contains(e.title, term) {
				one += 10
			}
			if strings.HasPrefix(strings.ToLower(e.Title), term) {
				one += 10
			}
			if one == 0 {
				score = -1
				break
			}
			score += one
		}
		if score > 0 {
			all = append(all, found{entry: e, score: score})
		}
	}
	slices.SortStableFunc(all, func(a, b found) int { return cmp.Compare(b.score, a.score) })
	all = all[:min(len(all), maxFound)]
	for i := range all {
		all[i].cut(terms)
	}
	return all
}

// maxTerms is how many words of a question are used.
const maxTerms = 16

// rank returns up to limit entries that have some of the words of a question. The best come first. A word that few
// entries have counts more than a common word. A word in a title counts more than one in the text.
func (x *index) rank(question string, limit int) []found {
	terms := termsOf(question)
	scores := make([]float64, len(x.entries))
	counts := make([]int, len(x.entries))
	for _, term := range terms {
		having := 0
		for i, e := range x.entries {
			counts[i] = min(strings.Count(e.body, term), 4)
			if strings.Contains(e.title, term) {
				counts[i] += 6
			}
			if counts[i] > 0 {
				having++
			}
		}
		weight := math.Log(1 + float64(len(x.entries))/float64(1+having))
		for i, count := range counts {
			// Whether a word occurs counts more than how often.
			scores[i] += weight * math.Sqrt(float64(count))
		}
	}
	order := make([]int, 0, len(scores))
	for i, score := range scores {
		if score > 0 {
			order = append(order, i)
		}
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(scores[b], scores[a]) })
	all := make([]found, 0, limit)
	for _, i := range order[:min(len(order), limit)] {
		f := found{entry: x.entries[i]}
		f.cut(terms)
		all = append(all, f)
	}
	return all
}

// termsOf returns the different words of a question, the longest first. Only the first maxTerms are used, because
// long words say most. Words of one letter are left out.
func termsOf(question string) []string {
	terms := strings.FieldsFunc(strings.ToLower(question), func(r rune) bool {
		return !unicode.IsLetter(r) && !unicode.IsNumber(r) && r != '_' && r != '-' && r != '.'
	})
	for i, term := range terms {
		terms[i] = strings.Trim(term, "-.")
	}
	terms = slices.DeleteFunc(terms, func(term string) bool { return len(term) < 2 })
	slices.SortStableFunc(terms, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), cmp.Compare(a, b)) })
	terms = slices.Compact(terms)
	return terms[:min(len(terms), maxTerms)]
}

// around is how many bytes of text are shown on either side of a hit.
const around = 90

// cut chooses the part of the text that is shown.
func (f *found) cut(terms []string) {
	at, term := -1, ""
	if len(f.body) == len(f.text) { // otherwise letters have other lengths in lower case
		for _, t := range terms {
			if i := strings.Index(f.body, t); i >= 0 && (at < 0 || i < at) {
				at, term = i, t
			}
		}
	}
	from, end := 0, 0
	if at >= 0 {
		from, end = whole(f.text, max(0, at-around)), at+len(term)
		f.Before, f.Hit = f.text[from:at], f.text[at:end]
	}
	to := whole(f.text, min(len(f.text), end+2*around-(end-from)/2))
	f.After = f.text[end:to]
	if from > 0 {
		f.Before = "…" + f.Before
	}
	if to < len(f.text) {
		f.After += "…"
	}
}

// whole moves a position in a text back to the beginning of a character.
func whole(text string, at int) int {
	for at > 0 && at < len(text) && !utf8.RuneStart(text[at]) {
		at--
	}
	return at
}
