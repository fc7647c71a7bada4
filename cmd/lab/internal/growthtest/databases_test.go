package growthtest

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
)

// database is a filled one, and what counts the work in it.
type database struct {
	url  string
	take func(context.Context) (statements, error)
}

// trio is the same database in both sizes, and the large one spread over many accounts.
type trio struct{ small, large, spread database }

// plain is a sealer that keeps everything as it is, so that rows can be made by statements alone.
type plain struct{}

func (plain) Seal(text, _ []byte) []byte { return append([]byte("s"), text...) }

func (plain) Open(sealed, _ []byte) ([]byte, error) { return sealed[1:], nil }

// days are those that the rows are of.
func daysOf(now time.Time) (list []time.Time) {
	for back := range 6 {
		list = append(list, now.AddDate(0, 0, -back))
	}
	return list
}

// migrate makes the tables, and on Postgres the partitions.
func migrate(ctx context.Context, address string, now time.Time) error {
	s, err := store.Open(ctx, store.Options{URL: address})
	if err != nil {
		return err
	}
	_, err = s.Migrate(ctx)
	if err == nil {
		err = s.PrepareDays(ctx, daysOf(now)...)
	}
	for hour := range 4 {
		if err == nil {
			err = s.PrepareHours(ctx, "gateway_requests", now.Add(time.Duration(hour-3)*time.Hour))
		}
	}
	return errors.Join(err, s.Close())
}

// fillSQLite makes a file of a size.
func fillSQLite(ctx context.Context, path string, s size, now time.Time) error {
	if err := migrate(ctx, "sqlite:"+path, now); err != nil {
		return err
	}
	script, err := s.script(false, now)
	if err != nil {
		return err
	}
	query := url.Values{"_pragma": {"journal_mode(OFF)", "synchronous(OFF)", "cache_size(-1000000)", "temp_store(MEMORY)"}}
	db, err := sql.Open("sqlite", (&url.URL{Scheme: "file", Path: path, RawQuery: query.Encode()}).String())
	if err != nil {
		return err
	}
	db.SetMaxOpenConns(1)
	script = append(append([]string{"BEGIN"}, script...), "COMMIT", "PRAGMA journal_mode(WAL)")
	for _, statement := range script {
		if _, err := db.ExecContext(ctx, statement); err != nil {
			return errors.Join(fmt.Errorf("%w in %.300s", err, statement), db.Close())
		}
	}
	return db.Close()
}

// fillPostgres makes a database of a size.
func fillPostgres(ctx context.Context, c *pgtest.Cluster, name string, s size, now time.Time) error {
	address, err := c.CreateDatabase(ctx, name)
	if err != nil {
		return err
	}
	if err := migrate(ctx, address, now); err != nil {
		return err
	}
	script, err := s.script(true, now)
	if err != nil {
		return err
	}
	conn, err := pgx.Connect(ctx, address)
	if err != nil {
		return err
	}
	defer conn.Close(ctx)
	for _, statement := range append(append([]string{"SET synchronous_commit = off"}, script...), "VACUUM (ANALYZE, INDEX_CLEANUP OFF)", "CHECKPOINT") {
		if _, err := conn.Exec(ctx, statement); err != nil {
			return fmt.Errorf("%w in %.300s", err, statement)
		}
	}
	return nil
}

// settings of the server: its counts are exact, and nothing runs by itself.
func settings() []string {
	return pgtest.Disposable(
		"max_wal_size=1GB", "autovacuum=off", "shared_buffers=256MB", "maintenance_work_mem=256MB", "max_connections=300",
		"shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track_utility=on", "pg_stat_statements.max=20000",
	)
}

// filled are the databases of this process: they take most of its time, and tests share them.
type filled struct {
	sqlite, postgres trio
	cluster          *pgtest.Cluster
	dir              string
	temporary        bool
}

// make makes the databases, or finds them in the folder keep; empty: a temporary one.
func (f *filled) make(ctx context.Context, keep string) error {
	f.dir, f.temporary = keep, keep == ""
	work := watchSQLite()
	var err error
	if f.temporary {
		if f.dir, err = os.MkdirTemp("", "waybill-growth-"); err != nil {
			return err
		}
		if err := os.Chmod(f.dir, 0o711); err != nil { // Postgres runs as another user below it
			return err
		}
	}
	_, err = os.Stat(f.path(size{rows: large, spread: true}))
	there := err == nil
	if f.cluster, err = pgtest.Start(ctx, filepath.Join(f.dir, "postgres"), settings()...); err != nil {
		return err
	}
	if !there {
		if err := f.fill(ctx, time.Now()); err != nil {
			return err
		}
	}
	of := func(s size) (database, database, error) {
		counts, err := watchPostgres(ctx, f.cluster.URL("postgres"), s.String())
		if err != nil {
			return database{}, database{}, err
		}
		_, err = counts.take(ctx)
		path := f.path(s)
		work.take(path)
		return database{"sqlite:" + path, func(context.Context) (statements, error) { return work.take(path), nil }}, database{f.cluster.URL(s.String()), counts.take}, err
	}
	if f.sqlite.small, f.postgres.small, err = of(size{rows: small}); err != nil {
		return err
	}
	if f.sqlite.large, f.postgres.large, err = of(size{rows: large}); err != nil {
		return err
	}
	f.sqlite.spread, f.postgres.spread, err = of(size{rows: large, spread: true})
	return err
}

// fill makes the databases, those of SQLite beside those of Postgres.
func (f *filled) fill(ctx context.Context, now time.Time) (err error) {
	inSQLite := make(chan error, 1)
	go func() {
		for _, s := range sizes() {
			if err := fillSQLite(ctx, f.path(s), s, now); err != nil {
				inSQLite <- err
				return
			}
		}
		inSQLite <- nil
	}()
	for _, s := range sizes() {
		err = errors.Join(err, fillPostgres(ctx, f.cluster, s.String(), s, now))
	}
	return errors.Join(err, <-inSQLite)
}

func (f *filled) path(s size) string { return filepath.Join(f.dir, s.String()+".db") }

func (s size) String() string {
	if s.spread {
		return fmt.Sprintf("spread_%d", s.rows)
	}
	return fmt.Sprintf("rows_%d", s.rows)
}

func sizes() []size { return []size{{rows: small}, {rows: large}, {rows: large, spread: true}} }

// end removes everything.
func (f *filled) end() error {
	var err error
	if f.cluster != nil {
		err = f.cluster.Stop()
	}
	if f.temporary && f.dir != "" {
		err = errors.Join(err, os.RemoveAll(f.dir))
	}
	return err
}
