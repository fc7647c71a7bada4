// Package recorder writes what dispatchers report into the pipeline's tables, in bulk:
// deliveries, attempts, health, events that came over the bus, what is settled, and alerts. It is
// the dispatcher's: no other service writes a delivery.
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

// Recorder writes the log, and reads how far it is.
type Recorder struct {
	db        *store.Store
	dialect   dialect
	publicURL string
}

// dialect is how bulks are written on Postgres and on SQLite.
type dialect interface {
	record(ctx context.Context, w *recordWork) (RecordResult, error)
	// revs adds the revisions of those of an account's deliveries of a day that there are.
	revs(ctx context.Context, day time.Time, account string, ids []string, revs map[domain.DeliveryID]domain.Revision) error
}

// WithLinks has the links in alerts begin with publicURL; without, they are paths.
func (r *Recorder) WithLinks(publicURL string) *Recorder {
	linked := *r
	linked.publicURL = publicURL
	return &linked
}

// New returns a recorder on an open database.
func New(db *store.Store) *Recorder {
	r := &Recorder{db: db, dialect: postgres{db.Postgres(), newOwners()}}
	if statements := db.Statements(); statements != nil {
		statements.Add(sqliteRecordEvent, sqliteAnswerJob, rollup.InsertDelta)
		r.dialect = sqlite{db: db, statements: statements, owners: newOwners()}
	}
	return r
}

// revsPage bounds how many deliveries one look-up names.
const revsPage = 500

// Revs returns the stored revisions of those of an account's deliveries that are in the log.
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
			if err := r.dialect.revs(ctx, day.Time(), account, part, revs); err != nil {
				return nil, store.Wrap("read revisions", err)
			}
		}
	}
	return revs, nil
}
