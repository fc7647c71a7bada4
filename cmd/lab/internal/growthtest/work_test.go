package growthtest

import (
	"regexp"
	"strings"
)

// work is what a database did for one statement: so often, and so much.
type work struct{ calls, amount int64 }

// statements are statements by their text.
type statements map[string]work

func (s statements) add(text string, calls, amount int64) {
	text = plainly(text)
	w := s[text]
	s[text] = work{w.calls + calls, w.amount + amount}
}

func (w work) plus(other work) work { return work{w.calls + other.calls, w.amount + other.amount} }

// each is the work of one call.
func (w work) each() int64 { return w.amount / max(w.calls, 1) }

// Texts that differ by how many values they have, by their limits or by the day of a partition, are one.
var (
	values     = regexp.MustCompile(`(\$\d+|\?)`)
	lists      = regexp.MustCompile(`\?(, ?\?)+`)
	tuples     = regexp.MustCompile(`\((…|\?)\)(, ?\((…|\?)\))*`)
	limits     = regexp.MustCompile(`(LIMIT|OFFSET) \d+`)
	partitions = regexp.MustCompile(`_(p\d{8}|h\d{10})\b`)
)

// plainly returns a statement without what differs from run to run.
func plainly(text string) string {
	text = strings.NewReplacer("`", "", `"`, "").Replace(strings.Join(strings.Fields(text), " "))
	text = lists.ReplaceAllString(values.ReplaceAllString(text, "?"), "…")
	if head, tail, ok := strings.Cut(text, " VALUES "); ok {
		text = head + " VALUES " + tuples.ReplaceAllString(tail, "…")
	}
	return limits.ReplaceAllString(partitions.ReplaceAllString(text, ""), "$1 ?")
}
