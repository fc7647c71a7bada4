package pgtest

import (
	"context"
	"fmt"
	"io"

	"github.com/jackc/pgx/v5"
)

// Dump writes all rows of all tables of a database, so that a test can search them: values are the
// bytes that were stored, neither escaped nor compressed.
func Dump(ctx context.Context, url string, w io.Writer) error {
	conn, err := pgx.Connect(ctx, url)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	defer conn.Close(ctx)
	rows, err := conn.Query(ctx, `SELECT quote_ident(schemaname) || '.' || quote_ident(tablename) FROM pg_tables
		WHERE schemaname NOT IN ('pg_catalog', 'information_schema') ORDER BY 1`)
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		return fmt.Errorf("list tables: %w", err)
	}
	for _, table := range tables {
		// A partitioned table can't be copied, but it can be selected from.
		if _, err := conn.PgConn().CopyTo(ctx, w, "COPY (TABLE "+table+") TO STDOUT (FORMAT binary)"); err != nil {
			return fmt.Errorf("dump %s: %w", table, err)
		}
	}
	return nil
}
