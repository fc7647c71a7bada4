package count

import (
	"database/sql"
	"os"
	"path/filepath"
	"testing"
)

// Each commit is counted once with the pages that it appended, also when the log begins anew meanwhile; what another
// connection reads is none.
func TestSQLite(t *testing.T) {
	t.Parallel()
	path, statements := filepath.Join(t.TempDir(), "a file.db"), filepath.Join(t.TempDir(), "statements")
	if err := os.WriteFile(statements, []byte("7 3 \"INSERT INTO events VALUES (?)\"\n1 0 \"COMMIT\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	db, err := sql.Open("sqlite", "file:"+path+"?_pragma=journal_mode(WAL)&_pragma=wal_autocheckpoint(0)")
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	do := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	do("CREATE TABLE events (x)")
	do("CREATE TABLE deliveries (x)")
	s, err := OpenSQLite(t.Context(), path, statements)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	read := func() Reading {
		t.Helper()
		r := New()
		if err := s.Read(t.Context(), &r); err != nil {
			t.Fatal(err)
		}
		return r
	}
	before := read()
	for range 3 {
		do("INSERT INTO events VALUES (zeroblob(3000))")
	}
	first := read()
	did := first.Minus(before)
	if did.Counts[Commits] != 3 || did.Counts[LogBytes] < 3*4120 || did.Counts[RowBytes] < 9000 || did.Counts[RowBytes] > 9100 {
		t.Errorf("3 commits of 3,000 bytes are %v", did.Counts)
	}
	if got := before.Texts["INSERT INTO events VALUES …"]; got != (Did{N: 1, Work: 10}) || len(before.Texts) != 1 {
		t.Errorf("the statements are %v", before.Texts)
	}
	do("PRAGMA wal_checkpoint(PASSIVE)")
	read() // from now on the snapshot needs nothing of the log
	do("DELETE FROM events")
	do("INSERT INTO events VALUES (1)")
	if did := read().Minus(first); did.Counts[Commits] != 2 {
		t.Errorf("2 commits in a log that began anew are %v", did.Counts)
	}
}
