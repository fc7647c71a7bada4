package store_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// update rewrites the golden files with what the migrations make.
var update = flag.Bool("update", false, "rewrite testdata/schema.*.golden")

// TestSchema compares what the migrations make, on both databases, with the golden files,
// and looks for tables that belong to no family.
func TestSchema(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		name, query := "postgres", postgresSchema
		if d.Open(t, store.Options{}).SQLite() {
			name, query = "sqlite", sqliteSchema
		}
		db := d.Beneath(t)
		storetest.Owned(t, kind, db)
		golden(t, "schema."+name+".golden", strings.Join(storetest.Texts(t, db, query), "\n")+"\n")
	})
}

func TestRows(t *testing.T) { storetest.Rows(t, "store", store.RowStructs()...) }

// postgresSchema prints tables, columns, constraints and indexes, without partitions.
const postgresSchema = `
SELECT line FROM (
	SELECT c.relname AS t, 1 AS part, a.attnum::int AS n, format('%s: %s %s%s%s', c.relname, a.attname, format_type(a.atttypid, a.atttypmod),
		CASE WHEN co.collname IS NOT NULL AND co.collname <> 'default' THEN ' collate ' || co.collname ELSE '' END,
		CASE WHEN a.attnotnull THEN ' not null' ELSE '' END) AS line
	FROM pg_class c JOIN pg_attribute a ON a.attrelid = c.oid LEFT JOIN pg_collation co ON co.oid = a.attcollation
	WHERE c.relnamespace = current_schema()::regnamespace AND c.relkind IN ('r', 'p') AND NOT c.relispartition
		AND a.attnum > 0 AND NOT a.attisdropped AND c.relname NOT LIKE 'goose%'
	UNION ALL
	SELECT tablename, 2, 0, format('%s: %s', tablename, indexdef) FROM pg_indexes i
	JOIN pg_class c ON c.relname = i.tablename AND c.relnamespace = current_schema()::regnamespace
	WHERE schemaname = current_schema() AND NOT c.relispartition AND tablename NOT LIKE 'goose%'
) AS lines ORDER BY t, part, n, line`

const sqliteSchema = `SELECT sql || ';' FROM sqlite_master
	WHERE sql IS NOT NULL AND name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%' ORDER BY tbl_name, type DESC, name`

func golden(t *testing.T, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v; go test -update writes it", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s; go test -update rewrites it when the change is meant (-golden +schema):\n%s", name, diff)
	}
}

// TestDates checks the days of a row against domain.Day, before 1970 too.
func TestDates(t *testing.T) {
	t.Parallel()
	for _, text := range []string{"1969-12-31T23:59:59Z", "1970-01-01T00:00:00Z", "2025-06-10T23:59:59.999Z", "2025-06-11T01:00:00+02:00"} {
		at, err := time.Parse(time.RFC3339, text)
		if err != nil {
			t.Fatal(err)
		}
		if got, want := store.DateOf(at).Time(), domain.Day(at); !got.Equal(want) {
			t.Errorf("%s is of %v, want %v", text, got, want)
		}
	}
}
