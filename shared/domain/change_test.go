package domain_test

import (
	"slices"
	"testing"

	"waybill.dev/shared/domain"
)

func TestEveryStatusIsReachedAndLeft(t *testing.T) {
	t.Parallel()
	reached, left := map[domain.Status]bool{}, map[domain.Status]bool{}
	for _, c := range domain.Changes() {
		reached[c.To()] = true
		for _, from := range c.From() {
			left[from] = true
		}
		if !slices.Contains(domain.Statuses(), c.To()) || c.String() == "unknown" {
			t.Errorf("change %d leads to %q and is called %q", c, c.To(), c)
		}
		if ends := c.To() == domain.StatusFailed; ends && c.Reason() == "" {
			t.Errorf("%s fails a delivery without a reason", c)
		}
	}
	for _, s := range domain.Statuses() {
		if !reached[s] || !left[s] {
			t.Errorf("%s: reached %v, left %v", s, reached[s], left[s])
		}
	}
}

// A state that is written later must be greater than all that its delivery had before.
func TestRevisionsRise(t *testing.T) {
	t.Parallel()
	var r domain.Revision
	for range 3 * domain.RunStep {
		if n := r.Noted(); n <= r || r.Next() <= n {
			t.Fatalf("after %d: note %d, outcome %d", r, n, r.Next())
		}
		if next := r.NextRun(); next <= r || next%domain.RunStep != 0 || next-r > domain.RunStep {
			t.Fatalf("after %d the next run begins at %d", r, next)
		}
		if r.WentOn(r) || r.WentOn(r.Noted()) || !r.WentOn(r.Next()) || !r.WentOn(r.NextRun().Next()) {
			t.Fatalf("whether a delivery went on after %d is told wrongly", r)
		}
		r++
	}
	first := domain.Revision(0).Next()
	if first != domain.FirstOutcome || !first.HasOutcome() || domain.Revision(0).Noted().HasOutcome() || domain.Revision(0).HasOutcome() {
		t.Errorf("the first outcome has revision %d", first)
	}
	for revision, want := range map[domain.Revision][2]bool{0: {false, false}, 1: {true, true}, 2: {true, false}, 3: {false, false}, 4: {false, false}} {
		if got := [2]bool{revision.First(false), revision.First(true)}; got != want {
			t.Errorf("revision %d is the first: without a note and with one %v, want %v", revision, got, want)
		}
	}
}
