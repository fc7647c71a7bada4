package docstest_test

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/provenance"
)

// measuredText is how figures that somebody measured are told from limits and settings: by the word, in the same
// paragraph as a number, or by a unit that nobody sets.
var measuredText = regexp.MustCompile(`\d ?(µs|ns)\b|(?i:\bmeasured\b)[^\n]*\d`)

// TestFigures checks that measured figures name their day, commit, command and code, and lists those that are older than
// the code. -update puts the hash of that code into marks that have none yet, which needs the repository's history.
func TestFigures(t *testing.T) {
	t.Parallel()
	marks, old := 0, 0
	for _, page := range pages(t) {
		text := read(t, page)
		if *update {
			text = stamp(t, page, text)
		}
		list, at := provenance.Read(text)
		if n := strings.Count(text, provenance.Begin); n != len(list) {
			t.Errorf("%s has %d marks of measured figures, of which %d can be read; one is: %s", page, n, len(list), example)
		}
		marks += len(list)
		for i, m := range list {
			line := strings.Count(text[:at[i]], "\n") + 1
			now, err := provenance.Hash(root, m.Of)
			switch {
			case err == nil && m.Hash == "":
				t.Errorf("%s:%d: the mark has no hash; `go test ./internal/docstest -run TestFigures -update` in cmd puts it there", page, line)
			case err != nil || now != m.Hash:
				old++
				t.Logf("%s:%d: older than the code that it measures: %s, at commit %s, with %s", page, line, m.Day, m.Commit, m.Command)
			}
		}
		unmarked(t, page, text)
	}
	t.Logf("of %d marks of measured figures %d are older than their code", marks, old)
	if marks == 0 {
		t.Error("no page has a mark of measured figures")
	}
}

const example = "Measured on 26 Nov 2026 at commit `01234567` with `make bench`. <!-- of services/dispatcher shared/bus: -->"

// unmarked complains of sections with measured figures but without a mark. What stands before the first section of a
// page is a section too. A mark in one section is not for the next one, unless that one is below it.
func unmarked(t *testing.T, page, text string) {
	t.Helper()
	type heading struct {
		level  int
		marked bool
	}
	var above []heading
	start := 1
	text = regexp.MustCompile("(?s)\n```.*?\n```").ReplaceAllStringFunc(text, func(block string) string {
		return strings.ReplaceAll(block, "#", " ") // comments of shell scripts are no headings
	})
	for _, section := range regexp.MustCompile(`(?m)^#`).Split("\n"+text, -1) {
		level := len(section) - len(strings.TrimLeft(section, "#")) + 1
		for len(above) > 0 && above[len(above)-1].level >= level {
			above = above[:len(above)-1]
		}
		marked := strings.Contains(section, provenance.Begin) || len(above) > 0 && above[len(above)-1].marked
		above = append(above, heading{level, marked})
		if found := measuredText.FindString(section); found != "" && !marked {
			t.Errorf("%s:%d: this section has measured figures (%q), and does not say when, at which commit and with what they were measured, such as: %s",
				page, start, found, example)
		}
		start += strings.Count(section, "\n")
	}
}

// stamp puts the hashes into the marks of a page that have none.
func stamp(t *testing.T, page, text string) string {
	t.Helper()
	list, _ := provenance.Read(text)
	for _, m := range list {
		if m.Hash != "" {
			continue
		}
		hash, err := provenance.HashAt(t.Context(), root, strings.TrimSuffix(m.Commit, "+"), m.Of)
		if err != nil {
			t.Fatal(err)
		}
		of := provenance.Begin + strings.Join(m.Of, " ") + ": "
		place := strings.Index(text, m.Commit+"` with "+m.Command)
		text = text[:place] + strings.Replace(text[place:], of+"-->", of+hash+" -->", 1)
	}
	if err := os.WriteFile(filepath.Join(root, page), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	return text
}
