package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"waybill.dev/cmd/lab/bench/internal/chart"
)

// axis is something that grows, while the cost of a delivery should not.
type axis struct {
	name   string
	what   string
	x      string // what is counted
	points []int
	// split says that there is nothing to grow in the other form.
	split bool
	// fresh says that each point has a stack of its own.
	fresh bool
	// open prepares a stack for the axis.
	open func(ctx context.Context, r *rig) (grower, error)
	// whole is a run that has its own figures instead.
	whole func(ctx context.Context, r *rig, n int, g *growth) error
	// alone is a run that starts what it needs itself.
	alone func(ctx context.Context, b *bench, n int, g *growth) error
}

// grower brings a stack from one point of an axis to the next.
type grower struct {
	grow func(ctx context.Context, from, to int) error
	// phase is what is measured at a point.
	phase func(n int) phase
}

// growth is what was measured along an axis.
type growth struct {
	Axis     string    `json:"axis"`
	Form     string    `json:"form"`
	What     string    `json:"what"`
	X        string    `json:"x"`
	Points   []point   `json:"points"`
	Verdicts []verdict `json:"verdicts"`
	Faults   []string  `json:"faults"`

	plot     string // file; empty: none
	requests bool   // its figures are of requests, and nothing is delivered
}

// point is what was measured at one number.
type point struct {
	At   int    `json:"at"`
	What string `json:"what,omitempty"` // of a run that has several phases
	figures
}

func (g *growth) fail(format string, args ...any) {
	g.Faults = append(g.Faults, fmt.Sprintf(format, args...))
}

// name is the axis, with the form when it is not the usual one.
func (g *growth) name() string {
	if g.Form == formSplit {
		return g.Axis
	}
	return g.Axis + "-" + g.Form
}

func axisNames() []string {
	var names []string
	for _, a := range axes() {
		names = append(names, a.name)
	}
	return names
}

// grow measures along each axis in each form; without a form it is the split one.
func (b *bench) grow(ctx context.Context, r *report, grown []axis, forms []string, out io.Writer) error {
	if b.form == "" {
		forms = []string{formSplit}
	}
	for _, form := range forms {
		for _, a := range grown {
			if a.split && form != formSplit {
				continue
			}
			b.say("%s %s: %s", form, a.name, a.what)
			g := &growth{Axis: a.name, Form: form, What: a.what, X: a.x, Verdicts: []verdict{}, Faults: []string{}}
			r.Growth = append(r.Growth, g)
			if err := b.along(ctx, a, g); err != nil {
				g.fail("could not be run to its end: %v", err)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
			g.print(out)
			if err := g.draw(b.svg); err != nil {
				return err
			}
		}
	}
	return nil
}

// along measures along one axis.
func (b *bench) along(ctx context.Context, a axis, g *growth) error {
	points := b.points(a)
	if a.alone != nil {
		return a.alone(ctx, b, points[0], g)
	}
	if !a.fresh {
		return b.through(ctx, a, g, b.dispatchers, points)
	}
	for _, n := range points {
		if err := b.through(ctx, a, g, n, []int{n}); err != nil {
			return err
		}
	}
	return nil
}

// through measures points in one stack.
func (b *bench) through(ctx context.Context, a axis, g *growth, dispatchers int, points []int) (err error) {
	r, err := b.open(ctx, a.name, g.Form, dispatchers)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, r.close()) }()
	if a.whole != nil {
		return a.whole(ctx, r, points[0], g)
	}
	grown, err := a.open(ctx, r)
	if err != nil {
		return err
	}
	at := 0
	for _, n := range points {
		b.say("  %s: %s", a.x, grouped(float64(n)))
		if err := grown.grow(ctx, at, n); err != nil {
			return fmt.Errorf("grow to %d: %w", n, err)
		}
		at = n
		if err := r.point(ctx, n, grown.phase(n), g); err != nil {
			return err
		}
	}
	return nil
}

// points are those of an axis that this run goes to.
func (b *bench) points(a axis) []int {
	points := a.points
	if b.most > 0 {
		points = slices.DeleteFunc(slices.Clone(points), func(n int) bool { return n > b.most })
		if a.whole != nil || a.alone != nil {
			points = []int{min(b.most, a.points[0])}
		}
	}
	if b.quick && a.whole == nil {
		points = points[:min(2, len(points))]
	}
	return points
}

// point measures at one point, when what has grown has come to rest.
func (r *rig) point(ctx context.Context, n int, p phase, g *growth) error {
	if _, err := r.awaitQuiet(ctx); err != nil {
		return err
	}
	if err := r.warm(ctx, p); err != nil {
		return fmt.Errorf("warm up: %w", err)
	}
	f, faults, err := r.measure(ctx, p)
	if err != nil {
		return err
	}
	r.say("    %s deliveries/s, %s ms CPU for 1000", grouped(f.Delivered), number(f.CPUSum))
	g.Points = append(g.Points, point{At: n, figures: f})
	for _, fault := range faults {
		g.fail("%s %d: %s", g.X, n, fault)
	}
	return nil
}

