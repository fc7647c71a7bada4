// Package recorder writes what dispatchers report into the pipeline's tables, in bulk: deliveries,
// attempts, health, events that were published on NATS, settlements, and alerts. Only dispatchers
// use it: no other service writes a delivery.
package recorder

import (
	"context"
	"slices"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
)

// Tables that are partitioned by day.
const (
	tableEvents     = "events"
	tableDeliveries = "deliveries"
	tableAttempts   = "attempts"
)

// Recorder writes the log, and reads the recorded state.
type Recorder struct {
	db        *store.Store
	owners    *owners
	publicURL string
}

// WithLinks returns a recorder with publicURL as the start of links in alerts; without it, the links are paths.
func (r *Recorder) WithLinks(publicURL string) *Recorder {
	linked := *r
	linked.publicURL = publicURL
	return &linked
}

// New returns a recorder on an open database.
func New(db *store.Store) *Recorder {
	db.Prepare(sqliteAnswerJob, rollup.InsertDelta)
	return &Recorder{db: db, owners: newOwners()}
}

// revsPage bounds how many deliveries one query names.
const revsPage = 500

// Revs returns the stored revisions of an account's deliveries, for those that are in the log.
func (r *Recorder) Revs(ctx context.Context, account string, ids []domain.DeliveryID) (map[domain.DeliveryID]domain.Revision, error) {
	revs := make(map[domain.DeliveryID]domain.Revision, len(ids))
	byDay := map[store.Date][]string{}
	for _, id := range ids {
		if at, ok := id.ReceivedAt(); ok {
			byDay[store.DateOf(at)] = append(byDay[store.DateOf(at)], string(id))
		}
	}
	for day, texts := range byDay {
		for part := range slices.Chunk(texts, revsPage) {
			if err := r.revs(ctx, day.Time(), account, part, revs); err != nil {
				return nil, store.Wrap("read revisions", err)
			}
		}
	}
	return revs, nil
}

// revs adds the revisions of an account's deliveries of a day that exist. Postgres looks each delivery up by the
// primary key, and plans that again each time. A plan that was made while the partition was small, or that names all
// ids at once and reads the whole partition, takes milliseconds; this look-up takes 0.1.
func (r *Recorder) revs(ctx context.Context, day time.Time, account string, ids []string, revs map[domain.DeliveryID]domain.Revision) error {
	c := r.db.Conn()
	look := store.Statement{
		SQL:  "SELECT id, rev FROM deliveries WHERE id " + c.In() + " AND account = $2 AND day = $3",
		Args: []any{c.List(ids), account, c.Date(day)},
		Each: func(scan store.Scan) error {
			var id string
			var rev int64
			err := scan(&id, &rev)
			revs[domain.DeliveryID(id)] = domain.Revision(rev)
			return err
		},
	}
	if c.SQLite() {
		return c.Batch(ctx, look)
	}
	look.SQL = `SELECT d.id, d.rev FROM unnest($1::text[]) AS k (id) CROSS JOIN LATERAL (
		SELECT id, rev FROM ` + c.Partition(tableDeliveries, day) + ` WHERE account = $2 AND id = k.id AND day = $3 LIMIT 1) d`
	plan := store.Statement{SQL: "SELECT set_config('enable_seqscan', 'off', true), set_config('plan_cache_mode', 'force_custom_plan', true)"}
	if err := c.Batch(ctx, plan, look); !store.MissingPartition(err) {
		return err
	}
	return nil
}
