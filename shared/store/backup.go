package store

import (
	"context"
	"errors"
	"fmt"
	"os"
)

// CopyTo writes a copy of a SQLite database to a new file, while this process and others go on
// writing: the copy has everything that was committed when it began, and nothing of what came later.
func (s *Store) CopyTo(ctx context.Context, path string) error {
	if !s.SQLite() {
		return errors.New("copy database: only a SQLite database is a file")
	}
	// Made here, because SQLite would make it readable by everyone. It takes an empty file.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	if err := file.Close(); err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	_, err = s.raw.ExecContext(ctx, "VACUUM INTO ?", path)
	return Wrap("copy database", err)
}

// Intact reads a whole SQLite database and returns an error if it is damaged.
func (s *Store) Intact(ctx context.Context) error {
	var said string
	if err := s.reading.QueryRowContext(ctx, "PRAGMA quick_check(1)").Scan(&said); err != nil {
		return Wrap("check database", err)
	}
	if said != "ok" {
		return errors.New("check database: the file is damaged")
	}
	return nil
}

// numbersAhead is what Restored adds to the numbers of transactions: far more than any
// installation has of them between two backups.
const numbersAhead = 1_000_000_000_000

// postgresRestored adds to the numbers and to what new events take theirs from.
const postgresRestored = `
DO $$
DECLARE added bigint;
BEGIN
	UPDATE feed_order SET xact = xact + %[1]d RETURNING xact INTO added;
	EXECUTE format('ALTER TABLE events ALTER COLUMN xact SET DEFAULT txid_current() + %%s', added);
END $$`

// Restored readies a database that came from a backup, before anything works with it. Feeds are in
// the order of the numbers of transactions, which go on from the backup, or begin anew in a new
// server. From now on they are above all that were given before, so every cursor stays good:
// those of the backup, and those that were given after it.
func (s *Store) Restored(ctx context.Context) error {
	statement := "UPDATE feed_order SET xact = xact + %[1]d"
	if !s.SQLite() {
		statement = postgresRestored
	}
	_, err := s.raw.ExecContext(ctx, fmt.Sprintf(statement, numbersAhead))
	return Wrap("ready a restored database", err)
}
