package rollup

import (
	"context"
	"strings"

	"waybill.dev/shared/store"
)

// mergeLock lets only one merge at a time change rows of rollups on Postgres, because it writes sums of what
// it has read.
const mergeLock = 0x57617975 // "Wayu"

const (
	deltaColumns  = `id, account, event_type, minute, events, counts`
	rollupColumns = `account, webhook_id, step, start, event_type, class, events, deliveries, attempts, last_at, latency`
	keyTypes      = `text,text,integer,timestamptz,text,text`
)

// takeDeltas removes the deltas with these ids and returns them.
func takeDeltas(ctx context.Context, c store.Conn, ids []int64) (list []delta, err error) {
	err = c.Query(ctx, "DELETE FROM rollup_deltas WHERE id "+c.In()+" RETURNING "+deltaColumns, scanDeltas(&list), c.List(ids))
	return list, err
}

func scanDeltas(into *[]delta) func(store.Scan) error {
	return func(scan store.Scan) error {
		var d delta
		err := scan(&d.ID, &d.Account, &d.EventType, &d.Minute, &d.Events, &d.Counts)
		*into = append(*into, d)
		return err
	}
}

func appendKey(c store.Conn, values []any, k rowKey) []any {
	return append(values, k.Account, string(k.Webhook), int(k.step), c.Moment(timeOf(k.Minute)), string(k.Type), string(k.Class))
}

// addStored adds the values in the rows of keys to their counts. On Postgres each key is looked up separately: a
// plan that was made while rollups was empty would read the whole table.
func addStored(ctx context.Context, c store.Conn, keys []rowKey, into map[rowKey]*Counts) error {
	values := make([]any, 0, len(keys)*6)
	for _, key := range keys {
		values = appendKey(c, values, key)
	}
	m := store.MultiRow{Head: "SELECT " + rollupColumns + " FROM rollups WHERE (account, webhook_id, step, start, event_type, class) IN (", Tail: ")", Types: keyTypes}
	if !c.SQLite() {
		m.Head = "SELECT r." + strings.ReplaceAll(rollupColumns, ", ", ", r.") + " FROM ("
		m.Tail = `) AS k CROSS JOIN LATERAL (SELECT ` + rollupColumns + ` FROM rollups r
			WHERE r.account = k.column1 AND r.webhook_id = k.column2 AND r.step = k.column3 AND r.start = k.column4
				AND r.event_type = k.column5 AND r.class = k.column6 OFFSET 0) r`
	}
	return c.Batch(ctx, c.Rows(m, values, scanRollups(func(key rowKey, counts *Counts) error {
		into[key].Add(counts)
		return nil
	}))...)
}

func putRows(ctx context.Context, c store.Conn, keys []rowKey, counts map[rowKey]*Counts) error {
	values := make([]any, 0, len(keys)*11)
	for _, key := range keys {
		of := counts[key]
		values = append(appendKey(c, values, key), of.Events, of.Deliveries, of.Attempts, c.Moment(of.Last), of.Latency.append(nil))
	}
	return c.Batch(ctx, c.Rows(store.MultiRow{
		Head: "INSERT INTO rollups (" + rollupColumns + ") ",
		Tail: ` ON CONFLICT (account, webhook_id, step, start, event_type, class) DO UPDATE SET events = excluded.events,
			deliveries = excluded.deliveries, attempts = excluded.attempts, last_at = excluded.last_at, latency = excluded.latency`,
		Types: keyTypes + ",bigint,bigint,bigint,timestamptz,bytea",
	}, values, nil)...)
}
