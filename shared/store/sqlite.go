package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"time"

	gormsqlite "gorm.io/driver/sqlite"
	"gorm.io/gorm"
	_ "modernc.org/sqlite" // registers the driver "sqlite", pure Go
)

const (
	sqlitePrefix = "sqlite:"
	sqliteDriver = "sqlite"
	sqliteName   = "sqlite" // gorm's name of the dialect
)

// sqliteDialect works on one file in WAL mode: one connection writes, several read.
type sqliteDialect struct {
	writer, reader *sql.DB
	file           *os.File // nil: nothing is written
	prepared       *statementCache
	checkpoints    *checkpoints // nil: nothing is written
}

func openSQLite(path string, readers int) (*sqliteDialect, error) {
	if path == "" || path == ":memory:" {
		return nil, errors.New("an SQLite database URL must name a file: sqlite:FILE")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find database file: %w", err)
	}
	// The file is made here because SQLite would make it readable by everyone; its companions
	// (-wal, -shm) take their rights from it.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create database file: %w", err)
	}
	// A process that was killed may have moved pages that are not on the disk yet. The file is synced before a commit
	// can start the log over, because after a power cut only the log has these pages.
	if err := file.Sync(); err != nil {
		return nil, errors.Join(fmt.Errorf("create database file: %w", err), file.Close())
	}
	// The file is closed last, because the system drops SQLite's locks on a file when any handle of it is closed.
	d := &sqliteDialect{file: file}
	if d.writer, err = openSQLiteFile(sqliteDSN(path, false)); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	d.prepared = newPrepared(d.writer)
	d.prepared.add(nextXact)
	d.writer.SetMaxOpenConns(1)
	d.writer.SetMaxIdleConns(1)
	if d.reader, err = openSQLiteFile(sqliteDSN(path, true)); err != nil {
		return nil, errors.Join(err, d.writer.Close(), file.Close())
	}
	d.reader.SetMaxOpenConns(readers)
	d.reader.SetMaxIdleConns(readers)
	if d.checkpoints, err = newCheckpoints(d.writer, file); err != nil {
		return nil, errors.Join(err, d.reader.Close(), d.writer.Close(), file.Close())
	}
	d.checkpoints.start()
	return d, nil
}

// lookIntoSQLite opens an existing file only to read it. If there is no log, no process has the
// file open. Then SQLite would make a log unless it is told that the file does not change.
func lookIntoSQLite(path string, readers int) (*sqliteDialect, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find database file: %w", err)
	}
	if _, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("find database file: %w", err)
	}
	query := url.Values{"mode": {"ro"}, "_pragma": {"busy_timeout(1500)", "query_only(1)"}}
	if _, err := os.Stat(path + "-wal"); errors.Is(err, fs.ErrNotExist) {
		query.Set("immutable", "1")
	}
	db, err := openSQLiteFile((&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(readers)
	return &sqliteDialect{writer: db, reader: db, prepared: newPrepared(db)}, nil
}

// busyTimeout is how long a statement waits for a lock. It is less than the 2 s in which api answers 503.
const busyTimeout = 1500 * time.Millisecond

// sqliteDSN sets all of SQLite's settings. FULL: committed data survives a power cut. Commits make no checkpoints, see
// checkpoints. A pragma in more replaces the one of the same name.
func sqliteDSN(path string, reading bool, more ...string) string {
	pragmas := []string{
		fmt.Sprintf("busy_timeout(%d)", busyTimeout.Milliseconds()), "journal_mode(WAL)", "synchronous(FULL)",
		"cache_size(-32768)", "wal_autocheckpoint(0)",
	}
	query := url.Values{}
	if reading {
		pragmas = append(pragmas, "query_only(1)")
	} else {
		pragmas = append(pragmas, fmt.Sprintf("journal_size_limit(%d)", logLimit), "foreign_keys(1)")
		query.Set("_txlock", "immediate")
	}
	query["_pragma"] = append(pragmas, more...)
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

func (d *sqliteDialect) addresses() []string { return nil }

func (d *sqliteDialect) handles() (write, read *sql.DB) { return d.writer, d.reader }

func (d *sqliteDialect) dialector(db gorm.ConnPool) gorm.Dialector {
	return gormsqlite.New(gormsqlite.Config{DriverName: sqliteDriver, Conn: db})
}

func (d *sqliteDialect) close() error {
	var err error
	if d.checkpoints != nil {
		err = d.checkpoints.close()
	}
	err = errors.Join(err, d.prepared.close(), d.reader.Close(), d.writer.Close())
	if d.file == nil {
		return err
	}
	// Closing twice is no error, as with a pool.
	if closed := d.file.Close(); !errors.Is(closed, os.ErrClosed) {
		err = errors.Join(err, closed)
	}
	return err
}

func (d *sqliteDialect) moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func (d *sqliteDialect) date(day time.Time) any { return int64(DateOf(day)) }

func (d *sqliteDialect) prepareDays(context.Context, ...time.Time) error { return nil }

func (d *sqliteDialect) lead(context.Context) (Lease, bool, error) {
	return &soleLease{lost: make(chan struct{})}, true, nil
}
