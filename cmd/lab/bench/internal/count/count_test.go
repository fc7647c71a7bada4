package count

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// What happens without an event is not an event's, and a statement that ran less often than it is asked for is none.
func TestReading(t *testing.T) {
	t.Parallel()
	at := func(commits float64, insert, poll, lease Did) Reading {
		return Reading{map[string]float64{Commits: commits}, map[string]Did{"INSERT": insert, "poll": poll, "lease": lease}}
	}
	idle := at(4, Did{}, Did{10, 20, 0}, Did{}).Minus(at(2, Did{}, Did{}, Did{}))
	got := at(30, Did{20, 100, 2000}, Did{40, 80, 0}, Did{1, 7, 9}).Minus(at(4, Did{10, 50, 1000}, Did{10, 20, 0}, Did{})).Without(idle, 3)
	if got.Counts[Commits] != 20 {
		t.Errorf("%g commits, want 20", got.Counts[Commits])
	}
	sum, texts := got.Sum(5)
	if diff := cmp.Diff(Did{10, 50, 1000}, sum); diff != "" || !slices.Equal(texts, []string{"INSERT"}) {
		t.Errorf("the statements are %q (-want +got):\n%s", texts, diff)
	}
}

func TestPlainly(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"INSERT INTO t\n\t(a, b) VALUES ($1, $2), ($3, $4)": "INSERT INTO t (a, b) VALUES …",
		"INSERT INTO t (a, b) VALUES (?1, ?2)":              "INSERT INTO t (a, b) VALUES …",
		"SELECT * FROM events_p20261126 WHERE id = $12":     "SELECT * FROM events WHERE id = ?",
	} {
		if got := plainly(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
