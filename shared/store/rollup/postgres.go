package rollup

import (
	"context"
	"database/sql"
	"strings"
	"time"

	"waybill.dev/shared/store"
)

// postgres has the statements that are written for Postgres.
type postgres struct{}

// mergeLock lets one merge at a time change rows of rollups: it writes sums that it has read.
const mergeLock = 0x57617975 // "Wayu"

func (postgres) alone(ctx context.Context, c store.Conn) error {
	// A plan that was made while rollups was empty would read all of it for each key.
	if _, err := c.ExecContext(ctx, "SET LOCAL enable_seqscan = off"); err != nil {
		return err
	}
	_, err := c.ExecContext(ctx, "SELECT pg_advisory_xact_lock($1)", int64(mergeLock))
	return err
}

func (postgres) take(ctx context.Context, c store.Conn, ids []int64) ([]delta, error) {
	rows, err := c.QueryContext(ctx, `DELETE FROM rollup_deltas WHERE id = ANY($1) RETURNING id, account, event_type, minute, events, counts`, ids)
	if err != nil {
		return nil, err
	}
	return scanDeltas(rows)
}

func scanDeltas(rows *sql.Rows) ([]delta, error) {
	defer rows.Close()
	var list []delta
	for rows.Next() {
		var d delta
		if err := rows.Scan(&d.ID, &d.Account, &d.EventType, &d.Minute, &d.Events, &d.Counts); err != nil {
			return nil, err
		}
		list = append(list, d)
	}
	return list, rows.Err()
}

const postgresKeys = `unnest($1::text[], $2::text[], $3::integer[], $4::timestamptz[], $5::text[], $6::text[])`

// keyArrays returns the parameters of postgresKeys.
func keyArrays(keys []rowKey) []any {
	n := len(keys)
	accounts, webhooks, types, classes := make([]string, n), make([]string, n), make([]string, n), make([]string, n)
	spans, starts := make([]int32, n), make([]time.Time, n)
	for i, key := range keys {
		accounts[i], webhooks[i], types[i], classes[i] = key.Account, string(key.Webhook), string(key.Type), string(key.Class)
		spans[i], starts[i] = int32(key.step), timeOf(key.Minute)
	}
	return []any{accounts, webhooks, spans, starts, types, classes}
}

func (postgres) stored(ctx context.Context, c store.Conn, keys []rowKey, into map[rowKey]*Counts) error {
	rows, err := c.QueryContext(ctx, `
		SELECT `+rollupColumnsOf("r")+` FROM `+postgresKeys+` AS k (account, webhook_id, step, start, event_type, class)
		CROSS JOIN LATERAL (SELECT `+rollupColumns+` FROM rollups r
			WHERE r.account = k.account AND r.webhook_id = k.webhook_id AND r.step = k.step AND r.start = k.start
				AND r.event_type = k.event_type AND r.class = k.class OFFSET 0) r`, keyArrays(keys)...)
	if err != nil {
		return err
	}
	return scanRollups(rows, func(key rowKey, counts *Counts) error {
		into[key].Add(counts)
		return nil
	})
}

func (postgres) put(ctx context.Context, c store.Conn, keys []rowKey, counts map[rowKey]*Counts) error {
	n := len(keys)
	events, deliveries, attempts := make([]int64, n), make([]int64, n), make([]int64, n)
	lasts, latencies := make([]*time.Time, n), make([][]byte, n)
	for i, key := range keys {
		of := counts[key]
		events[i], deliveries[i], attempts[i] = of.Events, of.Deliveries, of.Attempts
		if !of.Last.IsZero() {
			lasts[i] = &of.Last
		}
		latencies[i] = of.Latency.append(nil)
	}
	_, err := c.ExecContext(ctx, `
		INSERT INTO rollups (`+rollupColumns+`)
		SELECT `+rollupColumns+` FROM unnest($1::text[], $2::text[], $3::integer[], $4::timestamptz[], $5::text[], $6::text[],
			$7::bigint[], $8::bigint[], $9::bigint[], $10::timestamptz[], $11::bytea[]) AS n (`+rollupColumns+`)
		ON CONFLICT (account, webhook_id, step, start, event_type, class) DO UPDATE SET `+rollupChange,
		append(keyArrays(keys), events, deliveries, attempts, lasts, latencies)...)
	return err
}

// rollupColumnsOf returns the columns of the table that alias names.
func rollupColumnsOf(alias string) string {
	return alias + "." + strings.ReplaceAll(rollupColumns, ", ", ", "+alias+".")
}

const (
	rollupColumns = `account, webhook_id, step, start, event_type, class, events, deliveries, attempts, last_at, latency`
	rollupChange  = `events = excluded.events, deliveries = excluded.deliveries, attempts = excluded.attempts,
		last_at = excluded.last_at, latency = excluded.latency`
)
