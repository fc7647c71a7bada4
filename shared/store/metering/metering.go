// Package metering has the tables for what consumers use and may use: meters, features, plans,
// subscriptions, and counts by the hour. The api writes all but the counts. Gateways add the counts
// of requests, and the record stage those of deliveries; both read what consumers may use.
package metering

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/deployments"
)

// Metering reads and writes the tables.
type Metering struct {
	db    *store.Store
	audit *auditlog.Log
}

// New returns the tables of an open database.
func New(db *store.Store) *Metering { return &Metering{db: db, audit: auditlog.New(db)} }

// crockford encodes ids, which are ULIDs: no slug looks like one.
var crockford = base32.NewEncoding("0123456789ABCDEFGHJKMNPQRSTVWXYZ").WithPadding(base32.NoPadding) //nolint:gochecknoglobals // a constant

// newID returns a ULID for a time.
func newID(at time.Time) string {
	// 48 bits of milliseconds and 80 random bits, after 2 zero bits for base32.
	var b [17]byte
	binary.BigEndian.PutUint64(b[:8], uint64(at.UnixMilli())<<16)
	_, _ = rand.Read(b[6:16]) // never fails
	var shifted [17]byte
	for i := range 16 {
		shifted[i] |= b[i] >> 2
		shifted[i+1] = b[i] << 6
	}
	return crockford.EncodeToString(shifted[:])[:26]
}

// takeBucket returns the id of a bucket. With a lock, the bucket stays until the transaction ends.
func (m *Metering) takeBucket(tx *gorm.DB, bucket domain.BucketKey, lock string) (string, error) {
	if !store.Storable(bucket.Account, bucket.Bucket) {
		return "", domain.ErrNotFound
	}
	var row struct{ ID string }
	query := m.db.Lock(tx.Table("key_buckets").Select("id").Where("account = ? AND name = ?", bucket.Account, bucket.Bucket), lock)
	if err := store.Unique(query, &row); err != nil {
		return "", err
	}
	return row.ID, nil
}

// consumer has the fields of a consumer that metering needs.
type consumer struct{ ID, Name, BucketID string }

// ConsumerKey identifies a consumer.
type ConsumerKey struct {
	domain.BucketKey

	Consumer string
}

func (m *Metering) takeConsumer(tx *gorm.DB, key ConsumerKey, lock string) (consumer, error) {
	var c consumer
	if !store.Storable(key.Account, key.Bucket, key.Consumer) {
		return c, domain.ErrNotFound
	}
	bucket, err := m.takeBucket(tx, key.BucketKey, store.LockNone)
	if err != nil {
		return c, err
	}
	query := tx.Table("key_consumers").Select("id, name, bucket_id").Where("bucket_id = ? AND name = ?", bucket, key.Consumer)
	err = store.Unique(m.db.Lock(query, lock), &c)
	return c, err
}

// raiseVersion raises the version that gateways follow. Call it last in a transaction.
func raiseVersion(ctx context.Context, tx *gorm.DB) error {
	_, err := deployments.NextVersion(ctx, tx)
	return err
}

// checkLimit returns domain.ErrLimit when a bucket has the most rows of a table that it may have.
func checkLimit(query *gorm.DB, most int64) error {
	var count int64
	if err := query.Count(&count).Error; err != nil {
		return fmt.Errorf("count rows: %w", err)
	}
	if count >= most {
		return fmt.Errorf("bucket has %d: %w", count, domain.ErrLimit)
	}
	return nil
}

// Purge removes counts that have been kept long enough.
func (m *Metering) Purge(ctx context.Context, now time.Time) error {
	const key = "(consumer_id, event_type, hour, deployment, route, method, status)"
	_, err := m.db.Purge(ctx, "meter_hours", key, "hour < ?", store.InstantOf(now.Add(-domain.MeterRetention)))
	return store.Wrap("purge counts of meters", err)
}
