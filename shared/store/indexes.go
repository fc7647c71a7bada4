package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"

	"github.com/pressly/goose/v3"
)

// laterIndexes has the indexes on Postgres of tables that may be large when a migration finds them, by the version
// of the migration that builds them. Some of these tables are partitioned, and CREATE INDEX would lock them with
// all their partitions; others are written to all the time. Each index is built while others read and write. An
// existing index stays, so these steps may follow migrations that have built it themselves.
func laterIndexes() map[int64][]string {
	return map[int64][]string{
		24: {
			// Deliveries that failed or are not delivered yet, by how their last attempt ended and by their
			// reason; tests; how many deliveries of a webhook wait, are held and are scheduled. A delivery
			// that succeeds at once is in none of these.
			`deliveries_by_class ON deliveries (account, last_class, id) WHERE status <> 'delivered'`,
			`deliveries_by_answer ON deliveries (account, last_status, id) WHERE status <> 'delivered'`,
			`deliveries_by_reason ON deliveries (account, reason, id) WHERE status <> 'delivered' AND reason <> ''`,
			`deliveries_tests ON deliveries (account, id) WHERE test`,
			`deliveries_waiting ON deliveries (webhook_id, in_lane, status) WHERE status IN ('pending', 'retrying', 'held')`,
			// An account's events of one type and source, newest first; a list of all events merges them.
			// All events of a commit have the same time, so the index stays small and ties are sorted.
			`events_by_time ON events (account, type, source, received_at)`,
			// Postgres takes this much processor time for an event, in commits of 500: 12 µs without this
			// index, 3 more with it, 7 more if it had the text of the shipment.
			`events_by_shipment ON events (shipment, received_at)`,
			// An account's events of one type in the order of commits. All events of a
			// commit have the same transaction.
			`events_by_commit ON events (account, type, xact, received_at)`,

			// Builds that their gateway has lost, and the open builds of an account.
			`gateway_builds_leased ON gateway_builds (lease_until) WHERE status = 'BUILDING'`,
			`gateway_builds_by_account ON gateway_builds (account) WHERE status IN ('QUEUED', 'BUILDING')`,
			`gateway_deployments_by_account ON gateway_deployments (account, created_at, seq) WHERE removed_at IS NULL`,
			// Rows that a purge removes.
			`gateway_deployments_removed ON gateway_deployments (removed_at) WHERE removed_at IS NOT NULL`,
			`gateway_domains_removed ON gateway_domains (removed_at) WHERE removed_at IS NOT NULL`,
			`gateway_tunnels_removed ON gateway_tunnels (removed_at) WHERE removed_at IS NOT NULL`,
			`gateway_client_cas_removed ON gateway_client_cas (removed_at) WHERE removed_at IS NOT NULL`,
			`gateway_tunnel_tokens_by_end ON gateway_tunnel_tokens (ends_at) WHERE ends_at IS NOT NULL`,
			`gateway_acme_locks_by_end ON gateway_acme_locks (expires_at)`,
			`gateway_writers_by_age ON gateway_writers (written_at)`,
			// The consumers that a person manages.
			`key_managers_by_sub ON key_managers (sub) WHERE sub <> ''`,
			`key_managers_by_email ON key_managers (lower(email))`,
		},
		26: {
			`accounts_by_age ON accounts (created_at, seq)`,
			`audit_log_uncounted ON audit_log (account, at) WHERE NOT counted`,
			// The columns by which lists are filtered.
			`audit_log_by_action ON audit_log (account, action, at, id)`,
			`audit_log_by_actor ON audit_log (account, sub, at, id)`,
			`audit_log_by_outcome ON audit_log (account, success, at, id)`,
		},
		27: {
			// Secrets and credentials of an account's webhooks that end soon.
			`webhooks_auth_ends ON webhooks (account, auth_expires_at) WHERE auth_expires_at IS NOT NULL`,
			`webhooks_secret_ends ON webhooks (account, previous_secret_expires_at) WHERE previous_secret_expires_at IS NOT NULL`,
			// Rows that a purge removes.
			`requests_by_day ON requests (day)`,
			// Tests that were asked for and have no delivery yet. They are listed together with deliveries.
			`requests_tests ON requests (account, delivery_id) WHERE kind = 'test'`,
			// The deployments of a branch.
			`gateway_deployments_by_branch ON gateway_deployments (account, project, branch, created_at, seq) WHERE removed_at IS NULL`,
		},
		35: {
			// This index replaces deliveries_waiting. For each lane and status, the oldest delivery comes first.
			`deliveries_oldest ON deliveries (webhook_id, in_lane, status, id) WHERE status IN ('pending', 'retrying', 'held')`,
		},
	}
}

