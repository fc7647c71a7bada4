// Package store opens a database, Postgres (services) or a SQLite file (all in one), and migrates
// it. It gives the packages with the tables (families of tables) what they have in common:
// transactions, retries, errors, pages and cursors, encrypted columns, days.
//
// A family is a package of its own with the rows and statements of its tables. Families that several services use,
// such as pipeline and auditlog, are in folders below this one. A family that only one service uses is in that service.
// docs/decisions/0027 says which family owns which table, and how to add a family.
//
// Errors wrap domain.ErrNotFound, ErrConflict, ErrLimit, or ErrUnavailable when the database can't
// be reached or took too long. Neither errors nor logs contain values.
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
)

// Sealer encrypts values that must not be in the database in clear: webhook secrets, custom header
// values, kept answers. The additional data bind a value to its row and column.
type Sealer interface {
	Seal(plain, additional []byte) []byte
	Open(sealed, additional []byte) ([]byte, error)
}

// Options say which database to open and how.
type Options struct {
	// URL is postgres://… or sqlite:FILE.
	URL string
	// Keys seals secrets. Without it the store can run migrations, and
	// everything that needs a secret fails.
	Keys   Sealer
	Logger *slog.Logger
	// MaxConns bounds the connections to Postgres, or the reading connections to SQLite; 0: 16.
	MaxConns int
	// ConnectTimeout is how long connecting to Postgres may take; 0: 1 s, which suits processes
	// that serve requests. A connect_timeout in the URL takes precedence.
	ConnectTimeout time.Duration
	// ReadLimit is how long a read from a SQLite file may take; 0: 20 s.
	ReadLimit time.Duration
	// ReadOnly opens the database without making or changing anything, not even a file.
	ReadOnly bool
	// Now is the clock for acceptance times; nil: time.Now.
	Now func() time.Time
}

const defaultMaxConns = 16

// Store is an open database.
type Store struct {
	dialect dialect
	write   *gorm.DB // on Postgres the same as read
	read    *gorm.DB
	raw     *sql.DB // beneath write
	reading *sql.DB // beneath read
	keys    Sealer
	now     func() time.Time
	limit   time.Duration // of reads from a SQLite file
	log     *slog.Logger
}

// dialect has the differences between Postgres and SQLite.
type dialect interface {
	// handles returns the writing and the reading database.
	handles() (write, read *sql.DB)
	dialector(db gorm.ConnPool) gorm.Dialector
	close() error
	migrations() (migrationSource, error)

	// moment and date return a time and a day as statement arguments.
	moment(t time.Time) any
	date(day time.Time) any

	// prepareDays makes room for rows of these days.
	prepareDays(ctx context.Context, days ...time.Time) error
	// dropDays removes the log of every day before floor and returns the days.
	dropDays(ctx context.Context, floor time.Time) ([]time.Time, error)
	lead(ctx context.Context) (Lease, bool, error)
	// addresses returns the addresses of the server as host:port; none: there is no server.
	addresses() []string
}

// Open connects to the database that o names. It does not migrate: see Pending. A
// SQLite file that does not exist is made, readable by its owner alone.
func Open(ctx context.Context, o Options) (*Store, error) {
	s := &Store{keys: o.Keys, now: o.Now, log: o.Logger}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	if s.keys == nil {
		s.keys = noKeys{}
	}
	if s.now == nil {
		s.now = time.Now
	}
	if o.ReadLimit <= 0 {
		o.ReadLimit = readLimit
	}
	s.limit = o.ReadLimit
	if o.MaxConns <= 0 {
		o.MaxConns = defaultMaxConns
	}
	var err error
	switch {
	case strings.HasPrefix(o.URL, "postgres://"), strings.HasPrefix(o.URL, "postgresql://"):
		s.dialect, err = openPostgres(ctx, o)
	case strings.HasPrefix(o.URL, sqlitePrefix):
		open := openSQLite
		if o.ReadOnly {
			open = lookIntoSQLite
		}
		s.dialect, err = open(strings.TrimPrefix(o.URL, sqlitePrefix), o.MaxConns)
	default:
		err = errors.New("a database URL is postgres://… or sqlite:FILE")
	}
	if err != nil {
		return nil, fmt.Errorf("open database: %w", Classify(err))
	}
	s.raw, s.reading = s.dialect.handles()
	if s.write, err = openGorm(s.dialect.dialector(s.raw)); err == nil {
		s.read = s.write
		if s.reading != s.raw {
			s.read, err = openGorm(s.dialect.dialector(limitedReads{s.reading, o.ReadLimit, &frequentStatements{statements: map[string]*sql.Stmt{}}}))
		}
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open database: %w", Classify(err)), s.dialect.close())
	}
	return s, nil
}

func openGorm(d gorm.Dialector) (*gorm.DB, error) {
	return gorm.Open(d, &gorm.Config{
		SkipDefaultTransaction: true,
		DisableAutomaticPing:   true,
		QueryFields:            true,           // never *: a prepared statement fails when columns are added to its result
		Logger:                 logger.Discard, // it would print statements with their values
	})
}

// Pools returns the connections to the database by their use: all on Postgres, write and read on SQLite.
func (s *Store) Pools() map[string]*sql.DB {
	if s.raw == s.reading {
		return map[string]*sql.DB{"all": s.raw}
	}
	return map[string]*sql.DB{"write": s.raw, "read": s.reading}
}

// Close closes all connections.
func (s *Store) Close() error {
	if err := s.dialect.close(); err != nil {
		return fmt.Errorf("close database: %w", Classify(err))
	}
	return nil
}

// Addresses returns the addresses of the database server as host:port; none: the database is a
// file, or on a socket of this machine.
func (s *Store) Addresses() []string { return s.dialect.addresses() }

// Ping checks that the database answers.
func (s *Store) Ping(ctx context.Context) error {
	return Wrap("ping database", s.reading.PingContext(ctx))
}

// SQLite reports whether the store is a SQLite file.
func (s *Store) SQLite() bool {
	_, ok := s.dialect.(*sqliteDialect)
	return ok
}
