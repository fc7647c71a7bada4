package store_test

import (
	"context"
	"database/sql"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// rows is how many the large tables have before they are migrated.
var rows = flag.Int("rows", 100_000, "rows of the large tables that are migrated while they are written to")

// firstGentle is the first migration that lets writers go on, however large the tables are: the first one after
// that which makes the tables of the log.
const firstGentle = 2

// mostStall is how long a writer may wait for a migration.
const mostStall = time.Second

// writers are what goes on during a migration: each inserts or changes one row of a large table.
func writers() map[string]string {
	return map[string]string{
		"events":     `INSERT INTO events (day, account, id, type, occurred_at, payload, received_at) VALUES (current_date, 'default', 'w' || $1, 'shipment.created', 'now', 'x', now())`,
		"deliveries": `INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, in_lane, reason, test, updated_at) VALUES (current_date, 'w' || $1, 'default', 'wh', 'evt', 'shipment.created', 'retrying', 1, 1, 1, false, '', false, now())`,
		"attempts":   `INSERT INTO attempts (day, delivery_id, id, number, started_at, duration_us, status, error, body) VALUES (current_date, 'w' || $1, 'a', 1, now(), 1, 200, '', '')`,
		"outbox":     `INSERT INTO outbox (received_at, account, id, version) VALUES (now(), 'default', 'w' || $1, 1)`,
	}
}

// Migrations of a large installation let those who write go on, also behind a dump of the database, which
// uses all tables for long.
func TestMigrationsLetWritersGoOn(t *testing.T) {
	t.Parallel()
	d := storetest.Empty(t)
	s := storetest.Open(t, store.Options{URL: d.URL})
	if err := s.MigrateTo(t.Context(), firstGentle-1); err != nil {
		t.Fatal(err)
	}
	if err := s.PrepareDays(t.Context(), store.DaysAround(time.Now())...); err != nil {
		t.Fatal(err)
	}
	db := d.Beneath(t)
	fill(t, db)
	dump, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for table := range writers() {
		if _, err := dump.ExecContext(t.Context(), "LOCK TABLE "+table+" IN ACCESS SHARE MODE"); err != nil {
			t.Fatal(err)
		}
	}
	dumped := time.AfterFunc(2*time.Second, func() { _ = dump.Rollback() })
	defer dumped.Stop()

	writing, stop := context.WithCancel(t.Context())
	var all, warm sync.WaitGroup
	for table, statement := range writers() {
		warm.Add(1)
		all.Go(func() { write(writing, t, db, table, statement, warm.Done) })
	}
	warm.Wait()
	started := time.Now()
	applied, err := s.Migrate(t.Context())
	stop()
	all.Wait()
	if err != nil || len(applied) == 0 {
		t.Errorf("%d migrations were applied: %v", len(applied), err)
	}
	t.Logf("%d migrations of %d rows took %s", len(applied), *rows, time.Since(started))
}

func fill(t *testing.T, db *sql.DB) {
	t.Helper()
	for _, statement := range []string{
		`INSERT INTO events (day, account, id, type, occurred_at, payload, received_at) SELECT current_date, 'default', 'e' || n, 'shipment.created', 'now', repeat('x', 200)::bytea, now() FROM generate_series(1, %d) n`,
		`INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, in_lane, reason, test, updated_at) SELECT current_date, 'd' || n, 'default', 'wh' || n %% 1000, 'e' || n, 'shipment.created', CASE WHEN n %% 10 = 0 THEN 'failed' ELSE 'delivered' END, 1, 1, 1, false, '', false, now() FROM generate_series(1, %d) n`,
		`INSERT INTO attempts (day, delivery_id, id, number, started_at, duration_us, status, error, body) SELECT current_date, 'd' || n, 'a', 2, now(), 1, 200, '', '' FROM generate_series(1, %d) n`,
	} {
		if _, err := db.ExecContext(t.Context(), fmt.Sprintf(statement, *rows)); err != nil {
			t.Fatal(err)
		}
	}
}

// write writes again and again, and calls warm after a while. From then on, no write may take mostStall longer
// than the longest had taken before: the machine may be busy with other things.
func write(ctx context.Context, t *testing.T, db *sql.DB, table, statement string, warm func()) {
	t.Helper()
	const before = 200
	usual, longest, n := time.Duration(0), time.Duration(0), 0
	var when time.Time
	for ; ctx.Err() == nil; n++ {
		at := time.Now()
		if _, err := db.ExecContext(t.Context(), statement, strconv.Itoa(n)); err != nil {
			t.Errorf("write to %s: %v", table, err)
			break
		}
		if took := time.Since(at); took > longest {
			longest, when = took, at
		}
		if n == before {
			usual, longest = longest, 0
			warm()
		}
	}
	if n <= before {
		warm()
	}
	t.Logf("%s: %d writes; the longest took %s from %s on, and %s before the migrations", table, n, longest, when.Format("15:04:05.000"), usual)
	if longest > mostStall+usual {
		t.Errorf("a write to %s took %s, want %s more than %s at most", table, longest, mostStall, usual)
	}
}

// Who was a manager before managers were invited stays one.
func TestManagersThatAreThereHaveAccepted(t *testing.T) {
	t.Parallel()
	const invitations = 30
	for name, url := range map[string]string{"postgres": storetest.Empty(t).URL, "sqlite": "sqlite:" + filepath.Join(t.TempDir(), "waybill.db")} {
		s := storetest.Open(t, store.Options{URL: url})
		if err := s.MigrateTo(t.Context(), invitations-1); err != nil {
			t.Fatal(err)
		}
		writing, _ := s.Handles()
		at := s.Moment(time.Now())
		for _, statement := range []string{
			`INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('b', 'default', 'bucket', '', '', true, $1, $1)`,
			`INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES ('c', 'b', 'consumer', '', '', '', '', $1, $1)`,
			`INSERT INTO key_managers (id, consumer_id, email, sub, created_at) VALUES ('before', 'c', 'ada@example.com', 'ada', $1)`,
			"",
			// as an api of the version before, which runs beside this one
			`INSERT INTO key_managers (id, consumer_id, email, sub, created_at) VALUES ('after', 'c', 'grace@example.com', 'grace', $1)`,
		} {
			if statement == "" {
				if _, err := s.Migrate(t.Context()); err != nil {
					t.Fatal(err)
				}
				continue
			}
			if _, err := writing.ExecContext(t.Context(), statement, at); err != nil {
				t.Fatalf("%s: %s: %v", name, statement, err)
			}
		}
		for id, want := range map[string]bool{"before": true, "after": false} {
			var accepted bool
			if err := writing.QueryRowContext(t.Context(), "SELECT accepted_at IS NOT NULL FROM key_managers WHERE id = $1", id).Scan(&accepted); err != nil || accepted != want {
				t.Errorf("%s: %s has accepted: %t, %v", name, id, accepted, err)
			}
		}
	}
}

// What a migration may not do to a table that may have millions of rows: it would hold up writers for as long as
// it takes to read them all. docs/upgrade.md says what to do instead.
func TestMigrationsAreGentle(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("migrations/postgres/*.sql")
	if err != nil || len(files) == 0 {
		t.Fatalf("no migrations: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, fault := range harsh(string(text)) {
			t.Errorf("%s %s", file, fault)
		}
	}
	for _, statement := range []string{
		"CREATE INDEX i ON deliveries (account);", "CREATE UNIQUE INDEX IF NOT EXISTS i ON ONLY gateway_requests (at);", "UPDATE audit_log SET count = 1;",
		"ALTER TABLE attempts ALTER COLUMN number TYPE bigint;", "ALTER TABLE events ALTER COLUMN shipment SET NOT NULL;",
		"ALTER TABLE events ADD COLUMN xact bigint NOT NULL DEFAULT txid_current();", "ALTER TABLE events ADD COLUMN of_day date GENERATED ALWAYS AS (day) STORED;",
	} {
		if len(harsh(statement)) == 0 {
			t.Errorf("nothing is said against %s", statement)
		}
	}
}

// harsh returns what a migration does to tables that may be large and that would hold up writers.
func harsh(migration string) []string {
	large := `(?:events|deliveries|attempts|audit_log|gateway_requests|gateway_calls|rollups|rollup_deltas|idempotency_keys|meter_hours)\b`
	made := tablesMade(migration)
	var faults []string
	for what, pattern := range map[string]*regexp.Regexp{
		"builds an index that writers wait for":     regexp.MustCompile(`(?is)CREATE (?:UNIQUE )?INDEX (?:IF NOT EXISTS )?\w+ ON (?:ONLY )?` + large),
		"changes every row":                         regexp.MustCompile(`(?is)\bUPDATE ` + large),
		"changes the type of a column":              regexp.MustCompile(`(?is)ALTER TABLE ` + large + `[^;]*ALTER COLUMN \w+ (?:SET DATA )?TYPE`),
		"reads every row to check it":               regexp.MustCompile(`(?is)ALTER TABLE ` + large + `[^;]*(?:SET NOT NULL|ADD CHECK|ADD CONSTRAINT)[^;]*`),
		"adds a column whose default must be asked": regexp.MustCompile(`(?is)ALTER TABLE ` + large + `[^;]*ADD COLUMN[^;,]*(?:DEFAULT|GENERATED)[^;,]*\(`),
	} {
		for _, match := range pattern.FindAllString(migration, -1) {
			if !made.MatchString(match) && !strings.Contains(match, "NOT VALID") { // an empty table, or what is only checked later
				faults = append(faults, what+": "+match)
			}
		}
	}
	return faults
}

// tablesMade returns a pattern of statements on tables that the migration itself makes.
func tablesMade(migration string) *regexp.Regexp {
	names := []string{"none"}
	for _, match := range regexp.MustCompile(`CREATE TABLE (\w+)`).FindAllStringSubmatch(migration, -1) {
		names = append(names, match[1])
	}
	return regexp.MustCompile(`(?is)(?:ON (?:ONLY )?|TABLE |UPDATE )(?:` + strings.Join(names, "|") + `)\b`)
}