func (g *growth) rows() [][]string {
	if g.requests {
		rows := [][]string{{g.X, "requests/s", "p50 ms", "p99 ms", "CPU ms/1000", "peak MB"}}
		for _, p := range g.Points {
			rows = append(rows, []string{
				grouped(float64(p.At)) + ": " + p.What, grouped(p.Delivered), number(p.Latency.P50), number(p.Latency.P99), number(p.CPUSum), number(p.MemorySum),
			})
		}
		return rows
	}
	rows := [][]string{{g.X, "accepted/s", "delivered/s", "p50 ms", "p99 ms", "CPU ms/1000", "of these", "peak MB", "of these", "lost", "repeated"}}
	for _, p := range g.Points {
		at := grouped(float64(p.At))
		if p.What != "" {
			at += ": " + p.What
		}
		accepted, cpu := grouped(p.Accepted), number(p.CPUSum)
		if len(p.CPU) == 0 { // not measured: others' work was in it
			accepted, cpu = "–", "–"
		}
		rows = append(rows, []string{
			at, accepted, grouped(p.Delivered), number(p.Latency.P50), number(p.Latency.P99),
			cpu, listed(p.CPU), number(p.MemorySum), listed(p.Memory), number(float64(p.Lost)), number(float64(p.Repeated)),
		})
	}
	return rows
}

func (g *growth) print(out io.Writer) {
	fmt.Fprintf(out, "\n%s, %s: %s\n", g.Axis, g.Form, g.What)
	columns(out, g.rows())
	for _, v := range g.Verdicts {
		fmt.Fprintf(out, "  %s: %s, %s\n", v.Figure, number(v.Got), v)
	}
	for _, fault := range g.Faults {
		fmt.Fprintf(out, "  ! %s\n", fault)
	}
}

// markdown returns the link to the plot and the tables, as Markdown for a page that is stored in dir.
func (g *growth) markdown(dir string) string {
	var b strings.Builder
	if from, err := filepath.Abs(dir); err == nil && g.plot != "" {
		if path, err := filepath.Rel(from, g.plot); err == nil {
			fmt.Fprintf(&b, "![%s](%s)\n\n", g.What, filepath.ToSlash(path))
		}
	}
	b.WriteString(table(g.rows()))
	if len(g.Verdicts) > 0 {
		b.WriteString("\n")
		rows := [][]string{{"figure", "measured", "target"}}
		for _, v := range g.Verdicts {
			rows = append(rows, []string{v.Figure, number(v.Got), v.String()})
		}
		b.WriteString(table(rows))
	}
	return b.String()
}

// draw writes the plot into dir. draw does nothing when dir is empty or there is nothing to plot.
func (g *growth) draw(dir string) error {
	if dir == "" || len(g.Points) == 0 || g.Points[0].What != "" {
		return nil
	}
	cpu := make(map[string][]chart.Point)
	var sum, rate, memory []chart.Point
	for _, p := range g.Points {
		x := float64(p.At)
		for name, ms := range p.CPU {
			cpu[name] = append(cpu[name], chart.Point{X: x, Y: ms})
		}
		sum = append(sum, chart.Point{X: x, Y: p.CPUSum})
		rate = append(rate, chart.Point{X: x, Y: p.Delivered})
		memory = append(memory, chart.Point{X: x, Y: p.MemorySum})
	}
	lines := []chart.Line{{Name: "all", Points: sum}}
	if len(cpu) > 1 {
		for _, name := range slices.Sorted(maps.Keys(cpu)) {
			lines = append(lines, chart.Line{Name: name, Points: cpu[name]})
		}
	}
	c := chart.Chart{
		Title: g.What, X: g.X,
		Panels: []chart.Panel{
			{Y: "ms CPU for 1000 deliveries", Lines: lines},
			{Y: "deliveries/s", Lines: []chart.Line{{Name: "all", Points: rate}}},
			{Y: "peak memory, MB", Lines: []chart.Line{{Name: "all", Points: memory}}},
		},
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("make the folder of plots: %w", err)
	}
	file, err := filepath.Abs(filepath.Join(dir, g.name()+".svg"))
	if err != nil {
		return fmt.Errorf("place a plot: %w", err)
	}
	if err := os.WriteFile(file, c.SVG(), 0o644); err != nil {
		return fmt.Errorf("write a plot: %w", err)
	}
	g.plot = file
	return nil
}
