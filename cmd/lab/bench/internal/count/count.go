// Package count counts the work that a running Waybill causes in the database and on the bus. Counts are the same on a
// slow machine and on a fast one.
package count

import (
	"cmp"
	"slices"
)

// The counts.
const (
	Statements = "statements" // without those that begin and end transactions
	Commits    = "commits"    // of transactions that wrote something
	Syncs      = "syncs of the log"
	Work       = "work"      // of the database for its statements: buffers of Postgres, or steps and pages of SQLite
	LogBytes   = "log bytes" // what was appended to the database's log
	RowBytes   = "row bytes" // of the tables that have a row for each event or delivery
	Messages   = "messages"  // published on the bus, to streams and to others
	Acks       = "acks"      // of messages in streams
)

// Reading has all counts up to a moment.
type Reading struct {
	Counts map[string]float64
	Texts  map[string]Did // by statement
}

// New returns an empty reading.
func New() Reading { return Reading{make(map[string]float64), make(map[string]Did)} }

// Did has how often a statement ran (N), its work, and its bytes in the log. SQLite has log bytes only for commits.
type Did struct{ N, Work, LogBytes float64 }

func (d Did) plus(other Did, times float64) Did {
	return Did{d.N + times*other.N, d.Work + times*other.Work, d.LogBytes + times*other.LogBytes}
}

// Minus returns what was counted since an earlier reading.
func (r Reading) Minus(earlier Reading) Reading { return r.Without(earlier, 1) }

// Without returns the reading less so many times another one: the work that is done without any event.
func (r Reading) Without(anyhow Reading, times float64) Reading {
	rest := New()
	for name, n := range r.Counts {
		rest.Counts[name] = n - times*anyhow.Counts[name]
	}
	for text, did := range r.Texts {
		rest.Texts[text] = did.plus(anyhow.Texts[text], -times)
	}
	return rest
}

// Sum adds up the work of the statements that ran at least so often, and returns their texts, the most frequent first.
// Rarer statements are not an event's: they ran in the background at the same time.
func (r Reading) Sum(least float64) (sum Did, texts []string) {
	for text, did := range r.Texts {
		if did.N >= least {
			sum, texts = sum.plus(did, 1), append(texts, text)
		}
	}
	slices.SortFunc(texts, func(a, b string) int {
		return cmp.Or(cmp.Compare(r.Texts[b].N, r.Texts[a].N), cmp.Compare(a, b))
	})
	return sum, texts
}
