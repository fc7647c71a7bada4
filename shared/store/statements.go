package store

import (
	"context"
	"database/sql"
	"errors"
	"iter"
	"strings"
	"sync"
)

// Statements are the statements of a SQLite file that are prepared once, on the one
// connection that writes. A family adds those of its hot paths when it is made; those over
// many rows add themselves when they are first used.
type Statements struct {
	db *sql.DB

	mu       sync.Mutex
	waiting  []string             // added, and not prepared yet
	prepared map[string]*sql.Stmt // nil: waiting
	sized    map[sizedRow]string  // the text of each MultiRow that was used, by its number of rows
}

// sizedRow is a MultiRow over so many rows.
type sizedRow struct {
	MultiRow

	rows int
}

func newStatements(db *sql.DB) *Statements {
	return &Statements{db: db, prepared: map[string]*sql.Stmt{}, sized: map[sizedRow]string{}}
}

// Add has statements prepared before the next transaction begins.
func (s *Statements) Add(queries ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, query := range queries {
		s.add(query)
	}
}

func (s *Statements) add(query string) {
	if _, ok := s.prepared[query]; !ok {
		s.prepared[query] = nil
		s.waiting = append(s.waiting, query)
	}
}

// text returns the statement of m for so many rows. It is prepared from the next transaction on.
func (s *Statements) text(m MultiRow, rows int) string {
	s.mu.Lock()
	defer s.mu.Unlock()
	key := sizedRow{m, rows}
	query, ok := s.sized[key]
	if !ok {
		query = m.SQL(rows)
		s.sized[key] = query
		s.add(query)
	}
	return query
}

// prepare prepares what waits. Within a transaction the one connection is taken. Who has it may need
// the lock before it gives it back, so the lock is not held meanwhile.
func (s *Statements) prepare(ctx context.Context) error {
	s.mu.Lock()
	waiting := s.waiting
	s.waiting = nil
	s.mu.Unlock()
	for i, query := range waiting {
		stmt, err := s.db.PrepareContext(ctx, query) //nolint:sqlclosecheck // close does
		s.mu.Lock()
		if err != nil {
			s.waiting = append(s.waiting, waiting[i:]...)
		} else {
			s.prepared[query] = stmt
		}
		s.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Statements) close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, stmt := range s.prepared {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	clear(s.prepared)
	return errors.Join(errs...)
}

// Exec runs one of the statements in a transaction and returns how many rows it touched.
// A query that was not added is run all the same.
func (s *Statements) Exec(ctx context.Context, c Conn, query string, args ...any) (int, error) {
	var result sql.Result
	var err error
	if stmt := s.within(ctx, c, query); stmt != nil { //nolint:sqlclosecheck // the transaction's end does
		if err := ctx.Err(); err != nil {
			return 0, err
		}
		result, err = stmt.ExecContext(context.WithoutCancel(ctx), args...)
	} else {
		result, err = c.ExecContext(ctx, query, args...)
	}
	if err != nil {
		return 0, err
	}
	n, err := result.RowsAffected()
	return int(n), err
}

// Query runs one of the statements in a transaction and returns its rows.
func (s *Statements) Query(ctx context.Context, c Conn, query string, args ...any) (*sql.Rows, error) {
	if stmt := s.within(ctx, c, query); stmt != nil { //nolint:sqlclosecheck // the transaction's end does
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		return stmt.QueryContext(context.WithoutCancel(ctx), args...)
	}
	return c.QueryContext(ctx, query, args...)
}

// within returns the prepared statement of a query, for a transaction whose end closes
// it; nil: c is none, or the query was not prepared. Such a statement is short, so that nobody
// breaks it off: the driver starts a goroutine for each that can be. A transaction ends with its
// context all the same, between two statements.
func (s *Statements) within(ctx context.Context, c Conn, query string) *sql.Stmt {
	tx, inTx := c.(*sql.Tx)
	s.mu.Lock()
	stmt := s.prepared[query]
	s.mu.Unlock()
	if !inTx || stmt == nil {
		return nil
	}
	return tx.StmtContext(ctx, stmt)
}

// largestChunk is how many rows one statement has at most. Chunks are powers of two, so a bulk
// of any size is few statements, and there are few to prepare.
const largestChunk = 64

// ChunkSize returns the largest chunk that n rows fill.
func ChunkSize(n int) int {
	size := largestChunk
	for size > n && size > 1 {
		size /= 2
	}
	return size
}

// MultiRow is a statement over a list of rows: head, (?, …), (?, …), tail.
type MultiRow struct {
	Head, Tail string
	Columns    int
}

// SQL returns the statement for so many rows.
func (m MultiRow) SQL(rows int) string {
	row := "(" + strings.Repeat("?,", m.Columns-1) + "?)"
	return m.Head + strings.Repeat(row+",", rows-1) + row + m.Tail
}

// ExecRows runs m over all rows, whose values lie one after the other in values, and
// returns how many rows it touched.
func (s *Statements) ExecRows(ctx context.Context, c Conn, m MultiRow, values []any, tail ...any) (int, error) {
	total := 0
	for chunk := range m.chunks(values) {
		n, err := s.Exec(ctx, c, s.text(m, len(chunk)/m.Columns), append(chunk, tail...)...)
		if err != nil {
			return total, err
		}
		total += n
	}
	return total, nil
}

// QueryRows runs m over all rows, whose values lie one after the other in values. It calls read
// with what each of its statements returns; read closes that.
func (s *Statements) QueryRows(ctx context.Context, c Conn, m MultiRow, read func(*sql.Rows) error, values []any, tail ...any) error {
	for chunk := range m.chunks(values) {
		rows, err := s.Query(ctx, c, s.text(m, len(chunk)/m.Columns), append(chunk, tail...)...) //nolint:rowserrcheck // read does
		if err != nil {
			return err
		}
		if err := read(rows); err != nil {
			return err
		}
	}
	return nil
}

// chunks cuts the values of rows into those of one statement each.
func (m MultiRow) chunks(values []any) iter.Seq[[]any] {
	return func(yield func([]any) bool) {
		for len(values) > 0 {
			n := ChunkSize(len(values)/m.Columns) * m.Columns
			if !yield(values[:n:n]) {
				return
			}
			values = values[n:]
		}
	}
}
