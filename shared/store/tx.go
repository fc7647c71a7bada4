package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// The following methods are for families of tables. A family's functions take the transaction of Tx
// or Snapshot, so that a change in several families is one transaction.

// Handles returns the databases of gorm: on SQLite one connection writes and others read, on Postgres both are the
// same. A read on them must have a deadline or be short, because nothing else ends it.
func (s *Store) Handles() (writing, reading *sql.DB) { return s.raw, s.reading }

// Postgres returns the pool of connections; nil on SQLite.
func (s *Store) Postgres() *pgxpool.Pool {
	if d, ok := s.dialect.(*postgresDialect); ok {
		return d.pool
	}
	return nil
}

// Prepare makes the store prepare statements of hot paths on a SQLite file, before the next
// transaction of Write begins.
func (s *Store) Prepare(queries ...string) {
	if p := s.statements(); p != nil {
		p.add(queries...)
	}
}

// statements returns the prepared statements of a SQLite file; nil on Postgres.
func (s *Store) statements() *statementCache {
	if d, ok := s.dialect.(*sqliteDialect); ok {
		return d.prepared
	}
	return nil
}

// Now returns the present time as it is stored: UTC, in milliseconds.
func (s *Store) Now() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// Moment returns a time as an argument of a raw statement.
func (s *Store) Moment(t time.Time) any { return s.dialect.moment(t) }

// Date returns a day as an argument of a raw statement.
func (s *Store) Date(day time.Time) any { return s.dialect.date(day) }

// Reading returns a handle for statements that read, each by itself, on
// SQLite for at most Options.ReadLimit.
func (s *Store) Reading(ctx context.Context) *gorm.DB { return s.read.WithContext(ctx) }

// Writing returns a handle for statements that are transactions of their own. Run them within Again.
func (s *Store) Writing(ctx context.Context) *gorm.DB { return s.write.WithContext(ctx) }

// Tx runs f in one transaction on the writing database, and again if Postgres broke the transaction
// off in favour of another one.
func (s *Store) Tx(ctx context.Context, f func(tx *gorm.DB) error) error {
	return s.Again(ctx, func() error { return s.Writing(ctx).Transaction(f) })
}

// Snapshot runs f on one consistent view of the database. On SQLite it ends after Options.ReadLimit; if f
// has not ended by then, the error is domain.ErrUnavailable.
func (s *Store) Snapshot(ctx context.Context, f func(tx *gorm.DB) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	if s.SQLite() {
		options = nil // on SQLite a reading transaction is a snapshot, and the driver has no isolation levels
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	return s.Reading(ctx).Transaction(f, options)
}

// maxTries bounds how often a transaction is tried that lost a deadlock or met a day without a partition.
const maxTries = 4

// Again runs f, and runs it again when its failure is temporary.
func (s *Store) Again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		switch {
		case err == nil || try == maxTries || ctx.Err() != nil:
			return err
		case lostToAnother(err):
		case MissingPartition(err):
			now := s.Now()
			if err := s.PrepareDays(ctx, now.Add(-24*time.Hour), now); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// The locks that a change takes on rows, on Postgres. SQLite has one writer.
const (
	LockNone   = ""
	LockShare  = "KEY SHARE"     // others can't delete the row
	LockChange = "NO KEY UPDATE" // others can't change it either
	LockDelete = "UPDATE"        // others can't insert rows that refer to it either
)

// Lock makes a query lock the rows that it reads.
func (s *Store) Lock(query *gorm.DB, strength string) *gorm.DB {
	if strength == LockNone || s.SQLite() {
		return query
	}
	return query.Clauses(clause.Locking{Strength: strength})
}
