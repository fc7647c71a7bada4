package rollup

import (
	"context"
	"database/sql"

	"waybill.dev/shared/store"
)

// sqlite has the statements that are written for SQLite.
type sqlite struct {
	db         *store.Store
	statements *store.Statements
}

const (
	sqliteTake  = `DELETE FROM rollup_deltas WHERE id = ? RETURNING id, account, event_type, minute, events, counts`
	keyColumns  = 6
	rollupWidth = keyColumns + 5
)

func sqliteStored() store.MultiRow {
	return store.MultiRow{
		Head:    "SELECT " + rollupColumns + " FROM rollups WHERE (account, webhook_id, step, start, event_type, class) IN (VALUES ",
		Tail:    ")",
		Columns: keyColumns,
	}
}

func sqlitePut() store.MultiRow {
	return store.MultiRow{
		Head:    "INSERT INTO rollups (" + rollupColumns + ") VALUES ",
		Tail:    " ON CONFLICT (account, webhook_id, step, start, event_type, class) DO UPDATE SET " + rollupChange,
		Columns: rollupWidth,
	}
}

// alone has nothing to do: a writing transaction is alone.
func (sqlite) alone(context.Context, store.Conn) error { return nil }

func (s sqlite) take(ctx context.Context, c store.Conn, ids []int64) ([]delta, error) {
	var all []delta
	for _, id := range ids {
		rows, err := s.statements.Query(ctx, c, sqliteTake, id)
		if err != nil {
			return nil, err
		}
		list, err := scanDeltas(rows)
		if err != nil {
			return nil, err
		}
		all = append(all, list...)
	}
	return all, nil
}

func (s sqlite) appendKey(values []any, k rowKey) []any {
	return append(values, k.Account, string(k.Webhook), int(k.step), s.db.Moment(timeOf(k.Minute)), string(k.Type), string(k.Class))
}

func (s sqlite) stored(ctx context.Context, c store.Conn, keys []rowKey, into map[rowKey]*Counts) error {
	values := make([]any, 0, len(keys)*keyColumns)
	for _, key := range keys {
		values = s.appendKey(values, key)
	}
	return s.statements.QueryRows(ctx, c, sqliteStored(), func(rows *sql.Rows) error {
		return scanRollups(rows, func(key rowKey, counts *Counts) error {
			into[key].Add(counts)
			return nil
		})
	}, values)
}

func (s sqlite) put(ctx context.Context, c store.Conn, keys []rowKey, counts map[rowKey]*Counts) error {
	values := make([]any, 0, len(keys)*rollupWidth)
	for _, key := range keys {
		of := counts[key]
		values = append(s.appendKey(values, key), of.Events, of.Deliveries, of.Attempts, s.db.Moment(of.Last), of.Latency.append(nil))
	}
	_, err := s.statements.ExecRows(ctx, c, sqlitePut(), values)
	return err
}
