//go:build statements

package store_test

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestRecorded has another process run some tests, and reads which statements it has written down.
func TestRecorded(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	other := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestSuite$/^(sqlite|postgres)$/^store$", "-test.count=1")
	other.Env = append(os.Environ(), "RECORD_STATEMENTS="+folder)
	if out, err := other.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	files, err := filepath.Glob(filepath.Join(folder, "*.jsonl"))
	if err != nil || len(files) != 1 {
		t.Fatalf("files %v, %v", files, err)
	}
	text, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]string{}
	for line := range strings.Lines(string(text)) {
		var s struct{ Dialect, By, Text string }
		if err := json.Unmarshal([]byte(line), &s); err != nil {
			t.Fatal(err)
		}
		if _, twice := seen[s.Dialect+": "+s.Text]; twice {
			t.Errorf("twice: %s", line)
		}
		seen[s.Dialect+": "+s.Text] = s.By
		if strings.HasPrefix(s.Text, "CREATE TABLE accounts") || strings.HasPrefix(s.Text, "INSERT INTO goose") {
			t.Errorf("of a migration: %s", line)
		}
	}
	for statement, by := range map[string]string{
		"postgres: SELECT day FROM log_floor WHERE id = 1":          "shared/store.(*postgresDialect).prepareDays",
		"postgres: SELECT pg_try_advisory_lock($1)":                 "shared/store.(*postgresDialect).lead",
		"sqlite: UPDATE feed_order SET xact = xact + 1000000000000": "shared/store.(*Store).Restored",
	} {
		if got, ok := seen[statement]; !ok || !strings.HasPrefix(got, by) {
			t.Errorf("%s: by %q, want %q; there %v", statement, got, by, ok)
		}
	}
}
