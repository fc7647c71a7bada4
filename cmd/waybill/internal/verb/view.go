package verb

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"waybill.dev/cmd/internal/terminal"
)

// View says how answers are printed for people. A list becomes a table; a single thing has a line
// for each member, with the lists inside it below.
type View struct {
	None    string // printed when a list is empty
	Columns []Column
	Parts   []Part
	Rows    string // member that has the list; empty: data
	// Tell writes a single thing in sentences instead, for people.
	Tell func(w io.Writer, thing map[string]any, width int)
}

// Part is a list inside a single thing.
type Part struct {
	Title, Member string
	Columns       []Column
}

// Column is a member of a thing.
type Column struct {
	Title  string
	Member string // with dots for nested members
	Form   Form
	Null   string // printed for null, and for a missing member
	Wide   bool   // shown of a single thing only
	// Shrinks: a value is cut off when the line would be too long. Spare: the column is
	// left out when cutting is not enough.
	Shrinks, Spare bool
	Least          int // minimum width; 0: 10
	// Rare: the column is left out of a list if all its values are null.
	Rare bool
}

// Page says which part of a list an answer was.
type Page struct {
	List                 bool
	Shown, Offset, Total int // Total 0: not known
	NextCursor           string
}

type members = map[string]any

// Print writes an answer for a person within columns of width; math.MaxInt: nothing is cut.
// more may put further members into the rows of a list.
func (v View) Print(w io.Writer, answer []byte, width int, more func([]map[string]any)) (Page, error) {
	tree, err := decode(answer)
	if err != nil {
		return Page{}, fmt.Errorf("read answer: %w", err)
	}
	rows, list := v.list(tree)
	if !list {
		thing, ok := tree.(members)
		if !ok {
			return Page{}, fmt.Errorf("read answer: neither an object nor a list")
		}
		if v.Tell != nil {
			v.Tell(w, thing, width)
			return Page{}, nil
		}
		v.printOne(w, thing, width)
		return Page{}, nil
	}
	if more != nil && len(rows) > 0 {
		more(rows)
	}
	printRows(w, v.Columns, rows, width)
	return pageOf(tree, len(rows)), nil
}

func decode(text []byte) (any, error) {
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber()
	var tree any
	err := decoder.Decode(&tree)
	return tree, err
}

// list returns the things of a list; ok is false when the answer is a single thing. A text in a list
// is a thing with the member value.
func (v View) list(tree any) (rows []members, ok bool) {
	name := cmp.Or(v.Rows, "data")
	if thing, isThing := tree.(members); isThing {
		tree = thing[name]
	}
	list, ok := tree.([]any)
	if !ok {
		return nil, false
	}
	for _, one := range list {
		switch one := one.(type) {
		case members:
			rows = append(rows, one)
		case string:
			rows = append(rows, members{"value": one})
		}
	}
	return rows, true
}

// lineWidth is the maximum width of lists in a single thing.
const lineWidth = 80

func (v View) printOne(w io.Writer, thing members, width int) {
	var shown []Column
	name := 0
	for _, c := range v.Columns {
		_, there := c.value(thing)
		if c.Form != Count && (there || c.Null != "") { // members that lists only count are parts here
			shown = append(shown, c)
			name = max(name, len(c.Title))
		}
	}
	indent := "\n" + strings.Repeat(" ", name+gap)
	for _, c := range shown {
		lines := c.Form.wrap(c.text(thing)+c.beside(thing, width), min(width, lineWidth)-name-gap)
		fmt.Fprintf(w, "%-*s  %s\n", name, c.Title, strings.Join(lines, indent))
	}
	for _, part := range v.Parts {
		list, _ := thing[part.Member].([]any)
		rows, _ := View{}.list(list)
		if len(rows) > 0 {
			fmt.Fprintf(w, "\n%s\n", part.Title)
			printRows(w, part.Columns, rows, width)
		}
	}
}

// value returns the member; ok is false when it is missing.
func (c Column) value(thing members) (value any, ok bool) {
	value = thing
	for name := range strings.SplitSeq(c.Member, ".") {
		inner, isThing := value.(members)
		if !isThing {
			return nil, false
		}
		if value, ok = inner[name]; !ok {
			return nil, false
		}
	}
	return value, true
}

func (c Column) text(thing members) string {
	value, _ := c.value(thing)
	text := terminal.Clean(c.Form.write(value))
	if text == "" && c.Null != "" {
		return c.Null
	}
	if text == "" {
		return "-"
	}
	return text
}

// beside returns the text after the value on a terminal.
func (c Column) beside(thing members, width int) string {
	value, ok := c.value(thing)
	if !ok || value == nil || width == math.MaxInt {
		return ""
	}
	return c.Form.beside(value, time.Now())
}

// pageOf reads the data about the whole list in the envelope.
func pageOf(tree any, shown int) Page {
	page := Page{List: true, Shown: shown}
	envelope, _ := tree.(members)
	if inner, ok := envelope["pagination"].(members); ok {
		envelope = inner
	}
	page.NextCursor, _ = envelope["nextCursor"].(string)
	page.Offset, page.Total = whole(envelope["offset"]), whole(envelope["total"])
	return page
}

// Next returns the cursor for the rest of the list in an answer; empty: the list has ended.
func Next(answer []byte) string {
	tree, err := decode(answer)
	if err != nil {
		return ""
	}
	return pageOf(tree, 0).NextCursor
}

func whole(value any) int {
	number, _ := value.(json.Number)
	n, _ := number.Int64() // anything else counts as 0
	return int(n)
}

// Members returns a member of each thing in a list.
func Members(answer []byte, name string) []string {
	tree, err := decode(answer)
	if err != nil {
		return nil
	}
	rows, _ := View{}.list(tree)
	var texts []string
	for _, row := range rows {
		if text, ok := row[name].(string); ok {
			texts = append(texts, text)
		}
	}
	return texts
}

// HasSecret reports whether an answer shows a key or a signing secret in full.
func HasSecret(answer []byte) bool {
	tree, err := decode(answer)
	return err == nil && hasSecret(tree)
}

func hasSecret(tree any) bool {
	switch node := tree.(type) {
	case []any:
		return slices.ContainsFunc(node, hasSecret)
	case members:
		for name, value := range node {
			text, isText := value.(string)
			if isText && (name == "key" || name == "secret" || name == "token") && text != "" && !strings.HasPrefix(text, "****") || hasSecret(value) {
				return true
			}
		}
	}
	return false
}
