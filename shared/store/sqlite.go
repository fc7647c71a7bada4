package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
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

// sqliteEngine works on one file in WAL mode: one connection writes, several read.
type sqliteEngine struct {
	writer, reader *sql.DB

	mu         sync.Mutex
	statements map[string]*sql.Stmt // prepared on the writing connection
}

func openSQLite(path string, readers int) (*sqliteEngine, error) {
	if path == "" || path == ":memory:" {
		return nil, errors.New("an SQLite database URL must name a file: sqlite:FILE")
	}
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, fmt.Errorf("find database file: %w", err)
	}
	// Made here because SQLite would make it readable by everyone; its companions (-wal,
	// -shm) take their rights from it.
	file, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create database file: %w", err)
	}
	if err := file.Close(); err != nil {
		return nil, fmt.Errorf("create database file: %w", err)
	}
	e := &sqliteEngine{statements: map[string]*sql.Stmt{}}
	if e.writer, err = sql.Open(sqliteDriver, sqliteDSN(path, false)); err != nil {
		return nil, err
	}
	e.writer.SetMaxOpenConns(1)
	e.writer.SetMaxIdleConns(1)
	if e.reader, err = sql.Open(sqliteDriver, sqliteDSN(path, true)); err != nil {
		return nil, errors.Join(err, e.writer.Close())
	}
	e.reader.SetMaxOpenConns(readers)
	e.reader.SetMaxIdleConns(readers)
	return e, nil
}

// sqliteDSN is the one place where SQLite's settings are made. FULL: what is committed
// survives a power cut. The busy timeout stays below the 2 s in which api answers 503.
func sqliteDSN(path string, reading bool) string {
	pragmas := []string{"busy_timeout(1500)", "journal_mode(WAL)", "synchronous(FULL)", "cache_size(-32768)"}
	query := url.Values{}
	if reading {
		pragmas = append(pragmas, "query_only(1)")
	} else {
		pragmas = append(pragmas, "journal_size_limit(67108864)", "foreign_keys(1)")
		query.Set("_txlock", "immediate")
	}
	query["_pragma"] = pragmas
	return (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String()
}

func (e *sqliteEngine) handles() (write, read *sql.DB) { return e.writer, e.reader }

func (e *sqliteEngine) dialector(db *sql.DB) gorm.Dialector {
	return gormsqlite.New(gormsqlite.Config{DriverName: sqliteDriver, Conn: db})
}

func (e *sqliteEngine) close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	var errs []error
	for _, stmt := range e.statements {
		errs = append(errs, stmt.Close())
	}
	clear(e.statements)
	return errors.Join(append(errs, e.reader.Close(), e.writer.Close())...)
}

func (e *sqliteEngine) moment(t time.Time) any {
	if t.IsZero() {
		return nil
	}
	return t.UnixMicro()
}

func (e *sqliteEngine) date(day time.Time) any { return int64(dateOf(day)) }

func (e *sqliteEngine) acceptsInOneStatement() bool { return false }

func (e *sqliteEngine) eventsTable(time.Time) string { return tableEvents }

func (e *sqliteEngine) prepareDays(context.Context, ...time.Time) error { return nil }

func (e *sqliteEngine) lead(context.Context) (Lease, bool, error) {
	return &soleLease{lost: make(chan struct{})}, true, nil
}

// begin starts a writing transaction, after preparing what the hot paths run: within
// the transaction the one writing connection is taken.
func (e *sqliteEngine) begin(ctx context.Context) (*sql.Tx, error) {
	if err := e.prepare(ctx); err != nil {
		return nil, err
	}
	return e.writer.BeginTx(ctx, nil)
}

func (e *sqliteEngine) prepare(ctx context.Context) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if len(e.statements) > 0 {
		return nil
	}
	prepared := map[string]*sql.Stmt{}
	for _, query := range sqliteHotStatements() {
		stmt, err := e.writer.PrepareContext(ctx, query) //nolint:sqlclosecheck // close does
		if err != nil {
			for _, stmt := range prepared {
				err = errors.Join(err, stmt.Close())
			}
			return err
		}
		prepared[query] = stmt
	}
	e.statements = prepared
	return nil
}

// exec runs one of the prepared statements in tx and returns how many rows it touched.
func (e *sqliteEngine) exec(ctx context.Context, c conn, query string, args ...any) (int, error) {
	var result sql.Result
	var err error
	if stmt := e.statement(ctx, c, query); stmt != nil { //nolint:sqlclosecheck // the transaction's end does
		result, err = stmt.ExecContext(ctx, args...)
	} else {
		result, err = c.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// query runs one of the prepared statements in tx and returns its rows.
func (e *sqliteEngine) query(ctx context.Context, c conn, query string, args ...any) (*sql.Rows, error) {
	if stmt := e.statement(ctx, c, query); stmt != nil { //nolint:sqlclosecheck // the transaction's end does
		return stmt.QueryContext(ctx, args...)
	}
	return c.QueryContext(ctx, query, args...)
}

// statement returns the prepared statement of a query, for a transaction whose end closes
// it; nil: c is none, or the query was not prepared.
func (e *sqliteEngine) statement(ctx context.Context, c conn, query string) *sql.Stmt {
	tx, inTx := c.(*sql.Tx)
	e.mu.Lock()
	stmt := e.statements[query]
	e.mu.Unlock()
	if !inTx || stmt == nil {
		return nil
	}
	return tx.StmtContext(ctx, stmt)
}

// Sizes of the multi-row statements: a bulk is cut into chunks of these.
const (
	largeChunk = 50
	smallChunk = 8
)

func chunkSizes() []int { return []int{largeChunk, smallChunk, 1} }

// chunkSize returns the largest chunk that n rows fill.
func chunkSize(n int) int {
	for _, size := range chunkSizes() {
		if n >= size {
			return size
		}
	}
	return n
}

// multiRow is a statement over a list of rows: head, (?, …), (?, …), tail.
type multiRow struct {
	head, tail string
	columns    int
}

func (m multiRow) sql(rows int) string {
	row := "(" + strings.Repeat("?,", m.columns-1) + "?)"
	return m.head + strings.Repeat(row+",", rows-1) + row + m.tail
}

// execRows runs m over all rows, whose values lie one after the other in values, and
// returns how many rows it touched.
func (e *sqliteEngine) execRows(ctx context.Context, c conn, m multiRow, values []any, tail ...any) (int, error) {
	total := 0
	for len(values) > 0 {
		size := chunkSize(len(values) / m.columns)
		args := values[: size*m.columns : size*m.columns]
		n, err := e.exec(ctx, c, m.sql(size), append(args, tail...)...)
		if err != nil {
			return total, err
		}
		total += n
		values = values[size*m.columns:]
	}
	return total, nil
}

// sqliteHotStatements lists the statements of Accept and Record in every size.
func sqliteHotStatements() []string {
	var all []string
	for _, m := range []multiRow{sqliteInsertEvents(), sqliteInsertDeliveries(), sqliteFillDeliveries(), sqliteUpsertDeliveries(), sqliteInsertAttempts(), sqliteSettle()} {
		for _, size := range chunkSizes() {
			all = append(all, m.sql(size))
		}
	}
	return append(all, sqliteInsertOutbox, sqliteRecordEvent)
}
