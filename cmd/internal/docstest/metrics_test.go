package docstest_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	registered = regexp.MustCompile(`"(waybill_[a-z_]+)"`)
	mentioned  = regexp.MustCompile(`\bwaybill_[a-z_]+\b`)
)

// TestMetrics compares the metrics that dashboards, alerts and pages use with those that
// the code registers.
func TestMetrics(t *testing.T) {
	t.Parallel()
	known := metrics(t)
	for _, dir := range []string{"deploy/prometheus", "deploy/grafana", "docs"} {
		used := 0
		eachFile(t, dir, func(path, text string) {
			for _, name := range mentioned.FindAllString(text, -1) {
				used++
				base := name
				for _, suffix := range []string{"_bucket", "_sum", "_count"} {
					base = strings.TrimSuffix(base, suffix)
				}
				if !known[name] && !known[base] {
					t.Errorf("%s uses %s, which no code registers", path, name)
				}
			}
		})
		if used == 0 {
			t.Errorf("nothing in %s uses a metric", dir)
		}
	}
}

// TestEveryMetricIsListed looks for each metric of the code in the operators' page.
func TestEveryMetricIsListed(t *testing.T) {
	t.Parallel()
	page := read(t, "docs/operators.md")
	for name := range metrics(t) {
		if !strings.Contains(page, "`"+name+"`") {
			t.Errorf("docs/operators.md does not list %s", name)
		}
	}
}

// metrics returns the names of the metrics that the code registers.
func metrics(t *testing.T) map[string]bool {
	t.Helper()
	known := make(map[string]bool)
	for _, dir := range []string{"services", "shared", "cmd"} {
		eachFile(t, dir, func(path, text string) {
			if strings.HasSuffix(path, ".go") && !strings.HasSuffix(path, "_test.go") {
				for _, match := range registered.FindAllStringSubmatch(text, -1) {
					known[match[1]] = true
				}
			}
		})
	}
	delete(known, "waybill_variable") // an annotation of the commands' flags
	if len(known) == 0 {
		t.Fatal("no metric is registered anywhere")
	}
	return known
}

// eachFile calls do with every file below dir, a folder of the project.
func eachFile(t *testing.T, dir string, do func(path, text string)) {
	t.Helper()
	err := filepath.WalkDir(filepath.Join(root, dir), func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err == nil {
			do(path, string(text))
		}
		return err
	})
	if err != nil {
		t.Fatalf("read %s: %v", dir, err)
	}
}
