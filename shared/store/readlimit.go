package store

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// readLimit is the longest time that one read from a SQLite file takes, except a copy (CopyTo). During a read the log can't
// start over, so it grows at most to the rate of writing × readLimit. Operations of the API have 1.8 s, a few of them 20 s.
const readLimit = 20 * time.Second

// limitedReads ends each statement after a limit. A transaction ends with the context with which it was begun.
type limitedReads struct {
	*sql.DB

	limit    time.Duration
	frequent *frequentStatements
}

// mostFrequent bounds how many reads are kept prepared, each with some 10 KB on each connection. The loops that look
// for work are the first after the start, with some 40 queries.
const mostFrequent = 128

// frequentStatements has the prepared statements of reads that came twice: parsing and planning a short one takes longer than running it.
type frequentStatements struct {
	mu         sync.Mutex
	statements map[string]*sql.Stmt // by text; nil: the query came once
}

// statement returns the prepared statement of a query; nil: there is none.
func (f *frequentStatements) statement(ctx context.Context, db *sql.DB, query string) *sql.Stmt {
	f.mu.Lock()
	stmt, known := f.statements[query]
	if !known && len(f.statements) < mostFrequent {
		f.statements[query] = nil
	}
	f.mu.Unlock()
	if stmt != nil || !known {
		return stmt
	}
	stmt, err := db.PrepareContext(ctx, query)
	if err != nil {
		return nil // the query itself returns the error
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if other := f.statements[query]; other != nil {
		_ = stmt.Close() //nolint:sqlclosecheck // the other one is kept
		return other
	}
	f.statements[query] = stmt
	return stmt
}

// limited returns a context that ends after the limit. A context that ends earlier is returned as it is, so that no timer
// outlives the statement.
func (r limitedReads) limited(ctx context.Context) context.Context {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= r.limit {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	context.AfterFunc(ctx, cancel) // not deferred, because the rows are read after this method has returned
	return ctx
}

// QueryContext is QueryContext of sql.DB with the limit.
func (r limitedReads) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx = r.limited(ctx)
	if stmt := r.frequent.statement(ctx, r.DB, query); stmt != nil { //nolint:sqlclosecheck // it ends with the database
		return stmt.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is QueryRowContext of sql.DB with the limit.
func (r limitedReads) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx = r.limited(ctx)
	if stmt := r.frequent.statement(ctx, r.DB, query); stmt != nil { //nolint:sqlclosecheck // it ends with the database
		return stmt.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}
