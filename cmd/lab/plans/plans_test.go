package main

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestNormal makes statements equal that have the same plan.
func TestNormal(t *testing.T) {
	t.Parallel()
	for _, row := range [][3]string{
		{sqlite, "SELECT a\n\tFROM t -- why\n WHERE b IN (?,?,?,?) LIMIT ? OFFSET 40", "SELECT a FROM t WHERE b IN (?, ?) LIMIT 100 OFFSET 0"},
		{sqlite, "SELECT a FROM t WHERE b = ?1 OR c = ?1 LIMIT 1", "SELECT a FROM t WHERE b = ? OR c = ? LIMIT 1"},
		{sqlite, "INSERT INTO t VALUES (?, lower(?)), (?, lower(?)) ON CONFLICT DO NOTHING", "INSERT INTO t VALUES (?, lower(?)) ON CONFLICT DO NOTHING"},
		{postgres, "SELECT a FROM t WHERE b IN ($1,$2,$3) AND c = $4 LIMIT $5", "SELECT a FROM t WHERE b IN ($1, $2) AND c = $3 LIMIT 100"},
		{
			postgres, "SELECT 1 FROM events_p20240101 e JOIN events_p20240102 f ON e.id = f.id AND f.id = $3",
			"SELECT 1 FROM events_p20250610 e JOIN events_p20250609 f ON e.id = f.id AND f.id = $1",
		},
		{postgres, "SELECT 1 FROM gateway_requests_h2024010112", "SELECT 1 FROM gateway_requests_h2025061012"},
	} {
		if got := normal(row[0], row[1]); got != row[2] {
			t.Errorf("%s:\n%s\n%s", row[1], got, row[2])
		}
	}
}

