package rollup

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"waybill.dev/shared/store"
)

// The most that one transaction merges. On SQLite it keeps all other writers waiting.
const (
	mergeDeltas         = 5000
	mergeBytesPostgres  = 4 << 20
	mergeBytesSQLite    = 256 << 10
	mergeDeltasOnSQLite = 500
)

// Merge adds deltas to the rows of their minutes, hours and days, the oldest first, and removes
// them. It returns how many it has merged, and whether there may be more. Several processes may
// call it at the same time: they take turns, and each delta is added once.
func (r *Rollups) Merge(ctx context.Context) (merged int, more bool, err error) {
	err = r.db.Again(ctx, func() error {
		merged, more, err = r.merge(ctx)
		return err
	})
	if err != nil {
		return 0, false, store.Wrap("merge rollups", err)
	}
	return merged, more, nil
}

func (r *Rollups) merge(ctx context.Context) (merged int, more bool, err error) {
	// A plan that was made while rollups was empty would read the whole table.
	first := fmt.Sprintf("SET LOCAL enable_seqscan = off; SELECT pg_advisory_xact_lock(%d)", int64(mergeLock))
	err = r.db.Write(ctx, first, func(c store.Conn) error {
		merged, more, err = mergeIn(ctx, c)
		return err
	})
	return merged, more, err
}

func mergeIn(ctx context.Context, c store.Conn) (merged int, more bool, err error) {
	ids, more, err := chooseDeltas(ctx, c)
	if err != nil || len(ids) == 0 {
		return 0, false, err
	}
	deltas, err := takeDeltas(ctx, c, ids)
	if err != nil {
		return 0, false, fmt.Errorf("take deltas: %w", err)
	}
	counts, err := sumByRow(deltas)
	if err != nil {
		return 0, false, err
	}
	keys := make([]rowKey, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	slices.SortFunc(keys, compareRows)
	for part := range slices.Chunk(keys, store.BatchRows) {
		if err := addStored(ctx, c, part, counts); err != nil {
			return 0, false, fmt.Errorf("read rollups: %w", err)
		}
		if err := putRows(ctx, c, part, counts); err != nil {
			return 0, false, fmt.Errorf("write rollups: %w", err)
		}
	}
	return len(deltas), more, nil
}

// chooseDeltas returns the ids of the deltas to merge next.
func chooseDeltas(ctx context.Context, c store.Conn) (ids []int64, more bool, err error) {
	most, room := mergeDeltas, mergeBytesPostgres
	if c.SQLite() {
		most, room = mergeDeltasOnSQLite, mergeBytesSQLite
	}
	err = c.Query(ctx, `SELECT id, coalesce(length(counts), 0) FROM rollup_deltas ORDER BY id LIMIT $1`, func(scan store.Scan) error {
		var id int64
		var size int
		err := scan(&id, &size)
		if more = more || len(ids) > 0 && room < size; !more {
			room -= size
			ids = append(ids, id)
		}
		return err
	}, most)
	return ids, more || len(ids) == most, err
}

// sumByRow adds deltas up, by the rows that they change.
func sumByRow(deltas []delta) (map[rowKey]*Counts, error) {
	counts := map[rowKey]*Counts{}
	add := func(key rowKey, more *Counts) {
		c := counts[key]
		if c == nil {
			c = &Counts{}
			counts[key] = c
		}
		c.Add(more)
	}
	for i := range deltas {
		err := deltas[i].each("", func(key Key, more *Counts) {
			ofAccount := key
			ofAccount.Webhook = ""
			for _, step := range steps() {
				minute := step.floor(key.Minute)
				ofAccount.Minute = minute
				add(rowKey{ofAccount, step}, more)
				if key.Webhook != "" {
					ofWebhook := key
					ofWebhook.Minute = minute
					add(rowKey{ofWebhook, step}, more)
				}
			}
		})
		if err != nil {
			return nil, fmt.Errorf("delta %d: %w", deltas[i].ID, err)
		}
	}
	return counts, nil
}

func compareRows(a, b rowKey) int {
	return cmp.Or(
		cmp.Compare(a.Account, b.Account), cmp.Compare(a.Webhook, b.Webhook), cmp.Compare(a.step, b.step),
		cmp.Compare(a.Minute, b.Minute), cmp.Compare(a.Type, b.Type), cmp.Compare(a.Class, b.Class))
}
