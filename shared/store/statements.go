package store

import (
	"context"
	"database/sql"
	"errors"
	"strings"
	"sync"
)

// statementCache are the statements of a SQLite file that are prepared once, on the one connection that
// writes. A package adds the statements of its hot paths when it is made; statements over many rows
// add themselves when they are first used.
type statementCache struct {
	db *sql.DB

	mu         sync.Mutex
	waiting    []string             // added, and not prepared yet
	statements map[string]*sql.Stmt // nil: waiting
	texts      map[rowsKey]string   // the text of each MultiRow that was used, by its number of rows
}

// rowsKey is a MultiRow with a number of rows.
type rowsKey struct {
	MultiRow

	rows int
}

func newPrepared(db *sql.DB) *statementCache {
	return &statementCache{db: db, statements: map[string]*sql.Stmt{}, texts: map[rowsKey]string{}}
}

func (p *statementCache) add(queries ...string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, query := range queries {
		p.addOne(query)
	}
}

func (p *statementCache) addOne(query string) {
	if _, ok := p.statements[query]; !ok {
		p.statements[query] = nil
		p.waiting = append(p.waiting, query)
	}
}

// sqlFor returns the SQL of m for a number of rows. A new statement is prepared at the start of the next transaction.
func (p *statementCache) sqlFor(m MultiRow, rows int) string {
	p.mu.Lock()
	defer p.mu.Unlock()
	key := rowsKey{m, rows}
	query, ok := p.texts[key]
	if !ok {
		row := "(?" + strings.Repeat(",?", strings.Count(m.Types, ",")) + ")"
		query = m.Head + "VALUES " + row + strings.Repeat(","+row, rows-1) + m.Tail
		p.texts[key] = query
		p.addOne(query)
	}
	return query
}

// prepareWaiting prepares the waiting statements. The one connection may be in a transaction that needs the lock
// before it gives the connection back, so prepare does not hold the lock while it waits for the connection.
func (p *statementCache) prepareWaiting(ctx context.Context) error {
	p.mu.Lock()
	waiting := p.waiting
	p.waiting = nil
	p.mu.Unlock()
	for i, query := range waiting {
		stmt, err := p.db.PrepareContext(ctx, query) //nolint:sqlclosecheck // close does
		p.mu.Lock()
		if err != nil {
			p.waiting = append(p.waiting, waiting[i:]...)
		} else {
			p.statements[query] = stmt
		}
		p.mu.Unlock()
		if err != nil {
			return err
		}
	}
	return nil
}

func (p *statementCache) close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	var errs []error
	for _, stmt := range p.statements {
		if stmt != nil {
			errs = append(errs, stmt.Close())
		}
	}
	clear(p.statements)
	return errors.Join(errs...)
}

// statement returns the prepared statement of a query; nil: the query was not prepared.
func (p *statementCache) statement(query string) *sql.Stmt {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.statements[query]
}

// oneStatement runs a prepared statement, which ends with its transaction. It runs without a context: the statement is
// short and need not be broken off, and the driver starts a goroutine for each one that can be. The transaction still
// ends with its context, between two statements.
type oneStatement struct{ stmt *sql.Stmt }

// ExecContext implements runner.
func (s oneStatement) ExecContext(ctx context.Context, _ string, args ...any) (sql.Result, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.stmt.ExecContext(context.WithoutCancel(ctx), args...)
}

// QueryContext implements runner.
func (s oneStatement) QueryContext(ctx context.Context, _ string, args ...any) (*sql.Rows, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	return s.stmt.QueryContext(context.WithoutCancel(ctx), args...)
}

// largestChunk is how many rows one statement has at most. Chunks are powers of two, so any number
// of rows takes few statements, and there are few to prepare.
const largestChunk = 64

// chunkSize returns the largest chunk that n rows can fill.
func chunkSize(n int) int {
	size := largestChunk
	for size > n && size > 1 {
		size /= 2
	}
	return size
}
