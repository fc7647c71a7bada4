package main

import (
	"bytes"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/bench/internal/budget"
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

// What happens without an event is not an event's, and what is next to nothing is nothing.
func TestPerEvent(t *testing.T) {
	t.Parallel()
	at := time.Now()
	reading := func(seconds int, messages, calls, few float64) counting {
		return counting{at.Add(time.Duration(seconds) * time.Second), []count{{"messages", messages}, {"calls", calls}, {"few", few}}}
	}
	got := perEvent(reading(0, 5, 100, 0), reading(4, 5, 140, 0), reading(12, 5+countEvents, 140+2*countEvents+80, 1))
	if len(got) != 2 || got[0].Name != alone+"messages" || got[0].Value != 1 || got[1].Value != 2 {
		t.Errorf("for one event: %+v", got)
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
		Scenario: "rest-1", Form: formSplit, Figures: []budget.Figure{{Name: costCPU, Value: 5, Within: 8, Commit: "01234567", Why: "the reason"}},
		Stages: []budget.Stage{{Process: "api", Package: "accept", Value: 1}},
	}}}
	measured := []budget.Cost{{
		Scenario: "rest-1", Form: formSplit, Figures: []budget.Figure{{Name: costCPU, Value: 6}},
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
