package store

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Schema is the state of a database's migrations.
type Schema struct {
	Applied int64    // version of the last one that was applied; 0: none was
	Newest  int64    // version of the last one that this program knows
	Pending []string // files of migrations that this program knows and that were not applied
}

// Newer reports whether a later version of the program has migrated the database.
func (s Schema) Newer() bool { return s.Applied > s.Newest }

// Schema reads the state of the migrations. Unlike MigrationStatus it writes nothing, not even the
// table that lists them.
func (s *Store) Schema(ctx context.Context) (Schema, error) {
	provider, err := s.migrator()
	if err != nil {
		return Schema{}, Wrap("load migrations", err)
	}
	applied, err := s.applied(ctx)
	if err != nil {
		return Schema{}, Wrap("read migrations", err)
	}
	var schema Schema
	for version := range applied {
		schema.Applied = max(schema.Applied, version)
	}
	for _, source := range provider.ListSources() {
		schema.Newest = max(schema.Newest, source.Version)
		if !applied[source.Version] {
			schema.Pending = append(schema.Pending, source.Path)
		}
	}
	return schema, nil
}

// applied returns the versions of the migrations that were applied.
func (s *Store) applied(ctx context.Context) (map[int64]bool, error) {
	there := "SELECT count(*) FROM sqlite_master WHERE type = 'table' AND name = 'goose_db_version'"
	if !s.SQLite() {
		there = "SELECT count(to_regclass('goose_db_version'))"
	}
	var tables int
	if err := s.reading.QueryRowContext(ctx, there).Scan(&tables); err != nil || tables == 0 {
		return nil, err
	}
	rows, err := s.reading.QueryContext(ctx, "SELECT version_id FROM goose_db_version WHERE is_applied")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	applied := map[int64]bool{}
	for rows.Next() {
		var version int64
		if err := rows.Scan(&version); err != nil {
			return nil, err
		}
		applied[version] = true
	}
	return applied, rows.Err()
}

// Server is a database's description of itself.
type Server struct {
	Version string
	// Connections and MaxConnections are those of the Postgres server, over all its databases and
	// clients; 0 on SQLite.
	Connections, MaxConnections int
	// Archiving means that a Postgres server archives what point-in-time recovery needs.
	// ArchiveFailed is when archiving last failed without success since; zero: it works.
	Archiving     bool
	ArchiveFailed time.Time
	Replica       bool      // it takes no writes
	Now           time.Time // its clock; zero on SQLite
}

// Server asks the database about itself.
func (s *Store) Server(ctx context.Context) (Server, error) {
	var server Server
	if s.SQLite() {
		err := s.reading.QueryRowContext(ctx, "SELECT sqlite_version()").Scan(&server.Version)
		return server, Wrap("ask the database for its version", err)
	}
	var most, mode string
	var failed *time.Time
	err := s.reading.QueryRowContext(ctx, `SELECT current_setting('server_version'), current_setting('max_connections'),
			(SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend'),
			current_setting('archive_mode'), pg_is_in_recovery(), clock_timestamp(),
			(SELECT last_failed_time FROM pg_stat_archiver WHERE last_failed_time > coalesce(last_archived_time, '-infinity'))`).
		Scan(&server.Version, &most, &server.Connections, &mode, &server.Replica, &server.Now, &failed)
	if err != nil {
		return Server{}, Wrap("ask the database about itself", err)
	}
	server.Version, _, _ = strings.Cut(server.Version, " ")
	server.MaxConnections, _ = strconv.Atoi(most) // Postgres returns a number
	server.Archiving = mode != "off"
	if failed != nil {
		server.ArchiveFailed = failed.UTC()
	}
	return server, nil
}

// MissingDays returns the days that should have partitions at now and have none, on Postgres.
func (s *Store) MissingDays(ctx context.Context, now time.Time) ([]time.Time, error) {
	if s.SQLite() {
		return nil, nil
	}
	var missing []time.Time
	for _, day := range DaysAround(now) {
		for _, table := range partitionedTables() {
			var there int
			err := s.reading.QueryRowContext(ctx, "SELECT count(to_regclass($1))", Partition(table, day)).Scan(&there)
			if err != nil {
				return nil, Wrap("look for partitions", err)
			}
			if there == 0 {
				missing = append(missing, day)
				break
			}
		}
	}
	return missing, nil
}

// Size returns how many bytes the database takes.
func (s *Store) Size(ctx context.Context) (int64, error) {
	size := "SELECT page_count * page_size FROM pragma_page_count(), pragma_page_size()"
	if !s.SQLite() {
		size = "SELECT pg_database_size(current_database())"
	}
	var bytes int64
	if err := s.reading.QueryRowContext(ctx, size).Scan(&bytes); err != nil {
		return 0, fmt.Errorf("measure the database: %w", Classify(err))
	}
	return bytes, nil
}
