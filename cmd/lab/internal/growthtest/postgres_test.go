package growthtest

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// postgresWork counts the shared buffers that each statement found or read, by pg_stat_statements.
type postgresWork struct {
	conn *pgx.Conn // to another database of the server
	of   uint32    // the database that is counted
}

// watchPostgres counts the statements of one database of a server whose settings load the extension.
func watchPostgres(ctx context.Context, server, database string) (*postgresWork, error) {
	conn, err := pgx.Connect(ctx, server)
	if err != nil {
		return nil, err
	}
	w := &postgresWork{conn: conn}
	if _, err := conn.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err != nil {
		return nil, fmt.Errorf("count statements: %w", err)
	}
	return w, conn.QueryRow(ctx, "SELECT oid FROM pg_database WHERE datname = $1", database).Scan(&w.of)
}

// take returns what was counted since it was asked last.
func (w *postgresWork) take(ctx context.Context) (statements, error) {
	rows, err := w.conn.Query(ctx, "SELECT query, calls, shared_blks_hit + shared_blks_read FROM pg_stat_statements WHERE dbid = $1", w.of)
	if err != nil {
		return nil, err
	}
	of := make(statements)
	for rows.Next() {
		var text string
		var calls, buffers int64
		if err := rows.Scan(&text, &calls, &buffers); err != nil {
			return nil, err
		}
		of.add(text, calls, buffers)
	}
	if err := rows.Err(); err != nil {
		return nil, err
	}
	_, err = w.conn.Exec(ctx, "SELECT pg_stat_statements_reset(0, $1, 0)", w.of)
	return of, err
}
