package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// Statements are the statements of a SQLite file that are prepared once, on the one
// connection that writes. A family adds those of its hot paths when it is made.
type Statements struct {
	db *sql.DB

	mu       sync.Mutex
	waiting  []string             // added, and not prepared yet
	prepared map[string]*sql.Stmt // nil: waiting
}

// Add has statements prepared before the next transaction begins.
func (s *Statements) Add(queries ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, query := range queries {
		if _, ok := s.prepared[query]; !ok {
			s.prepared[query] = nil
			s.waiting = append(s.waiting, query)
		}
	}
}

// prepare prepares what waits. Within a transaction the one connection is taken.
func (s *Statements) prepare(ctx context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for len(s.waiting) > 0 {
		stmt, err := s.db.PrepareContext(ctx, s.waiting[0]) //nolint:sqlclosecheck // close does
		if err != nil {
			return err
		}
		s.prepared[s.waiting[0]] = stmt
		s.waiting = s.waiting[1:]
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

// Query runs one of the statements in a transaction and returns its rows.
func (s *Statements) Query(ctx context.Context, c Conn, query string, args ...any) (*sql.Rows, error) {
	if stmt := s.within(ctx, c, query); stmt != nil { //nolint:sqlclosecheck // the transaction's end does
		return stmt.QueryContext(ctx, args...)
	}
	return c.QueryContext(ctx, query, args...)
}

// within returns the prepared statement of a query, for a transaction whose end closes
// it; nil: c is none, or the query was not prepared.
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

// Sizes of the multi-row statements: a bulk is cut into chunks of these.
const (
	largeChunk = 50
	smallChunk = 8
)

func chunkSizes() []int { return []int{largeChunk, smallChunk, 1} }

// ChunkSize returns the largest chunk that n rows fill.
func ChunkSize(n int) int {
	for _, size := range chunkSizes() {
		if n >= size {
			return size
		}
	}
	return n
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

// Sizes returns the statement in every size that ExecRows uses, for Add.
func (m MultiRow) Sizes() []string {
	var all []string
	for _, size := range chunkSizes() {
		all = append(all, m.SQL(size))
	}
	return all
}

// ExecRows runs m over all rows, whose values lie one after the other in values, and
// returns how many rows it touched.
func (s *Statements) ExecRows(ctx context.Context, c Conn, m MultiRow, values []any, tail ...any) (int, error) {
	total := 0
	for len(values) > 0 {
		size := ChunkSize(len(values) / m.Columns)
		args := values[: size*m.Columns : size*m.Columns]
		n, err := s.Exec(ctx, c, m.SQL(size), append(args, tail...)...)
		if err != nil {
			return total, err
		}
		total += n
		values = values[size*m.Columns:]
	}
	return total, nil
}
