package store

import (
	"context"
	"database/sql"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"gorm.io/gorm"
	"gorm.io/gorm/clause"
)

// What follows is for families of tables. Their functions take the transaction that Tx or
// Snapshot hands out, so that a change that spans families is one transaction.

// Handles returns the databases beneath gorm: on SQLite one connection writes and others
// read, on Postgres both are the same. What reads on them has a deadline, or is a matter of a moment: nothing else
// ends it.
func (s *Store) Handles() (writing, reading *sql.DB) { return s.raw, s.reading }

// Postgres returns the pool of connections; nil on SQLite.
func (s *Store) Postgres() *pgxpool.Pool {
	if d, ok := s.dialect.(*postgresDialect); ok {
		return d.pool
	}
	return nil
}

// Prepare has statements of hot paths prepared on a SQLite file, before the next transaction of Write
// begins.
func (s *Store) Prepare(queries ...string) {
	if p := s.prepared(); p != nil {
		p.add(queries...)
	}
}

// prepared returns the prepared statements of a SQLite file; nil on Postgres.
func (s *Store) prepared() *prepared {
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

// Reading returns a handle for statements that read, each for itself, on SQLite for
// Options.ReadLimit at most.
func (s *Store) Reading(ctx context.Context) *gorm.DB { return s.read.WithContext(ctx) }

// Writing returns a handle for statements that are transactions of their own. Call them
// within Again.
func (s *Store) Writing(ctx context.Context) *gorm.DB { return s.write.WithContext(ctx) }

// Tx runs f in one transaction on the writing database, again when Postgres broke it
// off in favour of another one.
func (s *Store) Tx(ctx context.Context, f func(tx *gorm.DB) error) error {
	return s.Again(ctx, func() error { return s.Writing(ctx).Transaction(f) })
}

// Snapshot runs f on one consistent view of the database. On SQLite it ends after Options.ReadLimit, with
// domain.ErrUnavailable where f has not ended by then.
func (s *Store) Snapshot(ctx context.Context, f func(tx *gorm.DB) error) error {
	options := &sql.TxOptions{Isolation: sql.LevelRepeatableRead, ReadOnly: true}
	if s.SQLite() {
		options = nil // a reading transaction is a snapshot there; the driver knows no levels
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, s.limit)
		defer cancel()
	}
	return s.Reading(ctx).Transaction(f, options)
}

// maxTries bounds the repeats of a transaction that lost a deadlock or met a day for
// which there was no partition yet.
const maxTries = 4

// Again runs f, and runs it again when the failure is one that passes.
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
	LockShare  = "KEY SHARE"     // it can't be deleted
	LockChange = "NO KEY UPDATE" // nor changed
	LockDelete = "UPDATE"        // nor given anything
)

// Lock makes a query lock the rows that it reads.
func (s *Store) Lock(query *gorm.DB, strength string) *gorm.DB {
	if strength == LockNone || s.SQLite() {
		return query
	}
	return query.Clauses(clause.Locking{Strength: strength})
}
