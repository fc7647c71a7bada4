package store

import (
	"context"
	"database/sql"
	"time"
)

// readLimit is the longest time that one read from a SQLite file takes, except for a copy (CopyTo). While somebody reads,
// the log can't begin anew. So the log grows to the rate of writing × readLimit at most. Operations of the API have 1.8 s, a
// few of them 20 s.
const readLimit = 20 * time.Second

// limitedReads ends each statement after a limit. A transaction ends with the context that it was begun with.
type limitedReads struct {
	*sql.DB

	limit time.Duration
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
	return r.DB.QueryContext(r.limited(ctx), query, args...)
}

// QueryRowContext is that of sql.DB.
func (r limitedReads) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	return r.DB.QueryRowContext(r.limited(ctx), query, args...)
}
