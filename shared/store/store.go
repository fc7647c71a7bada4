// Package store keeps Waybill's data in a database: webhooks, events, deliveries,
// attempts, and the work that is still to be done. One Store works on Postgres
// (services) or on a SQLite file (all in one); both pass the suite in storetest.
//
// Errors wrap domain.ErrNotFound, ErrConflict, ErrLimit, or ErrUnavailable when the
// database can't be reached or took too long. Neither errors nor logs carry values.
package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"gorm.io/gorm"
	"gorm.io/gorm/logger"

	"waybill.dev/shared/domain"
)

// Sealer encrypts what must not lie in the database in clear: webhook secrets, custom
// header values, kept answers. The additional data bind a value to its row and column.
type Sealer interface {
	Seal(plain, additional []byte) []byte
	Open(sealed, additional []byte) ([]byte, error)
}

// Options say which database to open and how.
type Options struct {
	// URL is postgres://… or sqlite:FILE.
	URL string
	// Keys seals secrets. Without it the store serves migrations, and whatever needs a
	// secret fails.
	Keys   Sealer
	Logger *slog.Logger
	// MaxConns bounds the connections to Postgres, the reading ones to SQLite; 0: 16.
	MaxConns int
	// Now is the clock that acceptance times are taken from; nil: time.Now.
	Now func() time.Time
}

const defaultMaxConns = 16

// Store is an open database.
type Store struct {
	engine engine
	write  *gorm.DB // on Postgres the same as read
	read   *gorm.DB
	raw    *sql.DB // beneath write
	keys   Sealer
	log    *slog.Logger
	now    func() time.Time
}

// conn is what raw statements run on: a database, or a transaction of it.
type conn interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// engine is where Postgres and SQLite differ.
type engine interface {
	// handles returns the writing and the reading database.
	handles() (write, read *sql.DB)
	dialector(db *sql.DB) gorm.Dialector
	close() error
	migrations() (migrationSource, error)

	// moment and date return a time and a day as statement arguments.
	moment(t time.Time) any
	date(day time.Time) any

	begin(ctx context.Context) (*sql.Tx, error)
	// insertEvents adds the events that are not repeats, with an outbox row each.
	insertEvents(ctx context.Context, c conn, in intake) (intakeResult, error)
	// acceptsInOneStatement tells whether insertEvents is atomic without a transaction.
	acceptsInOneStatement() bool
	record(ctx context.Context, w *recordWork) (RecordResult, error)
	// revs adds the revisions of those of an account's deliveries of a day that there are.
	revs(ctx context.Context, day time.Time, account string, ids []string, revs map[domain.DeliveryID]int64) error
	markRelayed(ctx context.Context, c conn, keys []outboxKey, at time.Time) error
	eventsTable(day time.Time) string

	// prepareDays makes room for what is written on these days.
	prepareDays(ctx context.Context, days ...time.Time) error
	// dropDays removes the log of every day before floor and returns the days.
	dropDays(ctx context.Context, floor time.Time) ([]time.Time, error)
	lead(ctx context.Context) (Lease, bool, error)
}

// Open connects to the database that o names. It does not migrate: see Pending. A
// SQLite file that does not exist is made, readable by its owner alone.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{keys: o.Keys, log: o.Logger, now: o.Now}
	if s.keys == nil {
		s.keys = noKeys{}
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.now == nil {
		s.now = time.Now
	}
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	var err error
	switch {
	case strings.HasPrefix(o.URL, "postgres://"), strings.HasPrefix(o.URL, "postgresql://"):
		s.engine, err = openPostgres(ctx, o.URL, o.MaxConns)
	case strings.HasPrefix(o.URL, sqlitePrefix):
		s.engine, err = openSQLite(strings.TrimPrefix(o.URL, sqlitePrefix), o.MaxConns)
	default:
		err = errors.New("a database URL is postgres://… or sqlite:FILE")
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", classify(err))
	}
	var reading *sql.DB
	s.raw, reading = s.engine.handles()
	if s.write, err = openGorm(s.engine.dialector(s.raw)); err == nil {
		s.read = s.write
		if reading != s.raw {
			s.read, err = openGorm(s.engine.dialector(reading))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", classify(err)), s.engine.close())
	}
	return s, nil
}

func openGorm(d gorm.Dialector) (*gorm.DB, error) {
	return gorm.Open(d, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		Logger:                 logger.Discard, // it would print statements with their values
	})
}

// Close ends every connection.
func (s *Store) Close() error {
	if err := s.engine.close(); err != nil {
		return fmt.Errorf("close database: %w", classify(err))
	}
	return nil
}

// Ping asks the database for a sign of life.
func (s *Store) Ping(ctx context.Context) error {
	_, reading := s.engine.handles()
	return wrap("ping database", reading.PingContext(ctx))
}

// SQLite tells whether the store is a SQLite file.
func (s *Store) SQLite() bool {
	_, ok := s.engine.(*sqliteEngine)
	return ok
}

// clock returns the present time as it is stored: UTC, in milliseconds.
func (s *Store) clock() time.Time { return s.now().UTC().Truncate(time.Millisecond) }

// tx runs f in one transaction on the writing database, again when Postgres broke it
// off in favour of another one.
func (s *Store) tx(ctx context.Context, f func(*gorm.DB) error) error {
	return s.again(ctx, func() error { return s.write.WithContext(ctx).Transaction(f) })
}

// maxTries bounds the repeats of a transaction that lost a deadlock or met a day for
// which there was no partition yet.
const maxTries = 4

// again runs f, and runs it again when the failure is one that passes.
func (s *Store) again(ctx context.Context, f func() error) error {
	for try := 1; ; try++ {
		err := f()
		switch {
		case err == nil || try == maxTries || ctx.Err() != nil:
			return err
		case lostToAnother(err):
		case missingPartition(err):
			now := s.clock()
			if err := s.engine.prepareDays(ctx, now.Add(-24*time.Hour), now); err != nil {
				return err
			}
		default:
			return err
		}
	}
}

// rawConn returns the connection beneath a gorm transaction.
func rawConn(tx *gorm.DB) conn { return tx.Statement.ConnPool }
