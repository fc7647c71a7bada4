package store

import (
	"context"
	"database/sql"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5/stdlib"
	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	Name      string // of its file, or of the step that builds indexes
	Applied   bool
	AppliedAt time.Time // zero: not applied
}

//go:embed migrations
var migrationFiles embed.FS

// migrationSource says where an engine's migrations are and how they are run.
type migrationSource struct {
	dialect goose.Dialect
	folder  string
	options []goose.ProviderOption
	// open returns a handle for migrations; nil: the store's own is used.
	open func() *sql.DB
}

const (
	// How long Migrate waits for another process that migrates: it tries once a second, for a minute.
	migrateLockPeriod = 1
	migrateLockTries  = 60
	// A migration that changes a table waits for transactions that use it, and later transactions wait
	// for the migration. So it gives up after lockWait, lets them all pass, and tries again after
	// lockPause, for lockPatience in all: long enough for a dump of the database to end.
	lockWait     = 250 * time.Millisecond
	lockPause    = 2 * time.Second
	lockPatience = 30 * time.Minute
)

func (d *postgresDialect) migrations() (migrationSource, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(migrateLockPeriod, migrateLockTries))
	if err != nil {
		return migrationSource{}, err
	}
	return migrationSource{goose.DialectPostgres, "migrations/postgres", []goose.ProviderOption{goose.WithSessionLocker(locker), goose.WithGoMigrations(indexSteps()...)}, d.impatientDB}, nil
}

// impatientDB opens a handle for migrations. A statement that waits longer than lockWait for a lock fails.
func (d *postgresDialect) impatientDB() *sql.DB {
	config := d.pool.Config().ConnConfig
	config.RuntimeParams["lock_timeout"] = strconv.FormatInt(lockWait.Milliseconds(), 10)
	return stdlib.OpenDB(*config)
}

func (d *sqliteDialect) migrations() (migrationSource, error) {
	return migrationSource{goose.DialectSQLite3, "migrations/sqlite", nil, nil}, nil
}

func (s *Store) migrator() (*goose.Provider, error) {
	source, err := s.dialect.migrations()
	if err != nil {
		return nil, err
	}
	return source.provider(s.raw)
}

func (source *migrationSource) provider(db *sql.DB) (*goose.Provider, error) {
	files, err := fs.Sub(migrationFiles, source.folder)
	if err != nil {
		return nil, err
	}
	options := append(slices.Clone(source.options), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	return goose.NewProvider(source.dialect, db, files, options...)
}

// Migrate applies the pending migrations and returns them, in order. Several processes may call it
// at once: one migrates, the others wait. If others use a table that a migration changes, Migrate
// tries for up to half an hour. Each try waits for a quarter of a second, so no other transaction
// waits longer because of it. A migration of two tables may wait that long for each.
func (s *Store) Migrate(ctx context.Context) ([]Migration, error) {
	source, err := s.dialect.migrations()
	if err != nil {
		return nil, Wrap("load migrations", err)
	}
	db := s.raw
	if source.open != nil {
		db = source.open()
		defer db.Close()
	}
	provider, err := source.provider(db)
	if err != nil {
		return nil, Wrap("load migrations", err)
	}
	applied, err := s.apply(ctx, provider.Up)
	if err != nil {
		return applied, Wrap("apply migrations", err)
	}
	if err := s.PrepareDays(ctx, DaysAround(s.Now())...); err != nil {
		return applied, Wrap("prepare days", err)
	}
	return applied, nil
}

// apply calls up again while it fails because a lock was not free.
func (s *Store) apply(ctx context.Context, up func(context.Context) ([]*goose.MigrationResult, error)) (applied []Migration, err error) {
	for began := time.Now(); ; {
		results, err := up(ctx)
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			results = partial.Applied
		}
		for _, r := range results {
			applied = append(applied, Migration{r.Source.Version, nameOf(r.Source), true, s.Now()})
		}
		if pgCode(err) != pgLockNotAvailable || time.Since(began) > lockPatience {
			return applied, err
		}
		s.log.Warn("a migration can't change a table that others use; it tries again", "after", lockPause, "error", Classify(err))
		select {
		case <-ctx.Done():
			return applied, ctx.Err()
		case <-time.After(lockPause):
		}
	}
}

func nameOf(source *goose.Source) string {
	if source.Path == "" {
		return fmt.Sprintf("%04d_indexes", source.Version)
	}
	return path.Base(source.Path)
}

// MigrationStatus returns all migrations, in order.
func (s *Store) MigrationStatus(ctx context.Context) ([]Migration, error) {
	provider, err := s.migrator()
	if err != nil {
		return nil, Wrap("load migrations", err)
	}
	states, err := provider.Status(ctx)
	if err != nil {
		return nil, Wrap("read migrations", err)
	}
	list := make([]Migration, 0, len(states))
	for _, m := range states {
		list = append(list, Migration{m.Source.Version, nameOf(m.Source), m.State == goose.StateApplied, m.AppliedAt})
	}
	return list, nil
}

// Pending reports whether migrations wait to be applied.
func (s *Store) Pending(ctx context.Context) (bool, error) {
	provider, err := s.migrator()
	if err != nil {
		return false, Wrap("load migrations", err)
	}
	pending, err := provider.HasPending(ctx)
	if err != nil {
		return false, fmt.Errorf("read migrations: %w", Classify(err))
	}
	return pending, nil
}
