// Package docstest_test runs what the README and the pages in docs/ tell people to run.
//
// A block fenced as ```sh is run, in order with the others of its page, against a `waybill
// dev` that was started for that page. Addresses are the default ones in the text and free
// ones in the test. A block fenced as ```console shows what can't be run there: what goes
// on for ever, needs another machine, or would take too long.
package docstest_test

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

const root = "../../.."

// block is a fenced block of a page.
type block struct {
	language string
	line     int // of its first line, counted from 1
	text     string
}

// pages returns the README and all pages under docs/, by their paths from the root.
func pages(t *testing.T) []string {
	t.Helper()
	list := []string{"README.md"}
	err := filepath.WalkDir(filepath.Join(root, "docs"), func(path string, _ os.DirEntry, err error) error {
		if err == nil && filepath.Ext(path) == ".md" {
			relative, relErr := filepath.Rel(root, path)
			list = append(list, relative)
			return relErr
		}
		return err
	})
	if err != nil {
		t.Fatalf("list the pages: %v", err)
	}
	return list
}

func read(t *testing.T, page string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatalf("read a page: %v", err)
	}
	return string(text)
}

// blocks returns the fenced blocks of a page.
func blocks(t *testing.T, page string) []block {
	t.Helper()
	var list []block
	var open *block
	for i, line := range strings.Split(read(t, page), "\n") {
		fence, isFence := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case isFence && open == nil:
			open = &block{language: fence, line: i + 2}
		case isFence:
			list = append(list, *open)
			open = nil
		case open != nil:
			open.text += line + "\n"
		}
	}
	if open != nil {
		t.Fatalf("%s:%d: a block is not closed", page, open.line-1)
	}
	return list
}

func TestLanguages(t *testing.T) {
	t.Parallel()
	known := map[string]bool{
		"": true, "sh": true, "console": true, "json": true, "http": true, "yaml": true,
		"go": true, "python": true, "js": true, "ruby": true, "php": true, "java": true, "csharp": true, "sql": true, "mermaid": true,
		"nginx": true, "caddyfile": true, "haproxy": true,
	}
	for _, page := range pages(t) {
		for _, b := range blocks(t, page) {
			if !known[b.language] {
				t.Errorf("%s:%d: a block in %q; commands stand in sh (run by a test) or console (not run)", page, b.line, b.language)
			}
		}
	}
}

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinks(t *testing.T) {
	t.Parallel()
	for _, page := range pages(t) {
		for i, line := range strings.Split(read(t, page), "\n") {
			for _, match := range link.FindAllStringSubmatch(line, -1) {
				target, fragment, _ := strings.Cut(match[1], "#")
				if strings.Contains(match[1], "://") {
					continue
				}
				file := page
				if target != "" {
					file = filepath.Join(filepath.Dir(page), target)
				}
				if _, err := os.Stat(filepath.Join(root, file)); err != nil {
					t.Errorf("%s:%d: a link to %s, which is not there", page, i+1, match[1])
				} else if fragment != "" && !hasHeading(t, file, fragment) {
					t.Errorf("%s:%d: a link to %s, which has no such heading", page, i+1, match[1])
				}
			}
		}
	}
}

var notInAnchor = regexp.MustCompile(`[^a-z0-9 _-]`)

func hasHeading(t *testing.T, page, anchor string) bool {
	t.Helper()
	for line := range strings.SplitSeq(read(t, page), "\n") {
		if !strings.HasPrefix(line, "#") {
			continue
		}
		heading := strings.ToLower(strings.TrimSpace(strings.TrimLeft(line, "#")))
		if strings.ReplaceAll(notInAnchor.ReplaceAllString(heading, ""), " ", "-") == anchor {
			return true
		}
	}
	return false
}

// script joins the sh blocks of a page into one that says where it is.
func script(t *testing.T, page string) (text string, n int) {
	t.Helper()
	var all strings.Builder
	all.WriteString("set -euo pipefail\n")
	for _, b := range blocks(t, page) {
		if b.language == "sh" {
			n++
			fmt.Fprintf(&all, "echo '--- %s:%d' >&2\n%s", page, b.line, b.text)
		}
	}
	return all.String(), n
}
