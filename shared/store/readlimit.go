package store

import (
	"context"
	"database/sql"
	"time"
)

// readLimit is how old what reads from a SQLite file becomes, but for a copy (CopyTo): as long as somebody reads, the log
// can't begin anew, and grows by what is written: to the rate of writing × readLimit. Operations of the API have
// 1.8 s, a few 20 s.
const readLimit = 20 * time.Second

// limitedReads ends statements after a limit. A transaction has the context that it begins with.
type limitedReads struct {
	*sql.DB

	limit time.Duration
}

// limited returns a context that ends after the limit. It leaves a context alone that ends before: then there is no
// timer that outlives the statement.
func (r limitedReads) limited(ctx context.Context) context.Context {
	if deadline, ok := ctx.Deadline(); ok && time.Until(deadline) <= r.limit {
		return ctx
	}
	ctx, cancel := context.WithTimeout(ctx, r.limit)
	context.AfterFunc(ctx, cancel) // its rows may be read after the statement has returned
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
