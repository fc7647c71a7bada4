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

// copyPages is how many pages a copy writes and forces to the disk at a time. More at once would hold
// up the commits, which force the log to the same disk.
const copyPages = 512

// CopyTo writes a copy of a SQLite database to a new file, while this process and others go on
// writing: the copy has everything that was committed when it began, and nothing of what came later.
// Until it is done the log can't begin anew, so the log grows by what is written meanwhile. That is
// why pages are copied as they are, and not written anew in order (VACUUM INTO).
func (s *Store) CopyTo(ctx context.Context, path string) error {
	if !s.SQLite() {
		return errors.New("copy database: only a SQLite database is a file")
	}
	// Made here, because SQLite would make it readable by everyone. It takes an empty file.
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
	defer func() { _ = tx.Rollback() }() // it has read alone
	// The transaction begins with its first look at the file.
	if _, err := tx.ExecContext(ctx, "SELECT 1 FROM sqlite_schema LIMIT 1"); err != nil {
		return err
	}
	path, err := filepath.Abs(file.Name()) // else its first folder would be the host of the address
	if err != nil {
		return err
	}
	// What is copied is forced to the disk here; a copy that breaks off is of no use.
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
