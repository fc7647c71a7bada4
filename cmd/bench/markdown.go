package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// writeMarkdown writes the results into a page: between the marks that it has for them,
// <!-- bench:NAME --> and <!-- /bench:NAME -->. A page that is not there is made, with all
// of them.
func (r *report) writeMarkdown(file string) error {
	page, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the page: %w", err)
	}
	parts := r.parts(filepath.Dir(file))
	filled := err != nil
	for _, p := range parts {
		if err != nil {
			page = append(page, opening(p.name)+closing(p.name)+"\n\n"...)
		}
		var ok bool
		page, ok = fill(page, p.name, p.text)
		filled = filled || ok
	}
	if !filled {
		return fmt.Errorf("write the page: %s has no marks for these results, such as %s", file, opening("scenarios"))
	}
	if err := os.WriteFile(file, page, 0o644); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	return nil
}

// part is what stands between two marks.
type part struct{ name, text string }

// fill replaces what stands between the marks of a name.
func fill(page []byte, name, text string) (filled []byte, ok bool) {
	from, to := opening(name), closing(name)
	before, rest, ok1 := bytes.Cut(page, []byte(from))
	_, after, ok2 := bytes.Cut(rest, []byte(to))
	if !ok1 || !ok2 {
		return page, false
	}
	return []byte(string(before) + from + "\n" + text + "\n" + to + string(after)), true
}

func opening(name string) string { return "<!-- bench:" + name + " -->\n" }
func closing(name string) string { return "<!-- /bench:" + name + " -->" }

// parts are all that this run has for a page in a folder.
func (r *report) parts(dir string) []part {
	var list []part
	if len(r.Results) > 0 {
		list = append(list,
			part{"run", r.conditions()},
			part{"scenarios", table(r.rows())},
			part{"targets", table(r.targetRows())},
			part{"processes", table(r.processRows())})
	}
	for _, g := range r.Growth {
		list = append(list, part{"growth-" + g.name(), g.markdown(dir) + "\n" + r.conditions()})
	}
	return list
}

// conditions says how it was measured.
func (r *report) conditions() string {
	return fmt.Sprintf("Measured on %s: %d cores (%s), %s, %g s of publishing a row, events of %d bytes, %d dispatcher(s), Postgres with its defaults but %s, receiver: %s.\n",
		r.Started.Format("2 Jan 2006"), r.Cores, r.Machine, r.Go, r.Seconds, r.Size, r.Dispatchers, r.Postgres, r.Receiver)
}

func (r *report) targetRows() [][]string {
	rows := [][]string{{"scenario", "form", "figure", "target", "measured", ""}}
	for _, one := range r.Results {
		for _, t := range one.Targets {
			sign, word, _ := strings.Cut(t.String(), ": ")
			rows = append(rows, []string{one.Scenario, one.Form, t.Figure, sign, number(t.Got), word})
		}
	}
	return rows
}

func (r *report) processRows() [][]string {
	rows := [][]string{{"scenario", "form", "CPU ms for 1000 deliveries", "beside", "peak MB"}}
	for _, one := range r.Results {
		rows = append(rows, []string{one.Scenario, one.Form, listed(one.CPU), listed(one.Beside), listed(one.Memory)})
	}
	return rows
}

// table writes rows as Markdown, the first as the head.
func table(rows [][]string) string {
	var b strings.Builder
	for i, row := range rows {
		b.WriteString("| " + strings.Join(row, " | ") + " |\n")
		if i == 0 {
			b.WriteString("|" + strings.Repeat(" --- |", len(row)) + "\n")
		}
	}
	return b.String()
}
