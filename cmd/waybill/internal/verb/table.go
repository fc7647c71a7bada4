package verb

import (
	"io"
	"math"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"waybill.dev/cmd/internal/terminal"
)

const (
	gap = 2 // between columns
	// least is the minimum width of a column that can shrink.
	least = 10
)

// grid is a table before it is printed.
type grid struct {
	columns []Column
	cells   [][]string // without the titles
	widths  []int
}

// printRows prints a table. Ids and names are complete; other text is cut, so that lines fit into
// width.
func printRows(w io.Writer, columns []Column, rows []members, width int) {
	if len(rows) == 0 {
		return
	}
	g := &grid{}
	for _, c := range columns {
		has := func(row members) bool { value, ok := c.value(row); return ok && (value != nil || !c.Rare) }
		if !c.Wide && (c.Null != "" || slices.ContainsFunc(rows, has)) {
			g.columns = append(g.columns, c)
		}
	}
	for _, row := range rows {
		var cells []string
		for _, c := range g.columns {
			cells = append(cells, c.cell(row, width))
		}
		g.cells = append(g.cells, cells)
	}
	if width != math.MaxInt {
		g.shorten()
	}
	g.measure()
	g.drop(width)
	g.shrink(width)
	g.write(w)
}

// cell returns the value in the form of a table. If the width is unlimited, the value is complete.
func (c Column) cell(row members, width int) string {
	if value, ok := c.value(row); ok && value != nil && width != math.MaxInt {
		return terminal.Clean(c.Form.short(value, time.Now()))
	}
	return c.text(row)
}

// shorten cuts the ids of each column.
func (g *grid) shorten() {
	for i, c := range g.columns {
		if c.Form != Ident {
			continue
		}
		ids := make([]string, len(g.cells))
		for n, cells := range g.cells {
			ids[n] = cells[i]
		}
		shorten(ids)
		for n, cells := range g.cells {
			cells[i] = ids[n]
		}
	}
}

func (g *grid) measure() {
	for i, c := range g.columns {
		width := len(c.Title)
		for _, cells := range g.cells {
			width = max(width, utf8.RuneCountInString(cells[i]))
		}
		g.widths = append(g.widths, width)
	}
}

// floor returns the minimum width of column i.
func (g *grid) floor(i int) int {
	if !g.columns[i].Shrinks {
		return g.widths[i]
	}
	return min(g.widths[i], max(least, len(g.columns[i].Title), g.columns[i].Least))
}

// over returns by how much a line is too long when column i has width of(i).
func (g *grid) over(width int, of func(i int) int) int {
	sum := gap * (len(g.columns) - 1)
	for i := range g.columns {
		sum += of(i)
	}
	return sum - width
}

// drop removes spare columns from the right, as long as shrinking is not enough.
func (g *grid) drop(width int) {
	for i := len(g.columns) - 1; i >= 0 && g.over(width, g.floor) > 0; i-- {
		if !g.columns[i].Spare {
			continue
		}
		g.columns = slices.Delete(slices.Clone(g.columns), i, i+1)
		g.widths = slices.Delete(g.widths, i, i+1)
		for n := range g.cells {
			g.cells[n] = slices.Delete(g.cells[n], i, i+1)
		}
	}
}

// shrink narrows the widest of the columns that give way until a line fits.
func (g *grid) shrink(width int) {
	now := func(i int) int { return g.widths[i] }
	for g.over(width, now) > 0 {
		widest := g.widest()
		if widest < 0 {
			break
		}
		g.widths[widest]--
	}
	for _, cells := range g.cells {
		for i, text := range cells {
			cells[i] = g.columns[i].Form.cut(text, g.widths[i])
		}
	}
}

// widest returns the widest column that can give way; -1: none can.
func (g *grid) widest() int {
	widest := -1
	for i := range g.columns {
		if g.floor(i) < g.widths[i] && (widest < 0 || g.widths[i] > g.widths[widest]) {
			widest = i
		}
	}
	return widest
}

// cut shortens a text to width characters, including an ellipsis.
func (f Form) cut(text string, width int) string {
	whole := []rune(text)
	if len(whole) <= width {
		return text
	}
	end := 0
	if f == Link {
		end = (width - 1) / 2
	}
	return strings.TrimRight(string(whole[:width-1-end]), " ") + "…" + string(whole[len(whole)-end:])
}

func (g *grid) write(w io.Writer) {
	var titles []string
	for _, c := range g.columns {
		titles = append(titles, c.Title)
	}
	terminal.Table(w, titles, g.cells)
}