// TestRead reads the records of two processes.
func TestRead(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	if _, err := read(folder); err == nil {
		t.Error("nothing was recorded, and that is no fault")
	}
	for name, lines := range map[string]string{
		"a.jsonl": `{"dialect":"sqlite","by":"store.List.func1","text":"SELECT 1 LIMIT 20"}` + "\n" + `{"dialect":"sqlite","by":"store.List","text":"BEGIN"}` + "\n",
		"b.jsonl": `{"dialect":"sqlite","by":"store.Get.func1.2","text":"SELECT 1 LIMIT ?"}` + "\n" + `{"dialect":"postgres","by":"store.Get","text":"SELECT 1"}` + "\n",
	} {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(lines), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := read(folder)
	want := []statement{{postgres, "store.Get", "SELECT 1"}, {sqlite, "store.Get, store.List", "SELECT 1 LIMIT 100"}}
	if diff := cmp.Diff(want, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestExceptions covers faults by function, table and kind, and tells of those that nothing needs.
func TestExceptions(t *testing.T) {
	t.Parallel()
	e := exception{by: "store.List", table: "webhooks", what: wholeIndex}
	for _, row := range []struct {
		s    statement
		f    fault
		want bool
	}{
		{statement{By: "store.List"}, fault{table: "webhooks", what: wholeIndex}, true},
		{statement{By: "store.Get, store.List"}, fault{table: "webhooks", what: wholeIndex}, true},
		{statement{By: "store.Lists"}, fault{table: "webhooks", what: wholeIndex}, false},
		{statement{By: "store.List"}, fault{table: "events", what: wholeIndex}, false},
		{statement{By: "store.List"}, fault{table: "webhooks", what: openRange}, true},
		{statement{By: "store.List"}, fault{table: "webhooks", what: wholeTable}, false},
	} {
		if got := e.covers(row.s, row.f); got != row.want {
			t.Errorf("%v %v: %v", row.s, row.f, got)
		}
	}
	seen := map[string]bool{}
	for _, e := range exceptions() {
		if e.table == "" || e.what == "" || len(e.reason) < 20 || seen[e.String()] {
			t.Errorf("%s: an exception has a table, a fault and a reason, and is there once", e)
		}
		seen[e.String()] = true
	}
}

// TestCheck has both databases plan statements whose faults are known, some of them after something
// was taken away that had mended them.
func TestCheck(t *testing.T) {
	t.Parallel()
	planners, end, err := open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := end(); err != nil {
			t.Error(err)
		}
	}()
	count := "INSERT INTO rollup_deltas (account, event_type, minute, events) SELECT account, type, ?, count(*) FROM events %s WHERE rowid > ? GROUP BY account, type"
	for _, row := range []struct {
		name           string
		change         string // of the schema, before
		lite, pg       string
		liteHas, pgHas string // the fault; empty: none
	}{
		{
			name: "a row by its key", lite: "SELECT url FROM webhooks WHERE id = ?", pg: "SELECT url FROM webhooks WHERE id = $1",
		},
		{
			name: "a table", lite: "SELECT url FROM webhooks", pg: "SELECT url FROM webhooks",
			liteHas: "webhooks " + wholeTable, pgHas: "webhooks " + wholeTable,
		},
		{
			name: "a page in the order of an index", lite: "SELECT id FROM audit_log WHERE account = ? ORDER BY at DESC, id DESC LIMIT 100",
			pg: "SELECT id FROM audit_log WHERE account = $1 ORDER BY at DESC, id DESC LIMIT 100",
		},
		{
			name: "without the LIMIT", lite: "SELECT id FROM audit_log WHERE account = ? ORDER BY at DESC, id DESC",
			pg:      "SELECT id FROM audit_log WHERE account = $1 ORDER BY at DESC, id DESC",
			liteHas: "audit_log " + allOfTenant, pgHas: "audit_log " + allOfTenant,
		},
		{
			name: "a page that passes rows over", lite: "SELECT id FROM audit_log WHERE account = ? AND user_agent = ? ORDER BY at DESC, id DESC LIMIT 100",
			pg:      "SELECT id FROM audit_log WHERE account = $1 AND user_agent = $2 ORDER BY at DESC, id DESC LIMIT 100",
			liteHas: "audit_log " + allOfTenant, pgHas: "audit_log " + allOfTenant,
		},
		{
			name: "a page up to a day", lite: "SELECT id FROM deliveries WHERE account = ? AND id < ? AND day <= ? ORDER BY id DESC LIMIT 100",
			pg: "SELECT id FROM deliveries WHERE account = $1 AND id < $2 AND day <= $3 ORDER BY id DESC LIMIT 100",
		},
		{
			name: "a range", lite: "SELECT count(*) FROM audit_log WHERE at < ?", pg: "SELECT count(*) FROM audit_log WHERE at < $1",
			liteHas: "audit_log " + openRange, pgHas: "audit_log " + wholeTable, // a third of it, as Postgres takes it
		},
		{name: "the events of a commit", lite: fmt.Sprintf(count, "NOT INDEXED"), liteHas: "events " + openRange},
		{name: "without NOT INDEXED", lite: fmt.Sprintf(count, ""), liteHas: "events " + wholeIndex},
		{
			name: "deliveries by account and id", lite: "SELECT id FROM deliveries WHERE account = ? AND id IN (SELECT value FROM json_each(?)) AND day = ?",
			pg: "SELECT id FROM deliveries_p20250610 WHERE account = $1 AND id = ANY($2)",
		},
		{
			name: "without the account", lite: "SELECT id FROM deliveries WHERE id IN (SELECT value FROM json_each(?)) AND day = ?",
			pg: "SELECT id FROM deliveries_p20250610 WHERE id = ANY($1) AND day = $2", liteHas: "deliveries " + notFirst, pgHas: "deliveries " + wholeTable,
		},
		{
			name: "keys of a consumer", lite: "SELECT id FROM api_keys WHERE consumer_id = ?", pg: "SELECT id FROM api_keys WHERE consumer_id = $1",
		},
		{
			name: "without the index", change: "DROP INDEX api_keys_by_consumer", lite: "SELECT id FROM api_keys WHERE consumer_id = ?",
			pg: "SELECT id FROM api_keys WHERE consumer_id = $1", liteHas: "api_keys " + wholeTable, pgHas: "api_keys " + wholeTable,
		},
		{
			name: "an index for one statement", lite: "SELECT 1 FROM webhooks w JOIN gateway_tunnels t ON t.token_suffix = w.description WHERE w.id > ?",
			liteHas: "gateway_tunnels " + madeIndex,
		},
		{name: "a table that is not there", lite: "SELECT 1 FROM nothing", pg: "SELECT 1 FROM nothing", liteHas: " " + notPlanned, pgHas: " " + notPlanned},
	} {
		for dialect, text := range map[string]string{sqlite: row.lite, postgres: row.pg} {
			want := map[string]string{sqlite: row.liteHas, postgres: row.pgHas}[dialect]
			if text == "" {
				continue
			}
			for _, p := range planners[dialect] {
				if row.change != "" {
					alter(t, p, row.change)
				}
			}
			found, _ := check(t.Context(), planners, []statement{{dialect, "store.Do", text}}, nil)
			var faults []string
			plans := ""
			for _, w := range found {
				plans = w.String()
				for _, f := range w.faults {
					faults = append(faults, f.table+" "+f.what)
				}
			}
			if want == "" && len(faults) > 0 || want != "" && !slices.Contains(faults, want) {
				t.Errorf("%s, %s: %q, want %q\n%s", row.name, dialect, faults, want, plans)
			}
		}
	}
	allowed := []exception{{table: "webhooks", what: wholeTable}, {table: "events", what: wholeTable}}
	found, unused := check(t.Context(), planners, []statement{{sqlite, "store.Do", "SELECT url FROM webhooks"}}, allowed)
	if len(found) > 0 || len(unused) != 1 || unused[0] != allowed[1] {
		t.Errorf("with exceptions: %v, not needed %v", found, unused)
	}
}

func alter(t *testing.T, p planner, statement string) {
	t.Helper()
	var err error
	switch p := p.(type) {
	case *sqlitePlanner:
		_, err = p.db.ExecContext(t.Context(), statement)
	case *postgresPlanner:
		_, err = p.conn.ExecContext(t.Context(), strings.Replace(statement, "INDEX", "INDEX IF EXISTS", 1))
	}
	if err != nil {
		t.Fatal(err)
	}
}
