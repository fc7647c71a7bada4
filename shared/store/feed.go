package store

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

// feedOrderRow orders the commits of events: on Postgres it is what is added to the ids of
// transactions, on SQLite the number of the last commit.
type feedOrderRow struct {
	ID   int `gorm:"primaryKey;autoIncrement:false"`
	Xact int64
}

func (feedOrderRow) TableName() string { return "feed_order" }

// SQLiteXact is the number of the next commit that adds events, on SQLite, within the transaction
// that takes it with SQLiteTakeXact.
const (
	SQLiteXact     = `(SELECT xact + 1 FROM feed_order)`
	SQLiteTakeXact = `UPDATE feed_order SET xact = xact + 1`
)

// nextXact numbers the commits that add events, on SQLite.
const nextXact = SQLiteTakeXact + ` RETURNING xact`

// NextXact returns the number of the transaction among those that add events, on SQLite: each is above
// all that are committed.
func (c Conn) NextXact(ctx context.Context) (xact int64, err error) {
	err = c.Query(ctx, nextXact, func(scan Scan) error { return scan(&xact) })
	return xact, err
}

// FeedLock is an advisory lock of Postgres. Each transaction that adds events holds it, shared,
// from before it has an id until its end. So a feed need not wait for those that do not.
const FeedLock = 0x57617966 // "Wayf"

// AddsEvents has the feeds wait for a transaction that adds events. It comes first, before anything gives the
// transaction an id.
func (s *Store) AddsEvents(tx *gorm.DB) error {
	if s.SQLite() {
		return nil
	}
	if err := tx.Exec("SELECT pg_advisory_xact_lock_shared(?)", FeedLock).Error; err != nil {
		return fmt.Errorf("lock the order of events: %w", err)
	}
	return nil
}

// sqliteHorizon: transactions follow one another.
const sqliteHorizon = "SELECT xact + 1 AS horizon, xact + 1 AS next FROM feed_order WHERE id = 1"

// postgresHorizon: of the transactions that the snapshot holds for running, all count that may
// add events. Those that do not are known by a lock on their own id and none on FeedLock, in
// one look at the locks, which Postgres gives of one instant. Who has ended since the snapshot has
// no locks, and counts. Nothing is looked at when nothing runs.
const postgresHorizon = `
WITH locks AS MATERIALIZED (
	SELECT virtualtransaction AS holder, transactionid, locktype = 'advisory' AND database = mine.oid
		AND classid = 0 AND objid = ? AND objsubid = 1 AS adds
	FROM pg_locks, (SELECT oid FROM pg_database WHERE datname = current_database()) AS mine
	WHERE granted AND (locktype = 'transactionid' AND mode = 'ExclusiveLock' OR locktype = 'advisory')
)
SELECT xact + least(
	pg_snapshot_xmax(pg_current_snapshot())::text::bigint,
	(SELECT min(x::text::bigint) FROM pg_snapshot_xip(pg_current_snapshot()) AS running (x)
		WHERE NOT EXISTS (
			SELECT 1 FROM locks AS own WHERE own.transactionid = x::xid
				AND NOT EXISTS (SELECT 1 FROM locks AS l WHERE l.holder = own.holder AND l.adds)))) AS horizon,
	xact + pg_snapshot_xmax(pg_current_snapshot())::text::bigint AS next
FROM feed_order WHERE id = 1`

// Horizon is how far a feed may be read.
type Horizon struct {
	// Horizon is the number below which every transaction that has added events, or will, is in the
	// snapshot. A later snapshot may have a lower one: a transaction that ended between the snapshot
	// and the look at the locks counts, although it was known before to add no events.
	Horizon int64
	// Next is above the number of every transaction that the snapshot knows.
	Next int64
}

// Horizon returns how far the feeds of the snapshot that tx reads go. Tx must be one of Snapshot.
func (s *Store) Horizon(tx *gorm.DB) (Horizon, error) {
	query := tx.Raw(postgresHorizon, FeedLock)
	if s.SQLite() {
		query = tx.Raw(sqliteHorizon)
	}
	var horizon Horizon
	if err := query.Scan(&horizon).Error; err != nil {
		return Horizon{}, fmt.Errorf("find the oldest transaction: %w", err)
	}
	return horizon, nil
}
