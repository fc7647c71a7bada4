// Package terminal writes output for a person at a terminal, and the same facts as JSON for a program.
package terminal

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"unicode"
	"unicode/utf8"

	"golang.org/x/term"
)

// IsTerminal reports whether stream, a reader or writer, is a terminal.
func IsTerminal(stream any) bool {
	file, ok := stream.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// Columns returns the width of the terminal w; 0: w is no terminal.
func Columns(w io.Writer) int {
	file, ok := w.(*os.File)
	if !ok {
		return 0
	}
	columns, _, err := term.GetSize(int(file.Fd()))
	if err != nil {
		return 0
	}
	return columns
}

// Style colours text, when that is wanted.
type Style struct{ on bool }

// StyleFor returns a style for output to w. It uses colours only when w is a terminal that supports them, and
// NO_COLOR is not set.
func StyleFor(w io.Writer) Style {
	return Style{on: IsTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb"}
}

func (s Style) wrap(code, text string) string {
	if !s.on || text == "" {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// Bold emphasizes text.
func (s Style) Bold(text string) string { return s.wrap("1", text) }

// Dim makes text less prominent.
func (s Style) Dim(text string) string { return s.wrap("2", text) }

// Good is for successes.
func (s Style) Good(text string) string { return s.wrap("32", text) }

// Bad is for failures.
func (s Style) Bad(text string) string { return s.wrap("31", text) }

// Warn is for warnings.
func (s Style) Warn(text string) string { return s.wrap("33", text) }

// Accent is for commands and addresses.
func (s Style) Accent(text string) string { return s.wrap("36", text) }

// Clean replaces control characters and those that change the direction of writing, so that foreign text
// controls neither the terminal nor what the reader sees.
func Clean(text string) string {
	return strings.Map(func(r rune) rune {
		if unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) {
			return '\uFFFD'
		}
		return r
	}, text)
}

// Hang breaks text at its spaces into lines of at most width columns. The first line begins
// at column first, the others are indented.
func Hang(text string, indent, first, width int) string {
	var b strings.Builder
	column := first
	for i, word := range strings.Fields(text) {
		long := utf8.RuneCountInString(word)
		switch {
		case i == 0:
		case column+1+long > width:
			b.WriteString("\n" + strings.Repeat(" ", indent))
			column = indent
		default:
			b.WriteByte(' ')
			column++
		}
		b.WriteString(word)
		column += long
	}
	return b.String()
}

// Table writes rows in aligned columns below a header.
func Table(w io.Writer, header []string, rows [][]string) {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(table, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(table, strings.Join(row, "\t"))
	}
	_ = table.Flush() // a closed pipe is not an error of the command
}

// JSON writes value as indented JSON.
func JSON(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	return encoder.Encode(value)
}

// JSONLine writes value as one line of JSON.
func JSONLine(w io.Writer, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}
