// Package chart draws lines as an SVG that needs no other file: no script, no font,
// no style sheet. It is as readable on a dark page as on a light one.
package chart

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
)

// Chart is panels below each other that share their x axis.
type Chart struct {
	Title  string
	X      string
	Panels []Panel
}

// Panel is lines on one y axis, which begins at 0.
type Panel struct {
	Y     string
	Lines []Line
}

// Line is a named line through points.
type Line struct {
	Name   string
	Points []Point
}

// Point is one measurement. X is above 0, or 0 for «none», which is drawn left of all
// others: the x axis is logarithmic.
type Point struct{ X, Y float64 }

const (
	width, panelHeight    = 640.0, 210.0
	left, right           = 70.0, 150.0 // for the scale and the legend
	top, gap, bottom      = 56.0, 40.0, 50.0
	plotWidth, plotHeight = width - left - right, panelHeight - gap
)

// colours distinguish lines for people who see colours and for those who don't (Okabe and
// Ito); none is lost on white or on black.
func colours() []string {
	return []string{"#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9"}
}

// SVG returns the picture.
func (c Chart) SVG() []byte {
	height := top + float64(len(c.Panels))*panelHeight + bottom
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %g %g" width="%g" height="%g" font-family="sans-serif" font-size="12" role="img">`+"\n",
		width, height, width, height)
	fmt.Fprintf(&b, "<title>%s</title>\n", escape(c.Title))
	fmt.Fprintf(&b, `<rect width="%g" height="%g" fill="#fff"/>`+"\n", width, height)
	text(&b, left, top-32, "start", "bold", c.Title)
	xs := c.xs()
	for i, p := range c.Panels {
		p.draw(&b, xs, top+float64(i)*panelHeight)
	}
	base := top + float64(len(c.Panels))*panelHeight - gap
	for _, x := range xs {
		text(&b, place(x, xs), base+18, "middle", "normal", short(x))
	}
	text(&b, left+plotWidth/2, base+38, "middle", "normal", c.X)
	b.WriteString("</svg>\n")
	return []byte(b.String())
}

// xs are the places at which anything was measured, each once.
func (c Chart) xs() []float64 {
	var xs []float64
	for _, p := range c.Panels {
		for _, l := range p.Lines {
			for _, point := range l.Points {
				xs = append(xs, point.X)
			}
		}
	}
	slices.Sort(xs)
	return slices.Compact(xs)
}

// draw draws a panel whose upper edge is at y.
func (p Panel) draw(b *strings.Builder, xs []float64, y float64) {
	step := p.step()
	most := step
	for _, l := range p.Lines {
		for _, point := range l.Points {
			most = max(most, math.Ceil(point.Y/step)*step)
		}
	}
	height := func(value float64) float64 { return y + plotHeight*(1-value/most) }
	for value := 0.0; value <= most+step/2; value += step {
		fmt.Fprintf(b, `<line x1="%g" y1="%.1f" x2="%g" y2="%.1f" stroke="#ccc"/>`+"\n", left, height(value), left+plotWidth, height(value))
		text(b, left-6, height(value)+4, "end", "normal", short(value))
	}
	text(b, left, y-6, "start", "normal", p.Y)
	for i, l := range p.Lines {
		colour := colours()[i%len(colours())]
		var path []string
		for _, point := range l.Points {
			at := fmt.Sprintf("%.1f,%.1f", place(point.X, xs), height(point.Y))
			path = append(path, at)
			fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="3" fill="%s"><title>%s: %s at %s</title></circle>`+"\n",
				place(point.X, xs), height(point.Y), colour, escape(l.Name), number(point.Y), short(point.X))
		}
		fmt.Fprintf(b, `<polyline points="%s" fill="none" stroke="%s" stroke-width="2"/>`+"\n", strings.Join(path, " "), colour)
		fmt.Fprintf(b, `<rect x="%g" y="%g" width="10" height="10" fill="%s"/>`+"\n", left+plotWidth+12, y+float64(i)*18, colour)
		text(b, left+plotWidth+27, y+float64(i)*18+9, "start", "normal", l.Name)
	}
}

// step is the distance of the lines behind a panel: 1, 2 or 5 times a power of ten, so
// that there are three to eight.
func (p Panel) step() float64 {
	most := 0.0
	for _, l := range p.Lines {
		for _, point := range l.Points {
			most = max(most, point.Y)
		}
	}
	if most == 0 {
		return 1
	}
	step := math.Pow(10, math.Floor(math.Log10(most)))
	for _, part := range []float64{5, 2, 1} {
		if most/(step/part) <= 8 {
			return step / part
		}
	}
	return step
}

// place is where a number stands on the x axis: by its logarithm, «none» one power of
// ten before the first.
func place(x float64, xs []float64) float64 {
	log := func(x float64) float64 {
		if x > 0 {
			return math.Log10(x)
		}
		if i := slices.IndexFunc(xs, func(x float64) bool { return x > 0 }); i >= 0 {
			return math.Log10(xs[i]) - 1
		}
		return 0
	}
	first, last := log(xs[0]), log(xs[len(xs)-1])
	if first == last {
		return left + plotWidth/2
	}
	return left + plotWidth*(log(x)-first)/(last-first)
}

func text(b *strings.Builder, x, y float64, anchor, weight, words string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-weight="%s" fill="#222">%s</text>`+"\n", x, y, anchor, weight, escape(words))
}

func escape(words string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(words)) // a Builder takes everything
	return b.String()
}

// short writes a number as on an axis: 20k, 1M.
func short(x float64) string {
	for _, unit := range []struct {
		size float64
		name string
	}{{1e6, "M"}, {1e3, "k"}} {
		if x >= unit.size {
			return number(x/unit.size) + unit.name
		}
	}
	return number(x)
}

// number writes three digits at least, and no zeros that say nothing.
func number(x float64) string {
	if x >= 100 {
		return strconv.FormatFloat(math.Round(x), 'f', -1, 64)
	}
	return strconv.FormatFloat(math.Round(x*100)/100, 'f', -1, 64)
}
