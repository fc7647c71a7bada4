package store

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// Migration is one step of the schema.
type Migration struct {
	Version   int64
	Name      string // of its file
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
}

// Waiting for another process that migrates: once a second, for a minute.
const (
	migrateLockPeriod = 1
	migrateLockTries  = 60
)

func (d *postgresDialect) migrations() (migrationSource, error) {
	locker, err := lock.NewPostgresSessionLocker(lock.WithLockTimeout(migrateLockPeriod, migrateLockTries))
	if err != nil {
		return migrationSource{}, err
	}
	return migrationSource{goose.DialectPostgres, "migrations/postgres", []goose.ProviderOption{goose.WithSessionLocker(locker)}}, nil
}

func (d *sqliteDialect) migrations() (migrationSource, error) {
	return migrationSource{goose.DialectSQLite3, "migrations/sqlite", nil}, nil
}

func (s *Store) migrator() (*goose.Provider, error) {
	source, err := s.dialect.migrations()
	if err != nil {
		return nil, err
	}
	files, err := fs.Sub(migrationFiles, source.folder)
	if err != nil {
		return nil, err
	}
	options := append(slices.Clone(source.options), goose.WithDisableGlobalRegistry(true), goose.WithLogger(goose.NopLogger()))
	return goose.NewProvider(source.dialect, s.raw, files, options...)
}

// Migrate applies what is pending and returns what it applied, in order. Several
// processes may call it at once: one migrates, the others wait.
func (s *Store) Migrate(ctx context.Context) ([]Migration, error) {
	provider, err := s.migrator()
	if err != nil {
		return nil, Wrap("load migrations", err)
	}
	results, err := provider.Up(ctx)
	if partial, ok := errors.AsType[*goose.PartialError](err); ok {
		results = partial.Applied
	}
	applied := make([]Migration, 0, len(results))
	for _, r := range results {
		applied = append(applied, Migration{r.Source.Version, path.Base(r.Source.Path), true, s.Now()})
	}
	if err != nil {
		return applied, Wrap("apply migrations", err)
	}
	if err := s.PrepareDays(ctx, DaysAround(s.Now())...); err != nil {
		return applied, Wrap("prepare days", err)
	}
	return applied, nil
}

// MigrationStatus returns every migration, the first one first.
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
		list = append(list, Migration{m.Source.Version, path.Base(m.Source.Path), m.State == goose.StateApplied, m.AppliedAt})
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
