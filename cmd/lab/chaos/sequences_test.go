package main

import (
	"strings"
	"testing"
)

// Each way to be out of order is noticed, and what is no violation is not.
func TestSequences(t *testing.T) {
	type post struct {
		id           string
		sequence     int64
		marked, well bool
	}
	good := func(id string, sequence int64) post { return post{id, sequence, false, true} }
	bad := func(id string, sequence int64) post { return post{id, sequence, false, false} }
	marked := func(id string, sequence int64) post { return post{id, sequence, true, true} }
	for name, test := range map[string]struct {
		posts []post
		want  string // "": nothing is wrong
	}{
		"in order":            {[]post{good("a", 1), bad("b", 2), good("b", 2), good("c", 3)}, ""},
		"repeats":             {[]post{good("a", 1), good("b", 2), good("a", 1), bad("b", 2), good("c", 3)}, ""},
		"a gap":               {[]post{bad("never", 1), bad("never", 1), marked("b", 2), good("c", 3)}, ""},
		"no sequence":         {[]post{good("a", 0)}, "has no sequence"},
		"overtaken":           {[]post{bad("a", 1), good("b", 2)}, "after 0 without the mark"},
		"late":                {[]post{bad("a", 1), good("b", 2), good("a", 1)}, "comes after 2 was taken"},
		"skipped":             {[]post{good("a", 1), good("c", 3)}, "after 1 without the mark"},
		"an unmarked gap":     {[]post{bad("never", 1), good("b", 2)}, "after 0 without the mark"},
		"a mark too many":     {[]post{good("a", 1), marked("b", 2)}, "there is none"},
		"a mark for patience": {[]post{bad("a", 1), marked("b", 2)}, "still to come"},
		"another number":      {[]post{bad("a", 1), good("a", 2)}, "had 1 before"},
		"a number for two":    {[]post{good("a", 1), good("b", 1)}, "has that of a"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newSequences(func(id string) bool { return id == "never" })
			for _, p := range test.posts {
				s.post(p.id, 7, p.sequence, p.marked, p.well)
			}
			got := strings.Join(s.faults, "\n")
			if test.want == "" && s.wrong != 0 || test.want != "" && !strings.Contains(got, test.want) {
				t.Errorf("%d wrong: %s; want %q", s.wrong, got, test.want)
			}
		})
	}
}
