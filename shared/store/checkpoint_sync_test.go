package store

import (
	"bytes"
	"database/sql"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"modernc.org/sqlite"
)

// TestLogIsKeptUntilSynced: the log has what a power cut would take from the file, so no commit begins the log anew before
// the file is on the disk. When the file can't be forced there, the log stays, even behind the last connection.
func TestLogIsKeptUntilSynced(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "waybill.db")
	d, err := openSQLite(path, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := d.checkpoints.close(); err != nil { // from now on they are made here alone
		t.Fatal(err)
	}
	c, err := newCheckpoints(d.writer, d.file)
	if err != nil {
		t.Fatal(err)
	}
	d.checkpoints = c
	t.Cleanup(func() { _ = c.reader.Close() }) // which a failure leaves open
	do := func(text string) {
		t.Helper()
		if _, err := d.writer.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	begun := func() []byte { // the head of the log has other salts each time that the log begins anew
		t.Helper()
		head, err := os.ReadFile(path + "-wal")
		if err != nil || len(head) < 32 {
			t.Fatalf("%d bytes, %v", len(head), err)
		}
		return head[16:24]
	}
	do("CREATE TABLE t (x)")
	first, synced := begun(), 0
	c.sync = func(*os.File) error {
		synced++
		do("INSERT INTO t VALUES (1)")
		if !bytes.Equal(begun(), first) {
			t.Error("a commit began the log anew before the file was on the disk")
		}
		return nil
	}
	if err := c.move(t.Context()); err != nil || synced != 1 {
		t.Fatalf("%d syncs, %v", synced, err)
	}
	if err := c.move(t.Context()); err != nil || c.waiting.Load() != 0 && c.pages.Load() == 0 {
		t.Fatalf("%d pages, %d wait, %v", c.pages.Load(), c.waiting.Load(), err)
	}
	no := errors.New("no disk")
	c.sync = func(*os.File) error { return no }
	if err := c.move(t.Context()); !errors.Is(err, no) {
		t.Errorf("the fault is told as %v", err)
	}
	if err := c.round(t.Context()); !errors.Is(err, no) {
		t.Errorf("checkpoints go on with %v", err)
	}
	c.start()
	if err := d.close(); !errors.Is(err, no) {
		t.Errorf("it closes with %v", err)
	}
	begun() // it is there
	again, err := sql.Open(sqliteDriver, sqliteDSN(path, true))
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	var n int
	if err := again.QueryRowContext(t.Context(), "SELECT count(*) FROM t").Scan(&n); err != nil || n != 2 {
		t.Errorf("%d rows, %v", n, err)
	}
}

// TestMemoryIsGivenBackAtRest: the writing connection keeps its pages while something is written, and not when that is over.
func TestMemoryIsGivenBackAtRest(t *testing.T) {
	t.Parallel()
	d, err := openSQLite(filepath.Join(t.TempDir(), "waybill.db"), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer d.close()
	d.checkpoints.stop() // from now on it looks for rest here alone
	<-d.checkpoints.ended
	const filled = "WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) INSERT INTO t SELECT randomblob(3000) FROM n"
	for _, text := range []string{"CREATE TABLE t (x)", filled} {
		if _, err := d.writer.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	kept := func() (n int) {
		t.Helper()
		conn, err := d.writer.Conn(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		err = conn.Raw(func(driver any) error {
			n, _, err = driver.(sqlite.DBStatus).Status(sqlite.DBStatusCacheUsed, false)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	for _, c := range []struct {
		when string
		rest bool
	}{{"after work", false}, {"at rest", true}} {
		if err := errors.Join(d.checkpoints.round(t.Context()), d.checkpoints.rest(t.Context())); err != nil {
			t.Fatal(err)
		}
		if n := kept(); (n < 1<<20) != c.rest {
			t.Errorf("%s the connection keeps %d KB", c.when, n>>10)
		}
	}
}
