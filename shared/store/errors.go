package store

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"gorm.io/gorm"
	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"waybill.dev/shared/domain"
)

// ErrCursor is returned for a paging cursor that does not belong to the list and the account.
var ErrCursor = errors.New("not a cursor of this list")

// Error codes of Postgres that the store handles.
const (
	pgUniqueViolation  = "23505"
	pgCheckViolation   = "23514"
	pgUndefinedTable   = "42P01"
	pgSerialization    = "40001"
	pgDeadlock         = "40P01"
	pgLockNotAvailable = "55P03"
	pgReadOnly         = "25006"
	pgUnknownDatabase  = "3D000"
)

// failure is a database error as callers see it: its kind, and a text without values.
type failure struct {
	kind  error // nil: a bug
	text  string
	cause error
}

func (f *failure) Error() string { return f.text }

func (f *failure) Unwrap() []error {
	if f.kind == nil {
		return []error{f.cause}
	}
	return []error{f.kind, f.cause}
}

// Wrap adds what was being done to err; nil stays nil.
func Wrap(doing string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", doing, Classify(err))
}

// Classify sets the kind of err.
func Classify(err error) error {
	var f *failure
	if err == nil || errors.As(err, &f) || isKind(err) || errors.Is(err, ErrCursor) {
		return err
	}
	var pg *pgconn.PgError
	var lite *sqlite.Error
	switch {
	case errors.Is(err, gorm.ErrRecordNotFound), errors.Is(err, sql.ErrNoRows), errors.Is(err, pgx.ErrNoRows):
		return &failure{domain.ErrNotFound, domain.ErrNotFound.Error(), err}
	case errors.Is(err, context.Canceled):
		return err
	case errors.As(err, &pg):
		return classifyPostgres(pg, err)
	case errors.As(err, &lite):
		return classifySQLite(lite, err)
	case connectionLost(err):
		return &failure{domain.ErrUnavailable, "database " + domain.ErrUnavailable.Error() + ": " + err.Error(), err}
	}
	return err
}

func isKind(err error) bool {
	for _, kind := range []error{domain.ErrNotFound, domain.ErrConflict, domain.ErrUnavailable, domain.ErrLimit, domain.ErrUnreadable, domain.ErrQuota} {
		if errors.Is(err, kind) {
			return true
		}
	}
	return false
}

func classifyPostgres(pg *pgconn.PgError, err error) error {
	text := "postgres: " + pg.Message + " (" + pg.Code + ")"
	if strings.HasPrefix(pg.Code, "22") { // data exception: the message contains the value
		text = "postgres: data exception (" + pg.Code + ")"
	}
	kind := error(nil)
	switch class := pg.Code[:min(2, len(pg.Code))]; {
	case pg.Code == pgUniqueViolation:
		kind = domain.ErrConflict
	case pg.Code == pgSerialization, pg.Code == pgDeadlock, pg.Code == pgLockNotAvailable,
		pg.Code == pgReadOnly, pg.Code == pgUnknownDatabase:
		kind = domain.ErrUnavailable
	// The classes of connection, authorization, resources, operator intervention and system errors.
	case class == "08", class == "28", class == "53", class == "57", class == "58":
		kind = domain.ErrUnavailable
	}
	return &failure{kind, text, err}
}

func classifySQLite(lite *sqlite.Error, err error) error {
	var kind error
	switch lite.Code() & 0xff {
	case sqlite3.SQLITE_CONSTRAINT:
		if lite.Code() == sqlite3.SQLITE_CONSTRAINT_UNIQUE || lite.Code() == sqlite3.SQLITE_CONSTRAINT_PRIMARYKEY {
			kind = domain.ErrConflict
		}
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_FULL, sqlite3.SQLITE_IOERR,
		sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_READONLY, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_INTERRUPT:
		kind = domain.ErrUnavailable
	}
	return &failure{kind, "sqlite: " + lite.Error(), err}
}

// connectionLost reports whether err says that the database can't be reached, or did not answer in time.
func connectionLost(err error) bool {
	var dial *pgconn.ConnectError
	var network net.Error
	// A transaction whose context ended is rolled back, and its commit fails with ErrTxDone.
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, sql.ErrTxDone) ||
		errors.Is(err, driver.ErrBadConn) || errors.Is(err, sql.ErrConnDone) || errors.Is(err, net.ErrClosed) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) ||
		errors.As(err, &dial) || errors.As(err, &network) ||
		strings.Contains(err.Error(), "conn closed") || strings.Contains(err.Error(), "closed pool")
}

// lostToAnother reports whether Postgres broke a transaction off in favour of another one.
func lostToAnother(err error) bool {
	return pgCode(err) == pgSerialization || pgCode(err) == pgDeadlock
}

// MissingPartition reports whether a row's day has no partition.
func MissingPartition(err error) bool {
	code := pgCode(err)
	return code == pgUndefinedTable || code == pgCheckViolation
}

func pgCode(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}
