package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"waybill.dev/cmd/lab/bench/internal/budget"
	"waybill.dev/cmd/lab/bench/internal/count"
)

// The scenarios whose cost is watched are those that were meant.
func TestCostedScenarios(t *testing.T) {
	t.Parallel()
	var names []string
	for _, c := range costedScenarios() {
		names = append(names, c.name)
	}
	if want := []string{"rest-1", "rest-10", "nats-1"}; !slices.Equal(names, want) {
		t.Errorf("they are %v, want %v", names, want)
	}
}

// In the committed budget a feature that was switched off again costs as much as without it. Order is an exception: the
// events of its account are numbered from then on.
func TestFeaturesCostNothingOff(t *testing.T) {
	t.Parallel()
	file, err := budget.Read("budget.json")
	if err != nil {
		t.Fatal(err)
	}
	without, seen := make(map[string]budget.Cost), 0
	for _, c := range file.Costs {
		if c.Scenario == countedPrefix+countWithout {
			without[c.Form] = c
		}
	}
	for _, c := range file.Costs {
		if !strings.HasSuffix(c.Scenario, off) || c.Scenario == countedPrefix+"order"+off {
			continue
		}
		seen++
		as := budget.Budget{Costs: []budget.Cost{without[c.Form]}}
		c.Scenario = countedPrefix + countWithout
		for i := range c.Figures {
			c.Figures[i].Within = exactly(c.Figures[i].Name)
		}
		for _, v := range as.Judge([]budget.Cost{c}) {
			if v.Over() && v.Name != alone+count.Syncs && v.Name != together+count.LogBytes { // the file of a larger table has more pages
				t.Errorf("%s, %s: %g, without the feature %g", c.Form, v.Name, v.Value, v.Budget)
			}
		}
	}
	if seen != 8 {
		t.Errorf("%d features are off, want 4 in each form", seen)
	}
}

// The processor time of each process is divided by its profile; what is small is one stage, and a process without a
// profile is one.
func TestStages(t *testing.T) {
	t.Parallel()
	turner := turner{ratio: []float64{3, 1, 2}, parts: []processShares{{"api": 1.5, "nats": 1.5}, {"api": 0.5, "nats": 0.5}, {"api": 1, "nats": 1}}}
	got := turner.stages(map[string]map[string]float64{"api": {"accept": 0.7, "web": 0.299, "small": 0.001}})
	want := []budget.Stage{{Process: "nats", Package: "all else", Value: 1}, {Process: "api", Package: "accept", Value: 0.7}, {Process: "api", Package: "web", Value: 0.299}, {Process: "api", Package: "all else", Value: 0.001}}
	if !slices.Equal(got, want) {
		t.Errorf("stages are %+v, want %+v", got, want)
	}
}

func TestSignificant(t *testing.T) {
	t.Parallel()
	for x, want := range map[float64]float64{0: 0, 123_456: 123_500, 7.123456: 7.123, 0.00123456: 0.001235} {
		if got := significant(x); got != want {
			t.Errorf("%g becomes %g, want %g", x, got, want)
		}
	}
}

// Who reads that something costs too much reads how much it may cost, since when and why, and which stages moved.
func TestExplain(t *testing.T) {
	t.Parallel()
	file := &budget.Budget{Costs: []budget.Cost{{
		Scenario: "rest-1", Form: formSplit, Figures: []budget.Figure{{Name: costCPU, Value: 5, Commit: "01234567", Why: "the reason"}},
		Stages: []budget.Stage{{Process: "api", Package: "accept", Value: 1}},
	}}}
	measured := []budget.Cost{{
		Scenario: "rest-1", Form: formSplit, Figures: []budget.Figure{{Name: costCPU, Value: 6, Within: 8}},
		Stages: []budget.Stage{{Process: "api", Package: "accept", Value: 2}},
	}}
	verdicts := file.Judge(measured)
	var out bytes.Buffer
	columns(&out, costRows(verdicts))
	explain(&out, file, measured, verdicts)
	for _, want := range []string{"+20.0 %", "OVER", "is 6, and may be 5 (+8 %) since 01234567: the reason", "accept", "+1.000", "make budget"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("%q is not in\n%s", want, out.String())
		}
	}
	out.Reset()
	explain(&out, file, measured, nil)
	if out.Len() > 0 {
		t.Errorf("a run within the budget is explained: %s", out.String())
	}
}
