package store

import (
	"context"
	"fmt"

	"gorm.io/gorm"
)

// feedOrderRow orders the commits of events. On Postgres it has the number that is added to the ids
// of transactions, on SQLite the number of the last commit.
type feedOrderRow struct {
	ID   int `gorm:"primaryKey;autoIncrement:false"`
	Xact int64
}

func (feedOrderRow) TableName() string { return "feed_order" }

// SQLiteXact is the number of the next commit that adds events, on SQLite. It is valid within the
// transaction that takes it with SQLiteTakeXact.
const (
	SQLiteXact     = `(SELECT xact + 1 FROM feed_order)`
	SQLiteTakeXact = `UPDATE feed_order SET xact = xact + 1`
)

// nextXact takes and returns the next number, on SQLite.
const nextXact = SQLiteTakeXact + ` RETURNING xact`

// NextXact returns the transaction's number among those that add events, on SQLite. It is above the
// numbers of all committed transactions.
func (c Conn) NextXact(ctx context.Context) (xact int64, err error) {
	err = c.Query(ctx, nextXact, func(scan Scan) error { return scan(&xact) })
	return xact, err
}

// FeedLock is an advisory lock of Postgres. Each transaction that adds events holds it, shared,
// from before it has an id until its end. So a feed need not wait for other transactions.
const FeedLock = 0x57617966 // "Wayf"

// AddsEvents makes the feeds wait for a transaction that adds events. Call it first, before any statement
// gives the transaction an id.
func (s *Store) AddsEvents(tx *gorm.DB) error {
	if s.SQLite() {
		return nil
	}
	if err := tx.Exec("SELECT pg_advisory_xact_lock_shared(?)", FeedLock).Error; err != nil {
		return fmt.Errorf("lock the order of events: %w", err)
	}
	return nil
}

// sqliteHorizon needs no locks, because transactions run one after the other.
const sqliteHorizon = "SELECT xact + 1 AS horizon, xact + 1 AS next FROM feed_order WHERE id = 1"

// postgresHorizon considers the running transactions of the snapshot that may add events. A
// transaction adds no events if it has a lock on its own id and none on FeedLock; both are read in
// one look at the locks, which Postgres takes at one instant. A transaction that has ended since
// the snapshot has no locks, and is considered. If no transaction runs, the locks are not read.
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

// Horizon is the point up to which a feed may be read.
type Horizon struct {
	// Horizon is the number below which every transaction that has added events, or will, is in the
	// snapshot. A later snapshot may have a lower number: a transaction that ended between the
	// snapshot and the look at the locks counts as adding events, even if an earlier look had shown
	// that it adds none.
	Horizon int64
	// Next is above the number of every transaction in the snapshot.
	Next int64
}

// Horizon returns the horizon of the feeds in the snapshot that tx reads. tx must be one of Snapshot.
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
