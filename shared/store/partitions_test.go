package store_test

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// longReader begins a transaction that has read the log and goes on.
func longReader(t *testing.T, db *sql.DB) *sql.Tx {
	t.Helper()
	reader, err := db.BeginTx(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = reader.Rollback() })
	for _, table := range []string{"events", "deliveries", "attempts"} {
		if _, err := reader.ExecContext(t.Context(), "SELECT count(*) FROM "+table); err != nil {
			t.Fatal(err)
		}
	}
	return reader
}

// until fails the test unless the query says true before long.
func until(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	deadline := time.Now().Add(time.Minute)
	for {
		var is bool
		if err := db.QueryRowContext(t.Context(), query).Scan(&is); err != nil {
			t.Fatal(err)
		}
		if is {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("not within a minute: %s", query)
		}
	}
}

// logUsed reads and writes all of the log. It fails when a lock is not free for a tenth of a second.
func logUsed(t *testing.T, db *sql.DB, n int) {
	t.Helper()
	conn, err := db.Conn(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	statements := []string{"SET lock_timeout = '100ms'"}
	for table, statement := range writers() {
		statements = append(statements, "SELECT count(*) FROM "+table, fmt.Sprintf("DO $do$ BEGIN EXECUTE $q$%s$q$ USING '%d'; END $do$", statement, n))
	}
	for _, statement := range statements {
		if _, err := conn.ExecContext(t.Context(), statement); err != nil {
			t.Errorf("while a day is dropped: %s: %v", statement, err)
		}
	}
}

// Days are dropped while others read and write. One that a reader is still in waits for it, and nobody waits behind.
func TestDropDaysLetsOthersGoOn(t *testing.T) {
	t.Parallel()
	d := storetest.Postgres().Fresh(t)
	s := d.Open(t, store.Options{})
	today := domain.Day(time.Now())
	old := today.AddDate(0, 0, -9)
	if err := s.PrepareDays(t.Context(), old, old.AddDate(0, 0, 1), today); err != nil {
		t.Fatal(err)
	}
	db := d.Beneath(t)
	reader := longReader(t, db)

	broken, cancel := context.WithCancel(t.Context())
	dropped := make(chan error, 1)
	go func() {
		_, err := s.DropDays(broken, today)
		dropped <- err
	}()
	until(t, db, `SELECT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND application_name = 'waybill')`)
	logUsed(t, db, 1)
	cancel()
	if err := <-dropped; err == nil {
		t.Error("a day was dropped that a reader is in")
	}
	logUsed(t, db, 2) // what was broken off is in nobody's way
	if err := reader.Rollback(); err != nil {
		t.Fatal(err)
	}
	until(t, db, `SELECT NOT EXISTS (SELECT 1 FROM pg_stat_activity WHERE datname = current_database() AND query LIKE '%DETACH%' AND state <> 'idle' AND pid <> pg_backend_pid())`)

	query := `SELECT count(*) FROM pg_class WHERE relname ~ '^(events|deliveries|attempts)_p' AND relkind = 'r' AND right(relname, 8) < $1`
	for deadline := time.Now().Add(30 * time.Second); ; { // the server may not have ended yet what was broken off
		if _, err := s.DropDays(t.Context(), today); err != nil {
			t.Error(err)
		}
		var left int
		if err := db.QueryRowContext(t.Context(), query, today.Format("20060102")).Scan(&left); err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d partitions of days before today are left", left)
		}
	}
	logUsed(t, db, 3)
}

// A day that was taken out of the log by a process that then ended is dropped by the next one.
func TestDropDaysEndsWhatWasTakenOut(t *testing.T) {
	t.Parallel()
	d := storetest.Postgres().Fresh(t)
	s := d.Open(t, store.Options{})
	today := domain.Day(time.Now())
	old := today.AddDate(0, 0, -9)
	if err := s.PrepareDays(t.Context(), old, today); err != nil {
		t.Fatal(err)
	}
	db := d.Beneath(t)
	if _, err := db.ExecContext(t.Context(), "ALTER TABLE attempts DETACH PARTITION "+store.Partition("attempts", old)); err != nil {
		t.Fatal(err)
	}
	if days, err := s.DropDays(t.Context(), today); err != nil || !slices.ContainsFunc(days, old.Equal) {
		t.Errorf("dropped %v: %v", days, err)
	}
	if days, err := s.DropDays(t.Context(), today); err != nil || len(days) != 0 {
		t.Errorf("dropped again: %v, %v", days, err)
	}
	until(t, db, `SELECT NOT EXISTS (SELECT 1 FROM pg_class WHERE relname = '`+store.Partition("attempts", old)+`')`)
}
