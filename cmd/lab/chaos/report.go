package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
)

// report is what a scenario found.
type report struct {
	Name    string             `json:"name"`
	What    string             `json:"what"`
	Faults  []string           `json:"faults"`
	Figures map[string]float64 `json:"figures"`
	Seconds float64            `json:"seconds"`

	order []string // of the figures
}

func newReport(s scenario) *report {
	return &report{Name: s.name, What: s.what, Faults: []string{}, Figures: make(map[string]float64)}
}

// fail notes what must not be.
func (r *report) fail(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// must notes a fault unless ok.
func (r *report) must(ok bool, format string, args ...any) {
	if !ok {
		r.fail(format, args...)
	}
}

// figure notes a number.
func (r *report) figure(name string, value float64) {
	if !slices.Contains(r.order, name) {
		r.order = append(r.order, name)
	}
	r.Figures[name] = value
}

func (r *report) verdict() string {
	if len(r.Faults) > 0 {
		return "FAIL"
	}
	return "pass"
}

func (r *report) print(out io.Writer) {
	fmt.Fprintf(out, "%s  %s (%.0f s)\n", r.verdict(), r.Name, r.Seconds)
	for _, name := range r.order {
		fmt.Fprintf(out, "      %-44s %s\n", name, number(r.Figures[name]))
	}
	for _, fault := range r.Faults {
		fmt.Fprintf(out, "   !  %s\n", fault)
	}
}

func number(f float64) string {
	return strings.TrimSuffix(strings.TrimRight(fmt.Sprintf("%.2f", f), "0"), ".")
}

func printTable(out io.Writer, reports []*report) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	fmt.Fprintln(table, "\nSCENARIO\tVERDICT\tROUNDS\tREST EVENTS\tLOST\tNATS EVENTS\tLOST\tREPEATS\tPOSTS - RECORDED")
	for _, r := range reports {
		cells := []string{r.Name, r.verdict()}
		for _, name := range []string{figureRounds, figureREST, figureLostREST, figureBus, figureLostBus, figureRepeats, figureUnrecorded} {
			cell := "-"
			if value, ok := r.Figures[name]; ok {
				cell = number(value)
			}
			cells = append(cells, cell)
		}
		fmt.Fprintln(table, strings.Join(cells, "\t"))
	}
	_ = table.Flush()
}

// The figures that the table shows.
const (
	figureRounds     = "rounds"
	figureREST       = "events accepted over REST"
	figureLostREST   = "of these lost at any receiver"
	figureBus        = "events acknowledged on NATS"
	figureLostBus    = "of those lost at any receiver"
	figureRepeats    = "repeated POSTs"
	figureUnrecorded = "POSTs not in the attempt log"
)
