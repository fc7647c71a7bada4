package main

import (
	"cmp"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"waybill.dev/cmd/lab/bench/internal/budget"
)

// costRows are the table of what was measured beside the budget.
func costRows(verdicts []budget.Verdict) [][]string {
	rows := [][]string{{"scenario", "form", "for a delivery", "measured", "budget", "more", "may be", ""}}
	for _, v := range verdicts {
		more, word := fmt.Sprintf("%+.1f %%", v.Percent()), ""
		if v.None {
			more, word = "", "not in both"
		} else if v.Over() {
			word = "OVER"
		}
		may := fmt.Sprintf("%+.0f %%", v.Within)
		if math.IsInf(v.Within, 1) {
			may, word = "", "not judged: the budget is of another processor"
		}
		rows = append(rows, []string{v.Scenario, v.Form, v.Name, number(v.Value), number(v.Budget), more, may, word})
	}
	return rows
}

// movesShown are how many stages a fault is explained by.
const movesShown = 12

// explain says of each scenario that costs too much, since when its budget stands and which stages moved.
func explain(out io.Writer, file *budget.Budget, measured []budget.Cost, over []budget.Verdict) {
	for _, v := range over {
		fmt.Fprintf(out, "\n%s, %s: %s is %s, and may be %s (%+.0f %%) since %s: %s\n", v.Scenario, v.Form, v.Name, number(v.Value), number(v.Budget), v.Within, v.Commit, v.Why)
	}
	for _, m := range measured {
		if !slices.ContainsFunc(over, func(v budget.Verdict) bool { return v.Scenario == m.Scenario && v.Form == m.Form }) {
			continue
		}
		fmt.Fprintf(out, "\n%s, %s: the stages that moved most\n", m.Scenario, m.Form)
		rows := [][]string{{"  process", "package", "was", "is", "more"}}
		for _, s := range budget.Moves(file.Stages(m.Scenario, m.Form), m.Stages, movesShown) {
			rows = append(rows, []string{"  " + s.Process, s.Package, number(s.Was), number(s.Is), fmt.Sprintf("%+.3f", s.Is-s.Was)})
		}
		columns(out, rows)
	}
	if len(over) > 0 {
		fmt.Fprintln(out, "\nIf it is worth that: make budget ARGS='-reason \"…\"'")
	}
}

// sortStages puts the largest first.
func sortStages(list []budget.Stage) []budget.Stage {
	slices.SortFunc(list, func(a, b budget.Stage) int {
		return cmp.Or(cmp.Compare(b.Value, a.Value), strings.Compare(a.Process+a.Package, b.Process+b.Package))
	})
	return list
}
