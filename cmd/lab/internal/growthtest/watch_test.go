package growthtest

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
)

// mostGrowth is what the work may grow by from one size to the other.
const mostGrowth = 1.5

// watch compares, and writes a table.
type watch struct {
	t       *testing.T
	dialect string
	lines   []string
	// slack is work that is next to nothing: an index of a hundred times as many rows has a level or
	// two more, a small table is read whole, and Postgres reads some buffers once more after its vacuum.
	slack int64
}

func newWatch(t *testing.T, dialect string) *watch {
	t.Helper()
	w := &watch{t: t, dialect: dialect, slack: 200}
	if dialect == "postgres" {
		w.slack = 100
	}
	return w
}

// grew reports whether the work is more than the size allows for.
func (w *watch) grew(few, many int64) bool {
	return float64(many) > mostGrowth*float64(few)+float64(w.slack)
}

func ratio(few, many int64) float64 { return float64(many) / float64(max(few, 1)) }

// compare judges the work of an operation, and that of each of its statements.
func (w *watch) compare(name string, few, many statements) {
	w.t.Helper()
	var grown []string
	var before, after work
	for _, text := range union(few, many) {
		a, b := few[text], many[text]
		if w.grew(a.amount, b.amount) && !allows(laws, text, b.each()) {
			grown = append(grown, fmt.Sprintf("in %d and %d calls ", a.calls, b.calls)+grew(a.amount, b.amount, text))
		}
		before, after = before.plus(a), after.plus(b)
	}
	w.lines = append(w.lines, fmt.Sprintf("%-64s %3d statements %9d → %9d %8.2f", name, after.calls, before.amount, after.amount, ratio(before.amount, after.amount)))
	if len(grown) > 0 {
		w.t.Errorf("%s does %d for %d (ratio %.2f):\n\t%s", name, after.amount, before.amount, ratio(before.amount, after.amount), strings.Join(grown, "\n\t"))
	}
}

// scattered is what a page of some 100 rows may do more if those of others lie between them: a page of Postgres for each.
const scattered = 1500

// beside judges the work of each statement of an operation of an account which has as much as it had alone, and other
// accounts have a hundred times as much beside it.
func (w *watch) beside(name string, alone, among statements) {
	w.t.Helper()
	for _, text := range union(alone, among) {
		a, b := alone[text].each(), among[text].each()
		if w.grew(a, b-scattered) && !allows(beside, text, b) {
			w.t.Errorf("%s does more because of other accounts: %s", name, grew(a, b, text))
		}
	}
}

// compareEach judges the work of each statement for itself: it runs more or less often as it happens.
func (w *watch) compareEach(name string, few, many statements) {
	w.t.Helper()
	for _, text := range union(few, many) {
		a, b := few[text].each(), many[text].each()
		w.lines = append(w.lines, fmt.Sprintf("%9d → %9d %8.2f  %d and %d times  %.160s", a, b, ratio(a, b), few[text].calls, many[text].calls, text))
		if w.grew(a, b) && !allows(laws, text, b) {
			w.t.Errorf("%s: %s", name, grew(a, b, text))
		}
	}
}

func grew(few, many int64, text string) string {
	return fmt.Sprintf("%d → %d (ratio %.1f): %.900s", few, many, ratio(few, many), text)
}

// union returns the texts of both, what does most first.
func union(few, many statements) []string {
	var texts []string
	for text := range many {
		texts = append(texts, text)
	}
	for text := range few {
		if _, ok := many[text]; !ok {
			texts = append(texts, text)
		}
	}
	slices.SortFunc(texts, func(a, b string) int { return cmp.Or(cmp.Compare(many[b].amount, many[a].amount), cmp.Compare(a, b)) })
	return texts
}

// late judges an answer that the large database could not give in time: what it did is not counted whole.
func (w *watch) late(name string, status int) {
	w.t.Helper()
	w.t.Errorf("%s is answered with %d on the large database", name, status)
}

func (w *watch) end() {
	w.t.Logf("the work of %s, %d rows → %d rows:\n%s", w.dialect, small, large, strings.Join(w.lines, "\n"))
}
