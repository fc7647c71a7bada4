package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"waybill.dev/cmd/lab/internal/load"
)

// report is what a run found.
type report struct {
	Started time.Time `json:"started"`
	Machine string    `json:"machine"`
	Cores   int       `json:"cores"`
	Go      string    `json:"go"`
	Commit  string    `json:"commit,omitempty"` // of results that go into a page
	Command string    `json:"command"`
	root    string
	// What was set.
	Seconds     float64 `json:"publishSeconds"`
	Size        int     `json:"eventBytes"`
	Dispatchers int     `json:"dispatchers"`
	Postgres    string  `json:"postgres"`
	Receiver    string  `json:"receiver"`

	Bare    []*result `json:"bareLoop"`
	Results []*result `json:"results"`
	Growth  []*growth `json:"growth,omitempty"`
}

// result is what a scenario found.
type result struct {
	Scenario string `json:"scenario"`
	Form     string `json:"form,omitempty"`
	What     string `json:"what"`
	figures
	Faults  []string `json:"faults"`
	Seconds float64  `json:"seconds"`

	paced bool // published at a fixed rate: the rate of deliveries says nothing
}

func newReport(b *bench) *report {
	receiver := load.KindReceiver
	if b.netHTTP {
		receiver = load.KindNetReceiver
	}
	return &report{
		Started: time.Now().UTC().Truncate(time.Second), Machine: machine(), Cores: runtime.NumCPU(), Go: runtime.Version(),
		Command: "`make bench ARGS='" + strings.Join(os.Args[1:], " ") + "'`",
		Seconds: b.duration.Seconds(), Size: b.size, Dispatchers: b.dispatchers, Postgres: b.postgres, Receiver: receiver,
		Results: []*result{},
	}
}

// machine names the processor.
func machine() string {
	text, err := os.ReadFile("/proc/cpuinfo")
	if err != nil {
		return runtime.GOARCH
	}
	for line := range strings.Lines(string(text)) {
		if name, value, ok := strings.Cut(line, ":"); ok && strings.TrimSpace(name) == "model name" {
			return strings.TrimSpace(value)
		}
	}
	return runtime.GOARCH
}

func (r *result) fail(format string, args ...any) {
	r.Faults = append(r.Faults, fmt.Sprintf(format, args...))
}

// compare sets each result beside the bare loop.
func (r *report) compare() {
	bare := 0.0
	for _, b := range r.Bare {
		bare += b.Delivered / float64(len(r.Bare))
	}
	for _, one := range r.Results {
		if bare > 0 && !one.paced {
			one.Ratio = one.Delivered / bare
		}
	}
}

// good reports whether nothing was lost, repeated or failed.
func (r *report) good() bool {
	bad := func(one *result) bool { return len(one.Faults) > 0 }
	return !slices.ContainsFunc(r.Bare, bad) && !slices.ContainsFunc(r.Results, bad) &&
		!slices.ContainsFunc(r.Growth, func(g *growth) bool { return len(g.Faults) > 0 })
}

// print writes a result.
func (r *result) print(out io.Writer) {
	fmt.Fprintf(out, "%s, %s: %s (%.0f s)\n", r.Scenario, r.Form, r.What, r.Seconds)
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	row := func(name, value string) {
		fmt.Fprintf(table, "  %s\t%s\n", name, value)
	}
	row("accepted/s", grouped(r.Accepted))
	row("delivered/s", grouped(r.Delivered))
	if r.Ratio > 0 {
		row("ratio to the bare loop", number(r.Ratio))
	}
	if r.Publish.Count > 0 {
		row("answered after", fmt.Sprintf("p50 %s, p99 %s ms", number(r.Publish.P50), number(r.Publish.P99)))
	}
	row("p50 ms", number(r.Latency.P50))
	row("p99 ms", number(r.Latency.P99))
	row("p99.9 ms", number(r.Latency.P999))
	row("CPU ms for 1000 deliveries", number(r.CPUSum)+"\t"+listed(r.CPU)+"; beside: "+listed(r.Beside))
	row("peak memory MB", number(r.MemorySum)+"\t"+listed(r.Memory))
	row("lost, repeated", fmt.Sprintf("%d, %d\tof %d deliveries of %d events", r.Lost, r.Repeated, r.Deliveries, r.Events))
	_ = table.Flush()
	for _, fault := range r.Faults {
		fmt.Fprintf(out, "  ! %s\n", fault)
	}
}

// listed writes a figure of each process.
func listed(by map[string]float64) string {
	var list []string
	for _, name := range order(by) {
		list = append(list, name+" "+number(by[name]))
	}
	return strings.Join(list, ", ")
}

// table writes all results, a line each.
func (r *report) table(out io.Writer) {
	fmt.Fprintln(out)
	columns(out, r.rows())
}

// columns writes rows below each other.
func columns(out io.Writer, rows [][]string) {
	table := tabwriter.NewWriter(out, 0, 8, 2, ' ', 0)
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush()
}

// rows are the table of scenarios, its head first.
func (r *report) rows() [][]string {
	rows := [][]string{{
		"scenario", "form", "accepted/s", "delivered/s", "ratio", "p50 ms", "p99 ms", "p99.9 ms",
		"CPU ms/1000", "peak MB", "lost", "repeated", "",
	}}
	for _, one := range slices.Concat(r.Bare, r.Results) {
		cpu, memory, ratio := number(one.CPUSum), number(one.MemorySum), number(one.Ratio)
		if one.paced {
			ratio = "–"
		}
		if one.Form == "" {
			cpu, memory, ratio = number(one.Beside[load.KindLoop]), "–", "1"
		}
		rows = append(rows, []string{
			one.Scenario, one.Form, grouped(one.Accepted), grouped(one.Delivered), ratio,
			number(one.Latency.P50), number(one.Latency.P99), number(one.Latency.P999),
			cpu, memory, strconv.FormatInt(one.Lost, 10), strconv.FormatInt(one.Repeated, 10), one.verdict(),
		})
	}
	return rows
}

// verdict says whether a run counts.
func (r *result) verdict() string {
	if len(r.Faults) > 0 {
		return "FAILED"
	}
	return ""
}

// write writes the files that were asked for.
func (r *report) write(o options) error {
	if o.json != "" {
		text, err := json.MarshalIndent(r, "", "  ")
		if err != nil {
			return fmt.Errorf("encode results: %w", err)
		}
		if err := os.WriteFile(o.json, append(text, '\n'), 0o644); err != nil {
			return fmt.Errorf("write results: %w", err)
		}
	}
	if o.markdown == "" {
		return nil
	}
	return r.writeMarkdown(o.markdown)
}

// number writes three digits at least, and no zeros that say nothing.
func number(x float64) string {
	switch {
	case x >= 1000:
		return grouped(x)
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	case x >= 10:
		return strings.TrimSuffix(strconv.FormatFloat(x, 'f', 1, 64), ".0")
	}
	return strings.TrimSuffix(strings.TrimRight(strconv.FormatFloat(x, 'f', 2, 64), "0"), ".")
}

// grouped writes a whole number with its thousands apart.
func grouped(x float64) string {
	digits := strconv.FormatFloat(x, 'f', 0, 64)
	for i := len(digits) - 3; i > 0; i -= 3 {
		digits = digits[:i] + "," + digits[i:]
	}
	return digits
}
