//go:build !statements

package store

import (
	"database/sql"

	"github.com/jackc/pgx/v5/pgxpool"
)

// openSQLiteFile opens a file by its DSN.
func openSQLiteFile(dsn string) (*sql.DB, error) { return sql.Open(sqliteDriver, dsn) }

// recordPostgres does nothing in a program that is not a test.
func recordPostgres(*pgxpool.Config) {}
