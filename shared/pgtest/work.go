package pgtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// Work is what a cluster has done since it was made, and what a database has of it now.
type Work struct {
	Transactions int64 // that have written something
	StoredBytes  int64 // of the database now, with its indexes
}

// ReadWork returns what the cluster of a database has done so far. Unlike the server's statistics, these
// counters don't lag.
func ReadWork(ctx context.Context, url string) (Work, error) {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return Work{}, fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(ctx)
	var w Work
	err = conn.QueryRow(ctx, `SELECT pg_snapshot_xmax(pg_current_snapshot())::text::bigint, pg_database_size(current_database())`).
		Scan(&w.Transactions, &w.StoredBytes)
	if err != nil {
		return Work{}, fmt.Errorf("read what was done: %w", err)
	}
	return w, nil
}
