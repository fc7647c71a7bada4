package docstest_test

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/cmd/internal/settings"
	"waybill.dev/shared/problem"
)

var update = flag.Bool("update", false, "write what the pages have from the code")

// TestSettings compares the table of settings in the operators' page with the code.
func TestSettings(t *testing.T) {
	t.Parallel()
	isWritten(t, "docs/operators.md", "settings", "cmd/internal/settings", settingsTable())
}

// TestProblems compares the table of problems with the code.
func TestProblems(t *testing.T) {
	t.Parallel()
	var table strings.Builder
	table.WriteString("\n| code | meaning, and what to do |\n| --- | --- |\n")
	for _, code := range problem.Codes() {
		e, known := problem.Explain(string(code))
		if !known {
			t.Fatalf("%s is not explained", code)
		}
		fmt.Fprintf(&table, "| `%s` %d | %s **What to do:** %s |\n", code, e.Status, e.Meaning, strings.Join(e.Advice, " "))
	}
	isWritten(t, "docs/errors.md", "problems", "shared/problem", table.String()+"\n")
}

// isWritten compares what stands between two marks of a page with what the code gives, or writes it.
func isWritten(t *testing.T, page, what, source, want string) {
	t.Helper()
	begin, end := "<!-- "+what+": written by the test of this page, from "+source+" -->\n", "<!-- end of "+what+" -->"
	text := read(t, page)
	before, rest, found := strings.Cut(text, begin)
	got, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		t.Fatalf("%s has no place for the %s", page, what)
	}
	if *update {
		err := os.WriteFile(filepath.Join(root, page), []byte(before+begin+want+end+after), 0o644)
		if err != nil {
			t.Fatal(err)
		}
		return
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the table of %s in %s is not that of the code (-code +page); `go test ./internal/docstest -update` in cmd writes it:\n%s", what, page, diff)
	}
}

func settingsTable() string {
	var table strings.Builder
	table.WriteString("\n| setting, and its flag | meaning | `waybill dev` | api | dispatcher | gateway |\n| --- | --- | --- | --- | --- | --- |\n")
	for _, spec := range settings.Specs() {
		name := ""
		if spec.Flag != "" {
			name = " `--" + spec.Flag + "`"
		}
		fmt.Fprintf(&table, "| `%s`%s | %s | %s | %s | %s | %s |\n", spec.Name, name, spec.Usage,
			inRole(spec, settings.Dev), inRole(spec, settings.API), inRole(spec, settings.Dispatcher), inRole(spec, settings.Gateway))
	}
	table.WriteString("\n\"–\": not used. Empty: none unless set.\n\n")
	return table.String()
}

func inRole(spec settings.Spec, role settings.Role) string {
	switch {
	case !spec.UsedBy(role):
		return "–"
	case spec.Required(role):
		return "**required**"
	case spec.Default(role) == "":
		return ""
	default: // with spaces, at which a long list can break
		return "`" + strings.ReplaceAll(spec.Default(role), ",", ", ") + "`"
	}
}
