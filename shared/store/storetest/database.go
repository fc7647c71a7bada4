package storetest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
)

// server is the Postgres of this test process: one for all tests, each with its own
// database.
//
//nolint:gochecknoglobals // initdb takes seconds, and tests of a package share nothing else
var server struct {
	*pgtest.Cluster
	databases atomic.Int64
}

// template is a migrated database that tests get a copy of: quicker than migrating each.
const template = "migrated"

// Main runs the tests of a package beside a Postgres server and returns the code to exit
// with. Goroutines that are left at the end fail it.
func Main(m *testing.M) int {
	ctx := context.Background()
	c, err := pgtest.Start(ctx, "", "fsync=off")
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Postgres:", err)
		return 1
	}
	server.Cluster = c
	code := 1
	if err := makeTemplate(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "make template database:", err)
	} else {
		code = m.Run()
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop Postgres:", err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

func makeTemplate(ctx context.Context, c *pgtest.Cluster) error {
	address, err := c.CreateDatabase(ctx, template)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Options{URL: patient(address), Now: Noon})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	return errors.Join(err, s.Close())
}

// patient has connections wait longer than a service does: a server of tests shares its
// machine with many others.
func patient(address string) string { return address + "&connect_timeout=30" }

// Kind is Postgres or SQLite.
type Kind struct{ postgres bool }

// Postgres is that kind.
func Postgres() Kind { return Kind{postgres: true} }

// SQLite is that kind.
func SQLite() Kind { return Kind{} }

// Each runs a test for both kinds, side by side.
func Each(t *testing.T, test func(t *testing.T, kind Kind)) {
	t.Helper()
	for name, kind := range map[string]Kind{"postgres": Postgres(), "sqlite": SQLite()} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, kind)
		})
	}
}

// Database is a database that one test has to itself.
type Database struct {
	URL         string
	driver, dsn string // to look beneath the store
}

// Fresh makes a database.
func (k Kind) Fresh(tb testing.TB) Database {
	tb.Helper()
	if !k.postgres {
		path := filepath.Join(tb.TempDir(), "way bill?#.db")
		return Database{URL: "sqlite:" + path, driver: "sqlite", dsn: (&url.URL{Scheme: "file", Path: path}).String()}
	}
	return postgresDatabase(tb, template)
}

// Empty makes a database on Postgres that was not migrated.
func Empty(tb testing.TB) Database {
	tb.Helper()
	return postgresDatabase(tb, "template1")
}

func postgresDatabase(tb testing.TB, from string) Database {
	tb.Helper()
	name := fmt.Sprintf("test_%d", server.databases.Add(1))
	address, err := server.CloneDatabase(tb.Context(), from, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := server.DropDatabase(context.Background(), name); err != nil {
			tb.Errorf("drop database: %v", err)
		}
	})
	address = patient(address)
	return Database{URL: address, driver: "pgx", dsn: address}
}

// Open opens the database, migrated, with the options but for their URL.
func (d Database) Open(tb testing.TB, o store.Options) *store.Store {
	tb.Helper()
	o.URL = d.URL
	s := Open(tb, o)
	if _, err := s.Migrate(tb.Context()); err != nil {
		tb.Fatalf("migrate: %v", err)
	}
	return s
}

// Open opens a store as the options say and closes it at the end of the test.
func Open(tb testing.TB, o store.Options) *store.Store {
	tb.Helper()
	s, err := store.Open(tb.Context(), o)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := s.Close(); err != nil {
			tb.Errorf("close store: %v", err)
		}
	})
	return s
}

// Beneath returns a connection of its own to the database, past the store.
func (d Database) Beneath(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
