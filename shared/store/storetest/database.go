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
var server struct{ *Templates }

// template is the migrated Postgres database from which others are copied.
const template = "migrated"

// Templates are migrated databases that tests get copies of. That is faster than migrating each:
// with the race detector, a SQLite file takes 300 ms of a processor.
type Templates struct {
	cluster *pgtest.Cluster
	made    atomic.Int64
	file    []byte // the SQLite file
}

// NewTemplates makes the templates, for Postgres in the cluster.
func NewTemplates(ctx context.Context, c *pgtest.Cluster) (*Templates, error) {
	address, err := c.CreateDatabase(ctx, template)
	if err != nil {
		return nil, err
	}
	if err := migrate(ctx, patient(address)); err != nil {
		return nil, err
	}
	dir, err := os.MkdirTemp("", "waybill-template-")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	path := filepath.Join(dir, template)
	if err := migrate(ctx, "sqlite:"+path); err != nil {
		return nil, err
	}
	file, err := os.ReadFile(path)
	return &Templates{cluster: c, file: file}, err
}

func migrate(ctx context.Context, address string) error {
	s, err := store.Open(ctx, store.Options{URL: address, Now: Noon})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	return errors.Join(err, s.Close())
}

// SQLite makes a copy of the SQLite template and returns its path.
func (m *Templates) SQLite(tb testing.TB) string {
	tb.Helper()
	path := filepath.Join(tb.TempDir(), "way bill?#.db")
	if err := os.WriteFile(path, m.file, 0o600); err != nil {
		tb.Fatal(err)
	}
	return path
}

// Postgres makes a copy of the Postgres template and returns its URL.
func (m *Templates) Postgres(tb testing.TB) string {
	tb.Helper()
	return m.clone(tb, template)
}

func (m *Templates) clone(tb testing.TB, from string) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", m.made.Add(1))
	address, err := m.cluster.CloneDatabase(tb.Context(), from, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.cluster.DropDatabase(context.Background(), name); err != nil {
			tb.Errorf("drop database: %v", err)
		}
	})
	return patient(address)
}

// Main starts a Postgres server, runs the tests of a package and returns the exit code. Goroutines
// that are left at the end make it fail, except those in leaks.
func Main(m *testing.M, leaks ...goleak.Option) int {
	ctx := context.Background()
	c, err := pgtest.Start(ctx, "", pgtest.Disposable()...)
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Postgres:", err)
		return 1
	}
	code := 1
	if server.Templates, err = NewTemplates(ctx, c); err != nil {
		fmt.Fprintln(os.Stderr, "make template databases:", err)
	} else {
		code = m.Run()
	}
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop Postgres:", err)
		code = 1
	}
	if err := goleak.Find(leaks...); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	return code
}

// patient makes connections wait longer than a service does, because a test server shares its
// machine with many others.
func patient(address string) string { return address + "&connect_timeout=30" }

// Kind is Postgres or SQLite.
type Kind struct{ postgres bool }

// Postgres returns the kind Postgres.
func Postgres() Kind { return Kind{postgres: true} }

// SQLite returns the kind SQLite.
func SQLite() Kind { return Kind{} }

// Each runs a test for both kinds, in parallel.
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
	driver, dsn string // to use the database without the store
}

// Fresh makes a database.
func (k Kind) Fresh(tb testing.TB) Database {
	tb.Helper()
	if !k.postgres {
		path := filepath.Join(tb.TempDir(), "way bill?#.db")
		if server.Templates != nil { // otherwise the package does not use Main
			path = server.SQLite(tb)
		}
		return Database{URL: "sqlite:" + path, driver: "sqlite", dsn: (&url.URL{Scheme: "file", Path: path}).String()}
	}
	return onPostgres(server.Postgres(tb))
}

// Empty makes a Postgres database without migrations.
func Empty(tb testing.TB) Database {
	tb.Helper()
	return onPostgres(server.clone(tb, "template1"))
}

func onPostgres(address string) Database { return Database{URL: address, driver: "pgx", dsn: address} }

// Open opens the database, migrated, with these options except the URL.
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

// Beneath returns a separate connection to the database that does not use the store.
func (d Database) Beneath(tb testing.TB) *sql.DB {
	tb.Helper()
	db, err := sql.Open(d.driver, d.dsn)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = db.Close() })
	return db
}
