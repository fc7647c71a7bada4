package store

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"

	"modernc.org/sqlite"
)

// copyPages is how many pages a copy writes and flushes to the disk at a time. More at once would
// hold up the commits, which flush the log to the same disk.
const copyPages = 512

// CopyTo writes a copy of a SQLite database to a new file, while this and other processes go on
// writing. The copy has everything that was committed when it began, and nothing that came later.
// Until it is done the log can't start over, so the log grows by everything that is written. To be
// done soon, CopyTo copies pages as they are and does not rewrite them in order (VACUUM INTO).
func (s *Store) CopyTo(ctx context.Context, path string) error {
	if !s.SQLite() {
		return errors.New("copy database: only a SQLite database is a file")
	}
	// The file is made here, because SQLite would make it readable by
	// everyone. SQLite accepts an empty file.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("copy database: %w", err)
	}
	return Wrap("copy database", errors.Join(s.copyTo(ctx, file), file.Close()))
}

func (s *Store) copyTo(ctx context.Context, file *os.File) error {
	conn, err := s.reading.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	tx, err := conn.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // the transaction has only read
	// The transaction begins only when it first reads the file.
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1"); err != nil {
		return err
	}
	path, err := filepath.Abs(file.Name()) // otherwise the first folder would be the host of the address
	if err != nil {
		return err
	}
	// The copied pages are flushed to the disk here; a copy that breaks off is useless.
	query := url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)"}}
	to := (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
	return conn.Raw(func(driver any) error {
		source, ok := driver.(interface {
			NewBackup(to string) (*sqlite.Backup, error)
		})
		if !ok {
			return fmt.Errorf("%T makes no copies", driver)
		}
		backup, err := source.NewBackup(to)
		if err != nil {
			return err
		}
		for more := true; more && err == nil; {
			if more, err = backup.Step(copyPages); err == nil {
				err = errors.Join(file.Sync(), ctx.Err())
			}
		}
		return errors.Join(err, backup.Finish(), file.Sync())
	})
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

// numbersAhead is what Restored adds to the numbers of transactions: far more transactions than any
// installation has between two backups.
const numbersAhead = 1_000_000_000_000

// postgresRestored adds to the stored numbers, and to the number from which new events take theirs.
const postgresRestored = `
DO $$
DECLARE added bigint;
BEGIN
	UPDATE feed_order SET xact = xact + %[1]d RETURNING xact INTO added;
	EXECUTE format('ALTER TABLE events ALTER COLUMN xact SET DEFAULT txid_current() + %%s', added);
END $$`

// Restored prepares a database that came from a backup, before any process uses it. Feeds are in
// the order of the numbers of transactions. After a backup these numbers go on from the backup, or
// start over in a new server. Restored raises them above all numbers that were given before, so
// that every cursor stays valid: those in the backup, and those that were given after it.
func (s *Store) Restored(ctx context.Context) error {
	statement := "UPDATE feed_order SET xact = xact + %[1]d"
	if !s.SQLite() {
		statement = postgresRestored
	}
	_, err := s.raw.ExecContext(ctx, fmt.Sprintf(statement, numbersAhead))
	return Wrap("ready a restored database", err)
}
