package access

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/accounts"
	"waybill.dev/shared/store/auditlog"
)

// BucketRef names a bucket of an account.
type BucketRef struct {
	Account, Bucket string
	// Tags are pairs that the bucket must have; otherwise it is not found.
	Tags map[string]string
	// Guard is called inside the transaction for each consumer that is deleted with the bucket; its
	// error ends the deletion. It may be called again and must not use the store.
	Guard func(domain.Consumer) error
}

// Locks are taken from the outside inwards: first a bucket, then its consumers.

// CreateBucket stores b in its account, and sets its id and times. ErrConflict: the account has a
// bucket of that name; ErrNotFound: there is no such account; ErrLimit (a domain.LimitError, also
// in the functions below): the account has the maximum number of buckets.
func (a *Access) CreateBucket(ctx context.Context, b domain.Bucket) (domain.Bucket, error) {
	var created domain.Bucket
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, err := accounts.Take(tx, b.Account); err != nil {
			return err
		}
		row, err := insertBucket(tx, b, a.db.Now())
		if err != nil {
			return err
		}
		if created, err = row.domain(); err != nil {
			return err
		}
		if err := a.count(tx, row.Account, change{buckets: 1}); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionCreateBucket, row.Account, bucketResource(row))
	})
	return created, store.Wrap("create bucket", err)
}

func insertBucket(tx *gorm.DB, b domain.Bucket, now time.Time) (bucketRow, error) {
	b.ID, b.CreatedOn, b.UpdatedOn = store.NewID(prefixBucket, bucketIDLength), now, now
	row, err := bucketToRow(b)
	if err != nil {
		return row, err
	}
	if err := tx.Create(&row).Error; err != nil {
		return row, fmt.Errorf("insert bucket: %w", err)
	}
	return row, nil
}

// ListBuckets returns a page of the account's buckets that have all the tags, and their total
// number. There are fewer than the page's limit when they are large, see MaxPageBytes.
func (a *Access) ListBuckets(ctx context.Context, account string, tags map[string]string, page store.Page) ([]domain.Bucket, int, error) {
	if !store.Storable(account) {
		return nil, 0, nil
	}
	var buckets []domain.Bucket
	var total int
	err := a.db.Snapshot(ctx, func(tx *gorm.DB) error {
		query, err := a.withTags(tx.Model(&bucketRow{}).Where("account = ?", account), tags)
		if err != nil {
			return err
		}
		rows, n, err := store.ListPage[bucketRow](query, page, store.Weight{SQL: "octet_length(tags) + octet_length(description) + 256"})
		if err != nil {
			return err
		}
		total = n
		for _, row := range rows {
			b, err := row.domain()
			if err != nil {
				return err
			}
			buckets = append(buckets, b)
		}
		return nil
	})
	return buckets, total, store.Wrap("list buckets", err)
}

// GetBucket returns one bucket.
func (a *Access) GetBucket(ctx context.Context, ref BucketRef) (domain.Bucket, error) {
	_, b, err := a.bucket(a.db.Reading(ctx), ref, store.LockNone)
	return b, store.Wrap("get bucket", err)
}

func (a *Access) bucket(tx *gorm.DB, ref BucketRef, lock string) (bucketRow, domain.Bucket, error) {
	var row bucketRow
	if !store.Storable(ref.Account, ref.Bucket) {
		return row, domain.Bucket{}, domain.ErrNotFound
	}
	err := store.Unique(a.db.Lock(tx.Where("account = ? AND name = ?", ref.Account, ref.Bucket), lock), &row)
	if err != nil {
		return row, domain.Bucket{}, err
	}
	b, err := row.domain()
	if err == nil && !hasTags(b.Tags, ref.Tags) {
		err = domain.ErrNotFound
	}
	return row, b, err
}

// UpdateBucket applies change to the description and the tags of a bucket. If change returns an
// error, that is returned and nothing is stored; change may be called again and must not use the
// store.
func (a *Access) UpdateBucket(ctx context.Context, ref BucketRef, change func(*domain.Bucket) error) (domain.Bucket, error) {
	var updated domain.Bucket
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		row, b, err := a.bucket(tx, ref, store.LockChange)
		if err != nil {
			return err
		}
		if err := change(&b); err != nil {
			return err
		}
		row.Description, row.UpdatedAt = b.Description, store.InstantOf(a.db.Now())
		if row.Tags, err = joinTags(b.Tags); err != nil {
			return err
		}
		if err := tx.Select("description", "tags", "updated_at").Updates(&row).Error; err != nil {
			return fmt.Errorf("update bucket row: %w", err)
		}
		if updated, err = row.domain(); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionUpdateBucket, row.Account, bucketResource(row))
	})
	return updated, store.Wrap("update bucket", err)
}

// DeleteBucket deletes a bucket with its consumers, their keys and managers.
func (a *Access) DeleteBucket(ctx context.Context, ref BucketRef) error {
	err := a.db.Tx(ctx, func(tx *gorm.DB) error {
		row, _, err := a.bucket(tx, ref, store.LockDelete)
		if err != nil {
			return err
		}
		if err := a.guardAll(tx, row, ref.Guard); err != nil {
			return err
		}
		gone, err := within(tx, "c.bucket_id = ?", row.ID)
		if err != nil {
			return err
		}
		if err := tx.Delete(&row).Error; err != nil { // the database deletes the rest with it
			return fmt.Errorf("delete bucket row: %w", err)
		}
		gone.buckets = -1
		if err := a.count(tx, row.Account, gone); err != nil {
			return err
		}
		return a.audit.Note(ctx, tx, auditlog.ActionDeleteBucket, row.Account, bucketResource(row))
	})
	return store.Wrap("delete bucket", err)
}

// guardAll calls guard for every consumer of a bucket. The lock keeps others from adding consumers.
func (a *Access) guardAll(tx *gorm.DB, b bucketRow, guard func(domain.Consumer) error) error {
	if guard == nil {
		return nil
	}
	var rows []consumerRow
	query := a.db.Lock(tx.Where("bucket_id = ?", b.ID), store.LockDelete).Order("created_at, seq")
	if err := query.Find(&rows).Error; err != nil {
		return fmt.Errorf("read consumers: %w", err)
	}
	for _, row := range rows {
		c, err := row.domain(b)
		if err != nil {
			return err
		}
		if err := guard(c); err != nil {
			return err
		}
	}
	return nil
}

func bucketResource(b bucketRow) domain.Resource {
	return domain.Resource{Type: auditlog.ResourceBucket, ID: b.ID, Name: b.Name}
}
