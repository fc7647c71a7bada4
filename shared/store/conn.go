package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgtype"
	"gorm.io/gorm"
)

// Conn runs raw statements on either database, in a transaction or each by itself. Parameters are $1,
// $2 and so on.
type Conn struct {
	db  *Store
	sql sqlConn // SQLite, or the connection of a gorm transaction
	pgx pgxConn // Postgres without database/sql, which starts a goroutine for each query
}

type sqlConn interface {
	runner
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

type runner interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}

type pgxConn interface {
	Exec(ctx context.Context, query string, args ...any) (pgconn.CommandTag, error)
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
	SendBatch(ctx context.Context, b *pgx.Batch) pgx.BatchResults
	CopyFrom(ctx context.Context, table pgx.Identifier, columns []string, rows pgx.CopyFromSource) (int64, error)
}

// Scan reads the columns of a row.
type Scan func(into ...any) error

// Conn returns a handle for statements that read, each by itself. On Postgres they may write, too.
func (s *Store) Conn() Conn {
	if pool := s.Postgres(); pool != nil {
		return Conn{db: s, pgx: pool}
	}
	return Conn{db: s, sql: s.reading}
}

// Beneath returns the connection beneath a gorm transaction.
func (s *Store) Beneath(tx *gorm.DB) Conn { return Conn{db: s, sql: tx.Statement.ConnPool} }

// Write runs f in a transaction that writes, without gorm. On Postgres, first (SQL or empty) runs
// in the round trip that begins the transaction. Call Write within Again.
func (s *Store) Write(ctx context.Context, first string, f func(c Conn) error) error {
	if pool := s.Postgres(); pool != nil {
		options := pgx.TxOptions{BeginQuery: "BEGIN; " + first}
		return pgx.BeginTxFunc(ctx, pool, options, func(tx pgx.Tx) error { return f(Conn{db: s, pgx: tx}) })
	}
	if err := s.statements().prepareWaiting(ctx); err != nil {
		return err
	}
	tx, err := s.raw.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // does nothing after a commit
	if err := f(Conn{db: s, sql: tx}); err != nil {
		return err
	}
	return tx.Commit()
}

// SQLite reports whether the database is a SQLite file.
func (c Conn) SQLite() bool { return c.db.SQLite() }

// Moment returns a time as an argument.
func (c Conn) Moment(t time.Time) any { return c.db.Moment(t) }

// Date returns a day as an argument.
func (c Conn) Date(day time.Time) any { return c.db.Date(day) }

// In returns the condition that a column is among the first parameter, which List makes.
func (c Conn) In() string {
	if c.SQLite() {
		return "IN (SELECT value FROM json_each($1))"
	}
	return "= ANY($1)"
}

// List returns a slice of texts or numbers as the parameter of In.
func (c Conn) List(list any) any {
	if !c.SQLite() {
		return list
	}
	text, _ := json.Marshal(list) // texts and numbers can't fail
	return string(text)
}

// ForShare returns the end of a query that keeps the rows of a table that it reads as they are until the
// transaction of Write ends. It returns "" if no other process can change rows during the transaction, or
// if this is no such transaction.
func (c Conn) ForShare(table string) string {
	if _, tx := c.pgx.(pgx.Tx); tx {
		return " FOR SHARE OF " + table
	}
	return ""
}

// Partition returns the name of the table that has the rows of a day, if table is partitioned by day.
func (c Conn) Partition(table string, day time.Time) string {
	if c.SQLite() {
		return table
	}
	return Partition(table, day)
}

// Exec runs a statement and returns how many rows it touched.
func (c Conn) Exec(ctx context.Context, query string, args ...any) (int64, error) {
	if c.pgx != nil {
		tag, err := c.pgx.Exec(ctx, query, args...)
		return tag.RowsAffected(), err
	}
	result, err := c.runner(ctx, query).ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return result.RowsAffected()
}