// indexSteps returns the migrations that build the later indexes.
func indexSteps() []*goose.Migration {
	var steps []*goose.Migration
	for version, definitions := range laterIndexes() {
		steps = append(steps, goose.NewGoMigration(version, &goose.GoFunc{RunDB: func(ctx context.Context, db *sql.DB) error {
			return buildIndexes(ctx, db, definitions)
		}}, nil))
	}
	return steps
}

// buildIndexes builds the indexes that do not exist yet, each outside a transaction.
func buildIndexes(ctx context.Context, db *sql.DB, definitions []string) error {
	conn, err := db.Conn(ctx)
	if err != nil {
		return err
	}
	defer conn.Close()
	for _, definition := range definitions {
		name, rest, _ := strings.Cut(definition, " ON ")
		table, columns, _ := strings.Cut(rest, " ")
		var kind string
		if err := conn.QueryRowContext(ctx, "SELECT relkind FROM pg_class WHERE oid = $1::text::regclass", table).Scan(&kind); err != nil {
			return fmt.Errorf("look at table %s: %w", table, err)
		}
		if kind == "p" {
			err = buildOnPartitions(ctx, conn, name, table, columns)
		} else {
			err = buildConcurrently(ctx, conn, name, table, columns)
		}
		if err != nil {
			return fmt.Errorf("build index %s: %w", name, err)
		}
	}
	return nil
}

// buildOnPartitions builds an index of a partitioned table: first on the table alone, which takes no time, then on
// each partition, attached to the table's index. Partitions that are made later have it from the start.
func buildOnPartitions(ctx context.Context, conn *sql.Conn, name, table, columns string) error {
	if _, err := conn.ExecContext(ctx, fmt.Sprintf("CREATE INDEX IF NOT EXISTS %s ON ONLY %s %s", name, table, columns)); err != nil {
		return err
	}
	partitions, err := missingPartitions(ctx, conn, name, table)
	if err != nil {
		return err
	}
	for _, partition := range partitions {
		part := name + strings.TrimPrefix(partition, table)
		err := buildConcurrently(ctx, conn, part, partition, columns)
		if err == nil {
			_, err = conn.ExecContext(ctx, fmt.Sprintf("ALTER INDEX %s ATTACH PARTITION %s", name, part))
		}
		if err != nil && !errors.Is(checkTable(ctx, conn, partition), sql.ErrNoRows) {
			return err
		}
	}
	return nil
}

// missingPartitions returns the partitions of a table that have no part of its index.
func missingPartitions(ctx context.Context, conn *sql.Conn, index, table string) ([]string, error) {
	rows, err := conn.QueryContext(ctx, `SELECT child.relname FROM pg_inherits p JOIN pg_class child ON child.oid = p.inhrelid
		WHERE p.inhparent = $1::text::regclass AND NOT EXISTS (SELECT 1 FROM pg_inherits part JOIN pg_index i ON i.indexrelid = part.inhrelid
			WHERE part.inhparent = $2::text::regclass AND i.indrelid = child.oid) ORDER BY child.relname`, table, index)
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	var names []string
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			return nil, err
		}
		names = append(names, name)
	}
	return names, rows.Err()
}

// checkTable returns sql.ErrNoRows when a table does not exist: a day may be dropped while its index is built.
func checkTable(ctx context.Context, conn *sql.Conn, table string) error {
	var there bool
	return conn.QueryRowContext(ctx, "SELECT true FROM pg_class WHERE oid = to_regclass($1::text)", table).Scan(&there)
}

// buildConcurrently builds an index while others read and write its table. It waits for older transactions, such as
// a dump, and nothing waits for it during that time. If an earlier try was not finished, it builds the index again.
func buildConcurrently(ctx context.Context, conn *sql.Conn, name, table, columns string) error {
	var valid bool
	err := conn.QueryRowContext(ctx, "SELECT indisvalid FROM pg_index WHERE indexrelid = to_regclass($1::text)", name).Scan(&valid)
	if err == nil && valid {
		return nil
	}
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return err
	}
	for _, statement := range []string{
		fmt.Sprintf("SET lock_timeout = '%d s'", int(lockPatience.Seconds())),
		"DROP INDEX CONCURRENTLY IF EXISTS " + name,
		fmt.Sprintf("CREATE INDEX CONCURRENTLY %s ON %s %s", name, table, columns),
		"RESET lock_timeout",
	} {
		if _, err := conn.ExecContext(ctx, statement); err != nil {
			_, resetting := conn.ExecContext(ctx, "RESET lock_timeout")
			return errors.Join(err, resetting)
		}
	}
	return nil
}
