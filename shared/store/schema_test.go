package store

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"gorm.io/gorm/schema"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
)

// update rewrites the golden files with what the migrations make.
var update = flag.Bool("update", false, "rewrite testdata/schema.*.golden")

// migrated opens a migrated store on a database of its own.
func migrated(t *testing.T, url string) *Store {
	t.Helper()
	s, err := Open(t.Context(), Options{URL: url})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close store: %v", err)
		}
	})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	return s
}

func postgresStore(t *testing.T) *Store {
	t.Helper()
	c, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatalf("these tests need Postgres: %v", err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop Postgres: %v", err)
		}
	})
	return migrated(t, c.URL("postgres"))
}

func sqliteStore(t *testing.T) *Store {
	t.Helper()
	return migrated(t, "sqlite:"+filepath.Join(t.TempDir(), "waybill.db"))
}

// rowStructs lists every row struct of the package.
func rowStructs() []any {
	return []any{
		&configVersionRow{}, &logFloorRow{}, &webhookRow{}, &webhookCountRow{}, &webhookHealthRow{}, &eventRow{}, &outboxRow{},
		&requestRow{}, &deliveryRow{}, &attemptRow{}, &idempotencyRow{}, &busStreamRow{},
		&accountRow{}, &projectRow{}, &bucketRow{}, &consumerRow{}, &apiKeyRow{}, &managerRow{}, &auditRow{},
	}
}

// TestSchema compares what the migrations make, on both databases, with the row structs
// and with the golden files.
func TestSchema(t *testing.T) {
	t.Parallel()
	for name, dialect := range map[string]struct {
		open            func(*testing.T) *Store
		columns, schema string
	}{
		"postgres": {postgresStore, `
			SELECT column_name FROM information_schema.columns
			WHERE table_schema = current_schema() AND table_name = $1 ORDER BY column_name`, postgresSchema},
		"sqlite": {sqliteStore, `SELECT name FROM pragma_table_info($1) ORDER BY name`, sqliteSchema},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := dialect.open(t)
			for _, row := range rowStructs() {
				parsed, err := schema.Parse(row, &sync.Map{}, schema.NamingStrategy{})
				if err != nil {
					t.Fatal(err)
				}
				live := texts(t, s, dialect.columns, parsed.Table)
				columns := slices.Sorted(slices.Values(parsed.DBNames))
				if diff := cmp.Diff(live, columns); diff != "" {
					t.Errorf("%s (-table +struct):\n%s", parsed.Table, diff)
				}
			}
			golden(t, "schema."+name+".golden", strings.Join(texts(t, s, dialect.schema), "\n")+"\n")
		})
	}
}

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

func texts(t *testing.T, s *Store, query string, args ...any) []string {
	t.Helper()
	rows, err := s.raw.QueryContext(t.Context(), query, args...)
	if err != nil {
		t.Fatal(err)
	}
	defer rows.Close()
	var list []string
	for rows.Next() {
		var text string
		if err := rows.Scan(&text); err != nil {
			t.Fatal(err)
		}
		list = append(list, text)
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return list
}

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
		if got, want := dateOf(at).time(), domain.Day(at); !got.Equal(want) {
			t.Errorf("%s is of %v, want %v", text, got, want)
		}
	}
}

// TestWebhooksAreCounted compares the counts that are kept with those that the migration
// makes of the webhooks that are there.
func TestWebhooksAreCounted(t *testing.T) {
	t.Parallel()
	for name, open := range map[string]func(*testing.T) *Store{"postgres": postgresStore, "sqlite": sqliteStore} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			create := func(account string) domain.WebhookID {
				w, _, err := s.CreateWebhook(t.Context(), domain.Webhook{Account: account}, nil)
				if err != nil {
					t.Fatal(err)
				}
				return w.ID
			}
			create("a")
			if err := s.DeleteWebhook(t.Context(), "a", create("a")); err != nil {
				t.Fatal(err)
			}
			for range 3 {
				create("b")
			}
			const counts = "SELECT account || ' ' || webhooks FROM webhook_counts WHERE webhooks > 0 ORDER BY account"
			kept := texts(t, s, counts)
			// Back to before that migration, with those that came after it.
			for _, statement := range []string{
				"DROP TABLE webhook_counts", "ALTER TABLE audit_log DROP COLUMN count", "DELETE FROM goose_db_version WHERE version_id >= 3",
			} {
				if _, err := s.raw.ExecContext(t.Context(), statement); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff([]string{"a 1", "b 3"}, kept); diff != "" {
				t.Errorf("kept (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(kept, texts(t, s, counts)); diff != "" {
				t.Errorf("counted by the migration (-kept +migrated):\n%s", diff)
			}
		})
	}
}
