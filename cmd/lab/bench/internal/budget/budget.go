// Package budget keeps what a delivery may cost: a file with a figure for each scenario and form, since
// which commit that is so, and why.
package budget

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"os"
	"slices"
	"strings"
)

// Cost is what a scenario costs in a form.
type Cost struct {
	Scenario string   `json:"scenario"`
	Form     string   `json:"form"`
	Figures  []Figure `json:"figures"`
	// Stages are the parts of the figure CPU: for each process its packages, the largest first.
	Stages []Stage `json:"stages"`
}

// Figure is one figure of a cost, with its budget.
type Figure struct {
	Name   string  `json:"name"`
	Value  float64 `json:"value"`
	Within float64 `json:"-"`      // percent above the budget that are no fault; the program that measures says it, not the file
	Commit string  `json:"commit"` // since which the budget is this
	Why    string  `json:"why"`
	// OfMachine: the figure depends on how fast the machine is.
	OfMachine bool `json:"-"`
}

// Stage is what one package of a process has of the CPU.
type Stage struct {
	Process string  `json:"process"`
	Package string  `json:"package"`
	Value   float64 `json:"value"`
}

// Budget is the file.
type Budget struct {
	// Processor is the one on which the figures with OfMachine were measured. On another processor they are shown, not judged.
	Processor string `json:"processor"`
	Costs     []Cost `json:"costs"`

	// Here is the processor of this machine; empty: it is not known, and everything is judged.
	Here string `json:"-"`
}

// Elsewhere reports whether the budget was measured on another processor than this one.
func (b *Budget) Elsewhere() bool { return b.Here != "" && b.Processor != "" && b.Here != b.Processor }

// Read reads the file.
func Read(file string) (*Budget, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read the budget: %w", err)
	}
	var b Budget
	if err := json.Unmarshal(text, &b); err != nil {
		return nil, fmt.Errorf("read the budget %s: %w", file, err)
	}
	return &b, nil
}

// Write writes the file.
func (b *Budget) Write(file string) error {
	text, err := json.MarshalIndent(b, "", " ")
	if err != nil {
		return fmt.Errorf("encode the budget: %w", err)
	}
	if err := os.WriteFile(file, append(text, '\n'), 0o644); err != nil {
		return fmt.Errorf("write the budget: %w", err)
	}
	return nil
}

// Verdict is a measured figure beside its budget.
type Verdict struct {
	Scenario, Form string
	Figure         // the measured value, with the commit and the reason of the budget
	Budget         float64
	None           bool // the budget does not have it, or it was not measured
}

// Percent is how much more the figure is than its budget.
func (v Verdict) Percent() float64 {
	switch {
	case v.Value == v.Budget:
		return 0
	case v.Budget == 0:
		return math.Inf(1)
	}
	return (v.Value/v.Budget - 1) * 100
}

// Over says that the figure is a fault.
func (v Verdict) Over() bool { return v.None || v.Percent() > v.Within }

// Judge compares what was measured with the budget: each figure of both.
func (b *Budget) Judge(measured []Cost) []Verdict {
	var list []Verdict
	for _, m := range measured {
		var budgeted Cost
		if c := b.find(m.Scenario, m.Form); c != nil {
			budgeted = *c
		}
		for _, f := range m.Figures {
			v := Verdict{Scenario: m.Scenario, Form: m.Form, Figure: f, None: true}
			if old := find(budgeted.Figures, f.Name); old != nil {
				v.Budget, v.None = old.Value, false
				v.Commit, v.Why = old.Commit, old.Why
				if f.OfMachine && b.Elsewhere() {
					v.Within = math.Inf(1)
				}
			}
			list = append(list, v)
		}
		for _, old := range budgeted.Figures {
			if find(m.Figures, old.Name) == nil {
				list = append(list, Verdict{Scenario: m.Scenario, Form: m.Form, Figure: Figure{Name: old.Name, Commit: old.Commit, Why: old.Why}, Budget: old.Value, None: true})
			}
		}
	}
	return list
}

// Stages returns what the budget has of a scenario's stages.
func (b *Budget) Stages(scenario, form string) []Stage {
	if c := b.find(scenario, form); c != nil {
		return c.Stages
	}
	return nil
}

// least percent that a figure must have moved for a new budget: what moves by less keeps its budget, so
// that many small steps are seen as what they add up to.
const least = 2

// Renew puts what was measured in the place of what the budget has of it.
func (b *Budget) Renew(measured []Cost, commit, why string) error {
	if strings.TrimSpace(why) == "" {
		return errors.New("a budget is renewed for a reason: say it with -reason")
	}
	for _, m := range measured {
		m.Figures = slices.Clone(m.Figures)
		old := b.find(m.Scenario, m.Form)
		for i := range m.Figures {
			f := &m.Figures[i]
			f.Commit, f.Why = commit, why
			if old == nil {
				continue
			}
			if was := find(old.Figures, f.Name); was != nil && math.Abs(Verdict{Figure: *f, Budget: was.Value}.Percent()) < least {
				f.Value, f.Commit, f.Why = was.Value, was.Commit, was.Why
			}
		}
		if old == nil {
			b.Costs = append(b.Costs, m)
			continue
		}
		*old = m
	}
	return nil
}

func (b *Budget) find(scenario, form string) *Cost {
	i := slices.IndexFunc(b.Costs, func(c Cost) bool { return c.Scenario == scenario && c.Form == form })
	if i < 0 {
		return nil
	}
	return &b.Costs[i]
}

func find(figures []Figure, name string) *Figure {
	i := slices.IndexFunc(figures, func(f Figure) bool { return f.Name == name })
	if i < 0 {
		return nil
	}
	return &figures[i]
}

// Move is a stage that costs more or less than it did.
type Move struct {
	Process, Package string
	Was, Is          float64
}

// Moves compares stages, and returns the n that moved most, those that cost more first.
func Moves(was, is []Stage, n int) []Move {
	type key struct{ process, pkg string }
	moves := make(map[key]*Move)
	at := func(s Stage) *Move {
		k := key{s.Process, s.Package}
		if moves[k] == nil {
			moves[k] = &Move{Process: s.Process, Package: s.Package}
		}
		return moves[k]
	}
	for _, s := range was {
		at(s).Was += s.Value
	}
	for _, s := range is {
		at(s).Is += s.Value
	}
	list := make([]Move, 0, len(moves))
	for _, m := range moves {
		list = append(list, *m)
	}
	slices.SortFunc(list, func(a, b Move) int {
		switch x, y := math.Abs(a.Is-a.Was), math.Abs(b.Is-b.Was); {
		case x != y && x > y:
			return -1
		case x != y:
			return 1
		}
		return strings.Compare(a.Process+" "+a.Package, b.Process+" "+b.Package)
	})
	return list[:min(n, len(list))]
}
