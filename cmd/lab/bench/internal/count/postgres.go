package count

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/pgtest"
)

// PostgresSettings make the counts exact. Postgres writes no whole pages to its log, because their number depends on the
// time of the last checkpoint, and does no work of its own.
const PostgresSettings = "shared_preload_libraries=pg_stat_statements,full_page_writes=off,autovacuum=off,max_wal_size=4GB,checkpoint_timeout=1h,bgwriter_lru_maxpages=0"

// Postgres counts what one database of a server does.
type Postgres struct {
	beside, conn *pgx.Conn // to another database of the server, and to the one that is counted
	of           uint32
}

// OpenPostgres begins to count, in a server with PostgresSettings.
func OpenPostgres(ctx context.Context, cluster *pgtest.Cluster, url string) (*Postgres, error) {
	beside, err := pgx.Connect(ctx, cluster.URL("postgres"))
	if err != nil {
		return nil, fmt.Errorf("connect to the server: %w", err)
	}
	p := &Postgres{beside: beside}
	if _, err = beside.Exec(ctx, "CREATE EXTENSION IF NOT EXISTS pg_stat_statements"); err == nil {
		p.conn, err = pgx.Connect(ctx, url)
	}
	if err == nil {
		_, err = p.conn.Exec(ctx, "SET pg_stat_statements.track = 'none'")
	}
	if err == nil {
		err = p.conn.QueryRow(ctx, "SELECT oid FROM pg_database WHERE datname = current_database()").Scan(&p.of)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("count statements: %w", err), p.Close(ctx))
	}
	return p, nil
}

// Close closes both connections.
func (p *Postgres) Close(ctx context.Context) error {
	err := p.beside.Close(ctx)
	if p.conn != nil {
		err = errors.Join(err, p.conn.Close(ctx))
	}
	return err
}

// control are statements that begin or end a transaction.
var control = regexp.MustCompile(`(?i)^(begin|start transaction|commit|rollback)`)

// Read adds all counts but syncs to a reading.
func (p *Postgres) Read(ctx context.Context, r *Reading) error {
	rows, err := p.beside.Query(ctx, "SELECT query, calls, shared_blks_hit + shared_blks_read, wal_bytes::float8 FROM pg_stat_statements WHERE dbid = $1", p.of)
	if err != nil {
		return fmt.Errorf("count statements: %w", err)
	}
	for rows.Next() {
		var text string
		var did Did
		if err := rows.Scan(&text, &did.N, &did.Work, &did.LogBytes); err != nil {
			return fmt.Errorf("count statements: %w", err)
		}
		if !control.MatchString(text) {
			r.add(text, did)
		}
	}
	var commits, bytes float64
	err = errors.Join(rows.Err(),
		p.beside.QueryRow(ctx, "SELECT pg_snapshot_xmax(pg_current_snapshot())::text::float8").Scan(&commits),
		p.conn.QueryRow(ctx, "SELECT coalesce((SELECT sum(pg_column_size(e)) FROM events e), 0) + coalesce((SELECT sum(pg_column_size(d)) FROM deliveries d), 0)").Scan(&bytes))
	r.Counts[Commits], r.Counts[RowBytes] = commits, bytes
	if err != nil {
		return fmt.Errorf("count what was done: %w", err)
	}
	return nil
}

// syncsLag is a second more than the 10 s after which an idle connection reports its work to the statistics of Postgres.
const syncsLag = 11 * time.Second

// ReadSyncs adds to a reading how often the log was forced to the disk. ReadSyncs first waits syncsLag, so that the
// server's statistics have all of these syncs.
func (p *Postgres) ReadSyncs(ctx context.Context, r *Reading) error {
	timer := time.NewTimer(syncsLag)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
	}
	var n float64
	if err := p.beside.QueryRow(ctx, "SELECT wal_sync FROM pg_stat_wal").Scan(&n); err != nil {
		return fmt.Errorf("count syncs: %w", err)
	}
	r.Counts[Syncs] = n
	return nil
}

var (
	values = regexp.MustCompile(`\$\d+|\?\d*`)
	lists  = regexp.MustCompile(`\?(, ?\?)+`)
	tuples = regexp.MustCompile(`\((…|\?)\)(, ?\((…|\?)\))*`)
	days   = regexp.MustCompile(`_(p\d{8}|h\d{10})\b`)
)

// add adds a statement.
func (r Reading) add(text string, did Did) {
	text = plainly(text)
	r.Texts[text] = r.Texts[text].plus(did, 1)
}

// plainly returns a statement without what differs from run to run: how many values it has, and the day of a partition.
func plainly(text string) string {
	text = strings.Join(strings.Fields(text), " ")
	text = lists.ReplaceAllString(values.ReplaceAllString(text, "?"), "…")
	return days.ReplaceAllString(tuples.ReplaceAllString(text, "…"), "")
}
