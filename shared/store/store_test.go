package store_test

import (
	"context"
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

var shared cluster //nolint:gochecknoglobals // set by TestMain alone

func TestMain(m *testing.M) {
	c, err := pgtest.Start(context.Background(), "", "fsync=off")
	if err != nil {
		fmt.Fprintln(os.Stderr, "these tests need Postgres:", err)
		os.Exit(1)
	}
	shared.Cluster = c
	code := m.Run()
	if err := c.Stop(); err != nil {
		fmt.Fprintln(os.Stderr, "stop Postgres:", err)
		code = 1
	}
	if err := goleak.Find(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// database makes an empty database for one test.
func (c *cluster) database(tb testing.TB) string {
	tb.Helper()
	name := fmt.Sprintf("test_%d", c.databases.Add(1))
	url, err := c.CreateDatabase(tb.Context(), name)
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
	o.URL = shared.database(t)
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
