package main

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/lab/internal/load"
	"waybill.dev/cmd/lab/internal/meter"
)

func TestNamesAreUnique(t *testing.T) {
	t.Parallel()
	for what, names := range map[string][]string{"scenario": scenarioNames(), "axis": axisNames()} {
		slices.Sort(names)
		if len(slices.Compact(slices.Clone(names))) != len(names) {
			t.Errorf("a name of a %s stands twice in %v", what, names)
		}
	}
}

func TestChoose(t *testing.T) {
	t.Parallel()
	name := func(s string) string { return s }
	all := []string{"a", "b", "c"}
	for list, want := range map[string][]string{"": all, "all": all, "c,a": {"c", "a"}} {
		if got, err := choose(all, list, name); err != nil || !slices.Equal(got, want) {
			t.Errorf("of %q %v are chosen, %v", list, got, err)
		}
	}
	if _, err := choose(all, "a,x", name); err == nil || !strings.Contains(err.Error(), "a, b, c") {
		t.Errorf("an unknown name: %v", err)
	}
}

// What is lost, repeated, refused, unrecorded or wrong fails a run; nothing else does.
func TestFaults(t *testing.T) {
	t.Parallel()
	good := &result{figures: figures{Delivered: 1}}
	r := &report{Bare: []*result{good}, Results: []*result{good}}
	if !r.good() {
		t.Error("a slow run is not good")
	}
	bad := figures{Lost: 1, Repeated: 2, Refused: 3, Unrecorded: 4}
	list := bad.faults(load.Published{Fault: "503"}, load.Received{Faults: 5, FirstFault: "no signature"})
	if len(list) != 5 {
		t.Errorf("the faults are %q", list)
	}
	r.Results = append(r.Results, &result{Faults: list})
	if r.good() {
		t.Error("a run with faults is good")
	}
	if got := r.Results[1].verdict(); got != "FAILED" {
		t.Errorf("its verdict is %q", got)
	}
}

func TestMarkdown(t *testing.T) {
	t.Parallel()
	r := &report{
		root: "../../..", Commit: "01234567", Command: "`make bench`", Started: time.Date(2026, 11, 26, 0, 0, 0, 0, time.UTC),
		Results: []*result{{Scenario: "rest-1", Form: formSplit, figures: figures{
			Delivered: 12_345, CPU: map[string]float64{"postgres": 7, "api": 40}, CPUSum: 47, Latency: meter.Quantiles{P99: 4.25},
		}}},
		Growth: []*growth{{Axis: "webhooks", Form: formSplit, X: "webhooks", Points: []point{{At: 100_000}}}},
	}
	r.compare()
	page := filepath.Join(t.TempDir(), "page.md")
	r.Growth[0].plot = filepath.Join(filepath.Dir(page), "performance", "webhooks.svg")
	const marked = "# A\n\n<!-- bench:processes -->\nold\n<!-- /bench:processes -->\n\n<!-- bench:growth-webhooks -->\n<!-- /bench:growth-webhooks -->\nend\n"
	for _, c := range []struct {
		before string
		with   []string
		not    []string
	}{
		{"", []string{"| rest-1 | split | ", " 12,345 | ", "| api 40, postgres 7 |", "| 100,000 | ", "](performance/webhooks.svg)", "Measured on 26 Nov 2026 at commit `01234567` with `make bench`. <!-- of "}, []string{"old"}},
		{marked, []string{"# A\n\n<!-- bench:processes -->\n\n| scenario ", "| api 40, postgres 7 |  |  |\n\n<!-- /bench:processes -->", "| 100,000 | ", "end\n"}, []string{"old", "12,345"}},
	} {
		if c.before != "" {
			if err := os.WriteFile(page, []byte(c.before), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		for range 2 { // writing again changes nothing
			if err := r.writeMarkdown(page); err != nil {
				t.Fatal(err)
			}
		}
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range c.with {
			if !strings.Contains(string(text), want) {
				t.Errorf("%q is not in\n%s", want, text)
			}
		}
		for _, unwanted := range c.not {
			if strings.Contains(string(text), unwanted) {
				t.Errorf("%q is in\n%s", unwanted, text)
			}
		}
	}
}

// A page that has no place for the results is left as it is.
func TestMarkdownWithoutMarks(t *testing.T) {
	t.Parallel()
	page := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(page, []byte("something else"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := (&report{root: "../../..", Results: []*result{{}}}).writeMarkdown(page); err == nil {
		t.Error("a page without marks is written without an error")
	}
	if text, err := os.ReadFile(page); err != nil || string(text) != "something else" {
		t.Errorf("the page is now %q, %v", text, err)
	}
}

// The page has a place for everything that the bench can write there.
func TestPageHasMarks(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../../docs/performance.md")
	if err != nil {
		t.Fatal(err)
	}
	names := []string{"run", "scenarios", "processes"}
	for _, axis := range axisNames() {
		names = append(names, "growth-"+axis)
	}
	for _, name := range names {
		if _, ok := fill(page, name, ""); !ok {
			t.Errorf("docs/performance.md has no marks for %s", name)
		}
	}
}

func TestNumber(t *testing.T) {
	t.Parallel()
	for want, x := range map[string]float64{
		"0": 0, "0.56": 0.561, "2": 2, "4.2": 4.2, "33.4": 33.44, "40": 40.02, "110": 110.4, "1,234": 1234.4, "12,345,678": 12_345_678,
	} {
		if got := number(x); got != want {
			t.Errorf("%g is written %s, want %s", x, got, want)
		}
	}
}
