package pgtest_test

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/pgtest"
)

func TestClusterSurvivesKill(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	c, err := pgtest.Start(ctx, "")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Stop(); err != nil {
			t.Errorf("stop: %v", err)
		}
	})
	url, err := c.CreateDatabase(ctx, "one")
	if err != nil {
		t.Fatal(err)
	}
	exec(t, url, "CREATE TABLE kept AS SELECT 42 AS answer")
	if err := c.Kill(); err != nil {
		t.Fatal(err)
	}
	if _, err := pgx.Connect(ctx, url); err == nil {
		t.Fatal("a killed cluster still answers")
	}
	if err := c.Resume(ctx); err != nil {
		t.Fatal(err)
	}
	exec(t, url, "SELECT 1 / (SELECT count(*) FROM kept)")
	if err := c.DropDatabase(ctx, "one"); err != nil {
		t.Fatal(err)
	}
}

func exec(t *testing.T, url, sql string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), sql); err != nil {
		t.Fatalf("%s: %v", sql, err)
	}
}
