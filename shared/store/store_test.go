package store_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// cluster is the Postgres of this test process: one for all tests, each with its own
// database.
type cluster struct {
	*pgtest.Cluster
	databases atomic.Int64
}

var shared cluster

func TestMain(m *testing.M) {
	os.Exit(run(m))
}

func run(m *testing.M) int {
	ctx := context.Background()
	c, err := pgtest.Start(ctx, "", "fsync=off")
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Postgres:", err)
		return 1
	}
	shared.Cluster = c
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

// template is a migrated database that tests get a copy of: quicker than migrating each.
const template = "migrated"

func makeTemplate(ctx context.Context, c *pgtest.Cluster) error {
	url, err := c.CreateDatabase(ctx, template)
	if err != nil {
		return err
	}
	s, err := store.Open(ctx, store.Options{URL: url, Now: storetest.Noon})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	return errors.Join(err, s.Close())
}

// database makes a database for one test: a migrated one, or an empty one.
func (c *cluster) database(tb testing.TB, migrated bool) string {
	tb.Helper()
	from := "template1"
	if migrated {
		from = template
	}
	name := fmt.Sprintf("test_%d", c.databases.Add(1))
	url, err := c.CloneDatabase(tb.Context(), from, name)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.DropDatabase(context.Background(), name); err != nil {
			tb.Errorf("drop database: %v", err)
		}
	})
	return url
}

func openStore(tb testing.TB, o store.Options) *store.Store {
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

func openPostgres(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	o.URL = shared.database(t, true)
	return openStore(t, o)
}

func openSQLite(t *testing.T, o store.Options) *store.Store {
	t.Helper()
	o.URL = "sqlite:" + filepath.Join(t.TempDir(), "way bill?#.db")
	return openStore(t, o)
}

func TestPostgres(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openPostgres)
}

func TestSQLite(t *testing.T) {
	t.Parallel()
	storetest.Run(t, openSQLite)
}