// Query calls each for every row that a query returns.
func (c Conn) Query(ctx context.Context, query string, each func(Scan) error, args ...any) error {
	if c.pgx != nil {
		rows, err := c.pgx.Query(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		return eachRow(rows, each)
	}
	rows, err := c.runner(ctx, query).QueryContext(ctx, query, args...) //nolint:rowserrcheck // eachRow does
	if err != nil {
		return err
	}
	defer rows.Close()
	return eachRow(rows, each)
}

// QueryRow returns the only row that a query returns.
func (c Conn) QueryRow(ctx context.Context, query string, args ...any) interface{ Scan(into ...any) error } {
	if c.pgx != nil {
		return c.pgx.QueryRow(ctx, query, args...)
	}
	return c.sql.QueryRowContext(ctx, query, args...)
}

// runner returns the prepared statement of a query, if there is one, or the connection.
func (c Conn) runner(ctx context.Context, query string) runner {
	if tx, ok := c.sql.(*sql.Tx); ok && c.SQLite() {
		if stmt := c.db.statements().statement(query); stmt != nil {
			return oneStatement{tx.StmtContext(ctx, stmt)}
		}
	}
	return c.sql
}

// Statement is one of several statements that go to the database together.
type Statement struct {
	SQL  string
	Args []any
	Each func(Scan) error // called for every row; nil: the rows are not read
}

// Batch runs statements one after the other; on Postgres, on Write's connection, in one round trip.
func (c Conn) Batch(ctx context.Context, list ...Statement) error {
	if c.pgx == nil {
		for _, s := range list {
			var err error
			if s.Each == nil {
				_, err = c.Exec(ctx, s.SQL, s.Args...)
			} else {
				err = c.Query(ctx, s.SQL, s.Each, s.Args...)
			}
			if err != nil {
				return err
			}
		}
		return nil
	}
	batch := &pgx.Batch{}
	for _, s := range list {
		queued := batch.Queue(s.SQL, s.Args...)
		if s.Each != nil {
			queued.Query(func(rows pgx.Rows) error { return eachRow(rows, s.Each) })
		}
	}
	if batch.Len() == 0 {
		return nil
	}
	return c.pgx.SendBatch(ctx, batch).Close()
}

func eachRow(rows interface {
	Next() bool
	Scan(into ...any) error
	Err() error
}, each func(Scan) error,
) error {
	for rows.Next() {
		if err := each(rows.Scan); err != nil {
			return err
		}
	}
	return rows.Err()
}

// MultiRow is a statement over rows. It consists of Head, then VALUES and the rows (or a SELECT of the
// rows with the columns column1, column2 and so on), then Tail.
type MultiRow struct {
	Head, Tail string
	Types      string // of the columns on Postgres, separated by commas
}

// Rows returns the statements that run m over rows; values has the values of one row after the other.
// On Postgres it returns one statement, or none if there are no rows.
func (c Conn) Rows(m MultiRow, values []any, each func(Scan) error) []Statement {
	columns := strings.Count(m.Types, ",") + 1
	var list []Statement
	if c.SQLite() {
		for len(values) > 0 {
			n := chunkSize(len(values)/columns) * columns
			list = append(list, Statement{c.db.statements().sqlFor(m, n/columns), values[:n:n], each})
			values = values[n:]
		}
		return list
	}
	if len(values) == 0 {
		return nil
	}
	s := Statement{Args: make([]any, columns), Each: each}
	arrays, names := make([]string, columns), make([]string, columns)
	for i, kind := range strings.Split(m.Types, ",") {
		// A subquery, so that the plan is kept: it does not depend on the number of rows.
		arrays[i] = "(SELECT $" + strconv.Itoa(i+1) + "::" + kind + "[])"
		names[i] = "column" + strconv.Itoa(i+1)
		s.Args[i] = column{values[i:], columns}.arg(kind)
	}
	all := strings.Join(names, ", ")
	s.SQL = m.Head + "SELECT " + all + " FROM unnest(" + strings.Join(arrays, ", ") + ") AS u (" + all + ")" + m.Tail
	return []Statement{s}
}

// column is a column of such rows, as an array of Postgres.
type column struct {
	values []any // from the first value of the column on
	width  int   // number of columns
}

func (c column) len() int { return (len(c.values) + c.width - 1) / c.width }

// arg returns the column as an argument. Columns of bytes have a codec of their own.
func (c column) arg(kind string) any {
	if kind != "bytea" {
		return c
	}
	list := make([][]byte, c.len())
	for i := range list {
		list[i], _ = c.Index(i).([]byte) // nil: NULL
	}
	return list
}

// Dimensions implements pgtype.ArrayGetter.
func (c column) Dimensions() []pgtype.ArrayDimension {
	return []pgtype.ArrayDimension{{Length: int32(min(c.len(), 1<<30)), LowerBound: 1}} // a statement has far fewer
}

// Index implements pgtype.ArrayGetter.
func (c column) Index(i int) any { return c.values[i*c.width] }

// IndexType implements pgtype.ArrayGetter. Elements are encoded by their own type.
func (column) IndexType() any { return nil }

// Copy adds n rows to a table; if the table is partitioned, it is the name that Partition returns. row appends the
// values of one row. domain.ErrConflict: a row exists already, and the transaction of Write must end. Postgres' COPY
// costs half of the cheapest INSERT that checks for conflicts. Only for an INSERT OR FAIL, SQLite does not prepare
// to undo the statement.
func (c Conn) Copy(ctx context.Context, table string, columns []string, n int, row func(i int, values []any) []any) error {
	var err error
	if c.pgx != nil {
		values := make([]any, 0, len(columns))
		source := pgx.CopyFromSlice(n, func(i int) ([]any, error) { return row(i, values), nil })
		_, err = c.pgx.CopyFrom(ctx, pgx.Identifier{table}, columns, source)
	} else {
		values := make([]any, 0, n*len(columns))
		for i := range n {
			values = row(i, values)
		}
		head := "INSERT OR FAIL INTO " + table + " (" + strings.Join(columns, ", ") + ") "
		err = c.Batch(ctx, c.Rows(MultiRow{Head: head, Types: strings.Repeat(",", len(columns)-1)}, values, nil)...)
	}
	return Classify(err)
}
