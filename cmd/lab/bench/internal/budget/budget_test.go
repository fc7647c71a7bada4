package budget_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/lab/bench/internal/budget"
)

func cost(figures ...budget.Figure) []budget.Cost {
	return []budget.Cost{{Scenario: "rest-1", Form: "split", Figures: figures}}
}

// A figure that is more than its budget by more than it may is a fault, and so is one that the budget does not
// have, or that is not measured any more.
func TestJudge(t *testing.T) {
	t.Parallel()
	b := budget.Budget{Costs: cost(
		budget.Figure{Name: "within", Value: 100}, budget.Figure{Name: "over", Value: 100},
		budget.Figure{Name: "less", Value: 100}, budget.Figure{Name: "gone", Value: 1},
		budget.Figure{Name: "nothing", Value: 0},
	)}
	got := make(map[string]bool)
	for _, v := range b.Judge(cost(
		budget.Figure{Name: "within", Value: 107.9, Within: 8}, budget.Figure{Name: "over", Value: 108.1, Within: 8},
		budget.Figure{Name: "less", Value: 10, Within: 8}, budget.Figure{Name: "new", Value: 1, Within: 8}, budget.Figure{Name: "nothing", Value: 1, Within: 8},
	)) {
		got[v.Name] = v.Over()
	}
	want := map[string]bool{"within": false, "over": true, "less": false, "gone": true, "new": true, "nothing": true}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is over (-want +got):\n%s", diff)
	}
}

// A new budget needs a reason, and has it beside each figure that moved; what has hardly moved, and what was not
// measured, stays as it is.
func TestRenew(t *testing.T) {
	t.Parallel()
	other := budget.Cost{Scenario: "nats-1", Form: "split"}
	b := budget.Budget{Costs: append(cost(
		budget.Figure{Name: "a", Value: 100, Commit: "old", Why: "first"},
		budget.Figure{Name: "b", Value: 100, Commit: "old", Why: "first"},
	), other)}
	measured := cost(budget.Figure{Name: "a", Value: 101.9}, budget.Figure{Name: "b", Value: 97})
	if err := b.Renew(measured, "new", " "); err == nil {
		t.Error("a budget is renewed without a reason")
	}
	if err := b.Renew(measured, "new", "batches are larger"); err != nil {
		t.Fatal(err)
	}
	want := budget.Budget{Costs: append(cost(
		budget.Figure{Name: "a", Value: 100, Commit: "old", Why: "first"},
		budget.Figure{Name: "b", Value: 97, Commit: "new", Why: "batches are larger"},
	), other)}
	if diff := cmp.Diff(want, b); diff != "" {
		t.Errorf("the new budget (-want +got):\n%s", diff)
	}
	file := filepath.Join(t.TempDir(), "budget.json")
	if err := b.Write(file); err != nil {
		t.Fatal(err)
	}
	if got, err := budget.Read(file); err != nil || !cmp.Equal(&b, got) {
		t.Errorf("the file has %+v, %v", got, err)
	}
}

func TestReadFails(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "budget.json")
	if _, err := budget.Read(file); err == nil {
		t.Error("no file is a budget")
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := budget.Read(file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is no JSON: %v", err)
	}
}

// The stages that moved most come first, new ones and those that are gone among them.
func TestMoves(t *testing.T) {
	t.Parallel()
	was := []budget.Stage{{"api", "accept", 1}, {"api", "gone", 0.4}, {"api", "same", 3}}
	is := []budget.Stage{{"api", "accept", 1.1}, {"api", "new", 0.9}, {"api", "same", 3}}
	want := []budget.Move{{"api", "new", 0, 0.9}, {"api", "gone", 0.4, 0}, {"api", "accept", 1, 1.1}}
	if diff := cmp.Diff(want, budget.Moves(was, is, 3)[:2+1], cmp.Comparer(func(a, b float64) bool { return a-b < 1e-9 && b-a < 1e-9 })); diff != "" {
		t.Errorf("moves (-want +got):\n%s", diff)
	}
}

// The committed budget has a reason and a commit for each figure.
func TestCommitted(t *testing.T) {
	t.Parallel()
	b, err := budget.Read("../../budget.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range b.Costs {
		for _, f := range c.Figures {
			if f.Why == "" || f.Commit == "" {
				t.Errorf("%s, %s: %s has the reason %q and the commit %q", c.Scenario, c.Form, f.Name, f.Why, f.Commit)
			}
		}
		if len(c.Stages) == 0 { // of a count they are its statements
			t.Errorf("%s, %s has no stages", c.Scenario, c.Form)
		}
	}
}

// What depends on the machine is not judged on another processor than the budget's; counts are.
func TestAnotherProcessor(t *testing.T) {
	t.Parallel()
	figures := func(cpu, rows float64) []budget.Cost {
		return []budget.Cost{{Scenario: "rest-1", Form: "split", Figures: []budget.Figure{
			{Name: "CPU", Value: cpu, Within: 8, OfMachine: true}, {Name: "rows", Value: rows, Within: 1},
		}}}
	}
	for here, want := range map[string][]bool{"one": {true, true}, "another": {false, true}, "": {true, true}} {
		b := budget.Budget{Processor: "one", Here: here, Costs: figures(1, 1)}
		for i, v := range b.Judge(figures(2, 2)) {
			if v.Over() != want[i] {
				t.Errorf("on %q, %s is over: %v", here, v.Name, v.Over())
			}
		}
	}
}
