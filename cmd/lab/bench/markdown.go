package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"waybill.dev/cmd/internal/provenance"
)

// writeMarkdown writes the results into a page: between the marks that it has for them,
// <!-- bench:NAME --> and <!-- /bench:NAME -->. A page that is not there is made, with all
// of them.
func (r *report) writeMarkdown(file string) error {
	page, err := os.ReadFile(file)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("read the page: %w", err)
	}
	parts, faulty := r.parts(filepath.Dir(file))
	if faulty != nil {
		return faulty
	}
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
func (r *report) parts(dir string) ([]part, error) {
	var list []part
	if len(r.Results) > 0 {
		conditions, err := r.conditions(delivering())
		if err != nil {
			return nil, err
		}
		list = append(list,
			part{"run", conditions},
			part{"scenarios", table(r.rows())},
			part{"processes", table(r.processRows())})
	}
	for _, g := range r.Growth {
		of := delivering()
		if g.requests {
			of = []string{"services/gateway", "cmd/gateway"}
		}
		conditions, err := r.conditions(of)
		if err != nil {
			return nil, err
		}
		list = append(list, part{"growth-" + g.name(), g.markdown(dir) + "\n" + conditions})
	}
	return list, nil
}

// delivering is the code that a delivery takes.
func delivering() []string {
	return []string{
		"services/api/internal/kernel/accept", "services/api/internal/families/events", "services/api/internal/kernel/relay", "services/dispatcher",
		"shared/bus", "shared/egress", "shared/envelope", "shared/store/pipeline", "shared/store/recorder",
	}
}

// conditions says how it was measured, and marks which code that was.
func (r *report) conditions(of []string) (string, error) {
	hash, err := provenance.Hash(r.root, of)
	if err != nil {
		return "", err
	}
	mark := provenance.Mark{Day: r.Started.Format("2 Jan 2006"), Commit: r.Commit, Command: r.Command, Of: of, Hash: hash}
	return fmt.Sprintf("%s %d cores (%s), %s, %g s of publishing a row, events of %d bytes, %d dispatcher(s), Postgres with its defaults but %s, receiver: %s.\n",
		mark, r.Cores, r.Machine, r.Go, r.Seconds, r.Size, r.Dispatchers, r.Postgres, r.Receiver), nil
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
