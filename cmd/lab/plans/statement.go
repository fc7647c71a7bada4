package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
)

// The dialects, as records name them.
const (
	sqlite   = "sqlite"
	postgres = "postgres"
)

// statement is one that the product runs.
type statement struct {
	Dialect string `json:"dialect"`
	By      string `json:"by"` // the functions that run it
	Text    string `json:"text"`
}

// read returns the statements of all records in a folder that have plans, each once.
func read(folder string) ([]statement, error) {
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, errors.New("no statement was recorded: the tests were not built with the tag statements, or they were cached")
	}
	by := map[statement]map[string]bool{}
	for _, path := range files {
		if err := readFile(path, by); err != nil {
			return nil, fmt.Errorf("read %s: %w", path, err)
		}
	}
	found := make([]statement, 0, len(by))
	for s, functions := range by {
		s.By = strings.Join(slices.Sorted(maps.Keys(functions)), ", ")
		found = append(found, s)
	}
	slices.SortFunc(found, func(a, b statement) int {
		return cmp.Or(cmp.Compare(a.By, b.By), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Dialect, b.Dialect))
	})
	return found, nil
}

// readFile adds the statements of one process.
func readFile(path string, by map[statement]map[string]bool) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	lines := bufio.NewScanner(file)
	lines.Buffer(nil, 1<<24)
	for lines.Scan() {
		var s statement
		if err := json.Unmarshal(lines.Bytes(), &s); err != nil {
			return err
		}
		function := closure.ReplaceAllString(s.By, "")
		s.By, s.Text = "", normal(s.Dialect, s.Text)
		if !hasPlan.MatchString(s.Text) || strings.HasPrefix(function, "cmd/lab/plans.") { // of this command's own tests
			continue
		}
		if by[s] == nil {
			by[s] = map[string]bool{}
		}
		by[s][function] = true
	}
	return lines.Err()
}

var (
	closure   = regexp.MustCompile(`(\.func\d+(\.\d+)*)+$`)
	hasPlan   = regexp.MustCompile(`(?i)^(SELECT|INSERT|UPDATE|DELETE|WITH|VALUES)\b`)
	comment   = regexp.MustCompile(`--[^\n]*`)
	space     = regexp.MustCompile(`\s+`)
	moreRows  = regexp.MustCompile(`(?i)(VALUES ?)(\([^()]*(?:\([^()]*\)[^()]*)*\))(?:, ?\([^()]*(?:\([^()]*\)[^()]*)*\))+`)
	longList  = regexp.MustCompile(`(?i)( IN ?\()(\?|\$\d+), ?(\?|\$\d+)(?:, ?(?:\?|\$\d+))+\)`)
	count     = regexp.MustCompile(`(?i)\b(LIMIT|OFFSET) (?:\?\d*|\$\d+|\d{2,}\b|[2-9]\b)`)
	partition = regexp.MustCompile(`_([ph])\d{8}(?:\d\d)?\b`)
	numbered  = regexp.MustCompile(`[?$]\d+`)
	parameter = regexp.MustCompile(`\$\d+`)
)

// normal returns a statement in which everything is equal that a plan does not depend on: how many
// rows or values of a list there are, the number after LIMIT, the day of a partition.
func normal(dialect, text string) string {
	text = strings.TrimSpace(space.ReplaceAllString(comment.ReplaceAllString(text, " "), " "))
	text = moreRows.ReplaceAllString(text, "$1$2")
	text = longList.ReplaceAllString(text, "$1$2, $3)")
	text = count.ReplaceAllStringFunc(text, func(s string) string {
		if s[0]|' ' == 'l' {
			return "LIMIT 100" // Postgres takes a LIMIT that it does not know for a tenth of all rows
		}
		return "OFFSET 0"
	})
	if dialect == sqlite {
		return numbered.ReplaceAllString(text, "?")
	}
	text = renamed(partition, text, func(name string, n int) string {
		if name[1] == 'h' {
			return "_h" + today.Add(-time.Duration(n)*time.Hour).Format("2006010215")
		}
		return "_p" + today.AddDate(0, 0, -n).Format("20060102")
	})
	return renamed(parameter, text, func(_ string, n int) string { return fmt.Sprintf("$%d", n+1) })
}

// renamed gives each different text that matches a name by its number.
func renamed(what *regexp.Regexp, text string, name func(old string, n int) string) string {
	names := map[string]string{}
	return what.ReplaceAllStringFunc(text, func(old string) string {
		if _, ok := names[old]; !ok {
			names[old] = name(old, len(names))
		}
		return names[old]
	})
}
