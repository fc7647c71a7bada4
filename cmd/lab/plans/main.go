// Command plans checks how the databases would run the product's statements if they were large: ten
// million events, a hundred thousand webhooks. It reads the statements that the tests of the product
// have recorded (shared/store/record.go), has each planned, and fails if one reads more the more there
// is, unless it is among the exceptions (allowed.go).
//
// `make plans` runs it. docs/architecture.md says what to do when it fails.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

func main() {
	folder := flag.String("statements", "", "`folder` of what the tests have recorded")
	part := flag.Bool("part", false, "not all tests have run: an exception may be for a statement that is not there")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, *folder, !*part, os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "plans:", err)
		os.Exit(1)
	}
}

// planner has a database plan a statement, and returns what it reads, and the plan as it says it.
type planner interface {
	plan(ctx context.Context, text string) ([]access, string, error)
}

func run(ctx context.Context, folder string, complete bool, out io.Writer) error {
	statements, err := read(folder)
	if err != nil {
		return err
	}
	planners, end, err := open(ctx)
	if err != nil {
		return err
	}
	wrong, unused := check(ctx, planners, statements, exceptions())
	if err := end(); err != nil {
		return err
	}
	for _, w := range wrong {
		fmt.Fprintln(out, w.String())
	}
	if !complete {
		unused = nil
	}
	for _, e := range unused {
		// A statement that only some runs have would make this one fail now and then.
		fmt.Fprintf(out, "no statement of this run needs the exception: %s\n", e)
	}
	fmt.Fprintf(out, "%d statements planned, %d with faults\n", len(statements), len(wrong))
	if len(wrong) > 0 {
		return errors.New("see docs/architecture.md, \"What statements may read\"")
	}
	return nil
}

// open opens the databases by the dialect. SQLite plans twice: as it is, and with statistics.
func open(ctx context.Context) (planners map[string][]planner, end func() error, err error) {
	folder, err := os.MkdirTemp("", "plans-")
	if err != nil {
		return nil, nil, err
	}
	ends := []func() error{func() error { return os.RemoveAll(folder) }}
	end = func() error {
		var errs []error
		for _, f := range slices.Backward(ends) {
			errs = append(errs, f())
		}
		return errors.Join(errs...)
	}
	planners = map[string][]planner{}
	for name, statistics := range map[string]bool{"plain": false, "analyzed": true} {
		p, stop, err := openSQLite(ctx, filepath.Join(folder, name), statistics)
		if err != nil {
			return nil, nil, errors.Join(err, end())
		}
		planners[sqlite], ends = append(planners[sqlite], p), append(ends, stop)
	}
	p, stop, err := openPostgres(ctx)
	if err != nil {
		return nil, nil, errors.Join(err, end())
	}
	planners[postgres], ends = []planner{p}, append(ends, stop)
	return planners, end, nil
}

// wrong is a statement with faults that no exception covers.
type wrong struct {
	statement
	faults []fault
	plans  []string
}

func (w *wrong) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s, run by %s:\n  %s\n", w.Dialect, w.By, w.Text)
	for _, f := range w.faults {
		fmt.Fprintf(&b, "  ! %s %s: %s\n", f.table, f.what, f.text)
	}
	for _, plan := range w.plans {
		fmt.Fprintf(&b, "    %s\n", strings.ReplaceAll(plan, "\n", "\n    "))
	}
	return b.String()
}

// check plans statements and returns those with faults, and the exceptions that none of them needs.
func check(ctx context.Context, planners map[string][]planner, statements []statement, allowed []exception) (faulty []wrong, unused []exception) {
	used := map[exception]bool{}
	for _, s := range statements {
		w := wrong{statement: s}
		for _, p := range planners[s.Dialect] {
			accesses, plan, err := p.plan(ctx, s.Text)
			faults := faultsOf(accesses)
			if err != nil {
				faults = []fault{{what: notPlanned, text: err.Error()}}
			}
			w.add(faults, plan, allowed, used)
		}
		if len(w.faults) > 0 {
			faulty = append(faulty, w)
		}
	}
	return faulty, slices.DeleteFunc(slices.Clone(allowed), func(e exception) bool { return used[e] })
}

// add takes the faults of one plan that no exception covers.
func (w *wrong) add(faults []fault, plan string, allowed []exception, used map[exception]bool) {
	for _, f := range faults {
		covered := false
		for _, e := range allowed {
			if e.covers(w.statement, f) {
				covered, used[e] = true, true
			}
		}
		if !covered && !slices.Contains(w.faults, f) {
			w.faults = append(w.faults, f)
		}
	}
	if len(w.faults) > 0 && !slices.Contains(w.plans, plan) {
		w.plans = append(w.plans, plan)
	}
}
