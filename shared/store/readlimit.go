package store

import (
	"context"
	"database/sql"
	"sync"
	"time"
)

// readLimit is the longest time that one read from a SQLite file takes, except for a copy (CopyTo). While somebody reads,
// the log can't begin anew. So the log grows to the rate of writing × readLimit at most. Operations of the API have 1.8 s, a
// few of them 20 s.
const readLimit = 20 * time.Second

// limitedReads ends each statement after a limit. A transaction ends with the context that it was begun with.
type limitedReads struct {
	*sql.DB

	limit    time.Duration
	frequent *frequent
}

// mostFrequent bounds how many reads are kept prepared, on each connection some 10 KB for each. The loops that look for
// work ask first after the start, some 40 queries.
const mostFrequent = 128

// frequent are reads that came twice, prepared: to parse and to plan a short one takes longer than to run it.
type frequent struct {
	mu         sync.Mutex
	statements map[string]*sql.Stmt // by text; nil: came once
}

// statement returns the prepared statement of a query; nil: there is none.
func (f *frequent) statement(ctx context.Context, db *sql.DB, query string) *sql.Stmt {
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
		return nil // the query itself tells why
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
	context.AfterFunc(ctx, cancel) // not deferred: the rows are read after this method has returned
	return ctx
}

// QueryContext is that of sql.DB.
func (r limitedReads) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	ctx = r.limited(ctx)
	if stmt := r.frequent.statement(ctx, r.DB, query); stmt != nil { //nolint:sqlclosecheck // it ends with the database
		return stmt.QueryContext(ctx, args...)
	}
	return r.DB.QueryContext(ctx, query, args...)
}

// QueryRowContext is that of sql.DB.
func (r limitedReads) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	ctx = r.limited(ctx)
	if stmt := r.frequent.statement(ctx, r.DB, query); stmt != nil { //nolint:sqlclosecheck // it ends with the database
		return stmt.QueryRowContext(ctx, args...)
	}
	return r.DB.QueryRowContext(ctx, query, args...)
}
