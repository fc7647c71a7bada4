package console

import (
	"fmt"
	"strings"
	"time"

	"waybill.dev/shared/look"
)

// Bars is a bar chart of counts over time, for the template "bars". Each bar is a step, with the
// failed count on top of the successful one. A table below shows the same numbers.
type Bars struct {
	Label  string // "Attempts in the last 24 hours"
	Good   string // name of the lower part: "succeeded"
	Bad    string // name of the upper part: "failed"
	Points []Point
}

// Point is one step of a chart.
type Point struct {
	Start     time.Time
	Good, Bad int
}

// The size of a chart in its own units; the browser scales it.
const (
	chartHeight = 100.0
	barWidth    = 10.0
	barGap      = 2.0
)

// Marks returns how long ago the beginning, the middle and the end of the chart are.
func (b Bars) Marks() []string {
	if len(b.Points) < 2 {
		return nil
	}
	all := time.Duration(len(b.Points)) * b.Points[1].Start.Sub(b.Points[0].Start)
	return []string{ago(all), ago(all / 2), "now"}
}

func ago(d time.Duration) string {
	switch {
	case d >= 48*time.Hour:
		return length(d.Hours()/24) + " d ago"
	case d >= time.Hour:
		return length(d.Hours()) + " h ago"
	}
	return length(d.Minutes()) + " min ago"
}

// Bar is the drawing of a bar.
type Bar struct {
	Title           string
	X, GoodY, GoodH string
	BadY, BadH, W   string
	HasGood, HasBad bool
	At, Step        string // position of the area that reacts to the pointer
}

func length(v float64) string { return strings.TrimSuffix(fmt.Sprintf("%.1f", v), ".0") }

// Max returns the height of the highest bar; 0: there is nothing.
func (b Bars) Max() int {
	highest := 0
	for _, p := range b.Points {
		highest = max(highest, p.Good+p.Bad)
	}
	return highest
}

// Total returns the sum of all points.
func (b Bars) Total() Point {
	var sum Point
	for _, p := range b.Points {
		sum.Good += p.Good
		sum.Bad += p.Bad
	}
	return sum
}

// ViewBox returns the viewBox of the SVG element.
func (b Bars) ViewBox() string {
	return fmt.Sprintf("0 0 %s %s", length(float64(max(1, len(b.Points)))*(barWidth+barGap)), length(chartHeight))
}

// Bars returns the bars to draw. A count above 0 is at least a thin line.
func (b Bars) Bars() []Bar {
	highest := float64(max(1, b.Max()))
	list := make([]Bar, len(b.Points))
	height := func(n int) float64 {
		if n == 0 {
			return 0
		}
		return max(2, float64(n)/highest*chartHeight)
	}
	for i, p := range b.Points {
		good, bad := height(p.Good), height(p.Bad)
		if over := good + bad - chartHeight; over > 0 {
			good -= min(over, good)
		}
		list[i] = Bar{
			Title: fmt.Sprintf("%s: %s %s, %s %s", look.Clock(p.Start), Number(p.Good), b.Good, Number(p.Bad), b.Bad),
			X:     length(float64(i)*(barWidth+barGap) + barGap/2), W: length(barWidth), At: length(float64(i) * (barWidth + barGap)), Step: length(barWidth + barGap),
			GoodY: length(chartHeight - good), GoodH: length(good), BadY: length(chartHeight - good - bad), BadH: length(bad),
			HasGood: p.Good > 0, HasBad: p.Bad > 0,
		}
	}
	return list
}

// Line is a small chart of one figure, for the template "spark".
type Line struct {
	Label  string // for people who can't see the chart: "attempts an hour, the last 24 hours"
	Values []float64
}

// The size of a small chart.
const (
	sparkWidth  = 96.0
	sparkHeight = 24.0
)

// Points returns the points of the line for SVG.
func (l Line) Points() string {
	highest := 0.0
	for _, v := range l.Values {
		highest = max(highest, v)
	}
	if highest == 0 || len(l.Values) < 2 {
		return fmt.Sprintf("0,%s %s,%s", length(sparkHeight-1), length(sparkWidth), length(sparkHeight-1))
	}
	points := make([]string, len(l.Values))
	for i, v := range l.Values {
		x := float64(i) / float64(len(l.Values)-1) * sparkWidth
		points[i] = length(x) + "," + length(sparkHeight-1-v/highest*(sparkHeight-2))
	}
	return strings.Join(points, " ")
}
