package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"waybill.dev/cmd/internal/provenance"
	"waybill.dev/cmd/lab/bench/internal/budget"
	"waybill.dev/cmd/lab/internal/load"
)

// costed is a scenario whose cost is watched. A turn has a fixed number of events, and the next turn begins when
// all of them have arrived: so a slow machine does the same work as a fast one.
type costed struct {
	scenario
	turn int // events
}

const (
	// costRounds are how often a scenario and the bare loop take turns. Turns are short, so that both meet the same
	// machine, whatever else happens there.
	costRounds = 24
	// shownRounds are the rounds on a processor where CPU is shown and not judged.
	shownRounds = 4
	// profiledRounds are enough for a new budget to have its stages.
	profiledRounds = 8
	costLoop       = 4_000 // POSTs in a turn of the bare loop
	// storedBefore events are there before anything is measured: a statement that reads all of them costs something.
	storedBefore = 50_000
)

func costedScenarios() []costed {
	turns := map[string]int{"rest-1": 1_500, "rest-10": 400, "nats-1": 2_500}
	var list []costed
	for _, s := range scenarios() {
		if turn := turns[s.name]; turn > 0 {
			list = append(list, costed{s, turn})
		}
	}
	return list
}

// The figures of a cost, and how many percent above the budget are no fault.
const (
	costCPU         = "CPU, in POSTs of the bare loop"
	costAllocations = "allocations"
	costBytes       = "bytes allocated"
	costStored      = "bytes stored"
)

// within is as wide as runs of the same code differ.
func within(figure string) float64 {
	switch figure {
	case costCPU:
		return 8
	case costStored:
		return 3
	}
	return 5
}

// watchCost measures what a delivery costs, and compares it with the budget or puts it there.
func (b *bench) watchCost(ctx context.Context, out io.Writer) (ok bool, err error) {
	chosen, err := choose(costedScenarios(), b.only, func(c costed) string { return c.name })
	if err != nil {
		return false, err
	}
	forms, err := choose([]string{formSplit, formAllInOne}, b.form, func(s string) string { return s })
	if err != nil {
		return false, err
	}
	file, err := budget.Read(b.budget)
	if err != nil {
		return false, err
	}
	file.Here = machine()
	if b.reason != "" && file.Processor != file.Here {
		if b.only != "" || b.form != "" || b.counts {
			return false, fmt.Errorf("the budget was made on another processor (%s): renew all of it", file.Processor)
		}
		file.Processor = file.Here
	}
	defer func() { err = errors.Join(err, b.close()) }()
	if err := b.prepare(ctx); err != nil {
		return false, err
	}
	measured, err := b.costForms(ctx, file, chosen, forms)
	if err != nil {
		return false, err
	}
	verdicts := file.Judge(measured)
	columns(out, costRows(verdicts))
	if b.reason != "" {
		_, commit, err := provenance.Commit(ctx)
		if err != nil {
			return false, err
		}
		if err := file.Renew(measured, commit, b.reason); err != nil {
			return false, err
		}
		return true, file.Write(b.budget)
	}
	over := slices.DeleteFunc(verdicts, func(v budget.Verdict) bool { return !v.Over() })
	explain(out, file, measured, over)
	return len(over) == 0, nil
}

// costForms counts what an event costs, and measures scenarios unless counts alone were asked for.
func (b *bench) costForms(ctx context.Context, file *budget.Budget, chosen []costed, forms []string) (measured []budget.Cost, err error) {
	if b.only == "" {
		if measured, err = b.countForms(ctx, forms); err != nil || b.counts {
			return measured, err
		}
	}
	loop, err := load.Start(ctx, load.KindLoop)
	if err != nil {
		return nil, err
	}
	defer loop.Close()
	for _, form := range forms {
		list, err := b.costForm(ctx, loop, file, chosen, form)
		if err != nil {
			return nil, err
		}
		measured = append(measured, list...)
	}
	return measured, nil
}

// costForm measures scenarios in one stack.
func (b *bench) costForm(ctx context.Context, loop *load.Child, file *budget.Budget, chosen []costed, form string) (costs []budget.Cost, err error) {
	r, err := b.open(ctx, "cost", form, 1)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	// Few at a time: none is refused, however busy the machine is.
	if err := r.fill(load.Job{Type: kindIdle, Size: storedSize, First: r.numbers(storedBefore), Events: storedBefore, Connections: 2}); err != nil {
		return nil, err
	}
	for _, c := range chosen {
		started := time.Now()
		one, err := r.costScenario(ctx, loop, file, c)
		if err != nil {
			return nil, fmt.Errorf("%s, %s: %w", c.name, form, err)
		}
		b.say("%s %s: %.0f s", form, c.name, time.Since(started).Seconds())
		costs = append(costs, one)
	}
	return costs, nil
}

// costScenario measures one scenario. When it costs too much it is measured again, with profiles, and all its turns
// count: so what happens once on the machine is no fault, and what is one comes with its stages.
func (r *rig) costScenario(ctx context.Context, loop *load.Child, file *budget.Budget, c costed) (budget.Cost, error) {
	one := budget.Cost{Scenario: c.name, Form: r.form}
	t, err := r.turner(ctx, loop, c)
	if err != nil {
		return one, err
	}
	started := time.Now()
	rounds := costRounds
	if file.Elsewhere() {
		rounds = shownRounds
	}
	if err := t.rounds(ctx, rounds); err != nil {
		return one, err
	}
	turn := time.Since(started) / time.Duration(rounds)
	one.Figures = t.figures()
	again := 0
	if slices.ContainsFunc(file.Judge([]budget.Cost{one}), budget.Verdict.Over) {
		again = costRounds
	}
	if r.reason != "" {
		again = profiledRounds
	}
	if again > 0 {
		if one.Stages, err = t.profiled(ctx, again, turn*time.Duration(again)); err != nil {
			return one, err
		}
		one.Figures = t.figures()
	}
	return one, r.remove(ctx, t.hooks)
}
