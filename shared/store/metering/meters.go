package metering

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// ErrInUse is returned for a meter that a live feature uses, and for groups by which a feature filters.
var ErrInUse = errors.New("a feature uses it")

// CreateMeter stores a meter in its bucket; the store sets its id and times. ErrConflict: the
// bucket has a meter with the slug. ErrLimit: the bucket has domain.MaxMeters.
func (m *Metering) CreateMeter(ctx context.Context, meter domain.Meter) (domain.Meter, error) {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		bucket, err := m.takeBucket(tx, meter.Bucket, store.LockChange)
		if err != nil {
			return err
		}
		if err := checkLimit(tx.Model(&meterRow{}).Where("bucket_id = ?", bucket), domain.MaxMeters); err != nil {
			return err
		}
		meter.CreatedOn = m.db.Now()
		meter.UpdatedOn, meter.ID = meter.CreatedOn, newID(meter.CreatedOn)
		row, err := meterToRow(&meter, bucket)
		if err != nil {
			return err
		}
		if err := tx.Create(row).Error; err != nil {
			return fmt.Errorf("insert meter: %w", err)
		}
		return m.noteMeter(ctx, tx, auditlog.ActionCreateMeter, &meter)
	})
	return meter, store.Wrap("create meter", err)
}

func (m *Metering) noteMeter(ctx context.Context, tx *gorm.DB, action string, meter *domain.Meter) error {
	err := m.audit.Note(ctx, tx, action, meter.Bucket.Account, domain.Resource{Type: auditlog.ResourceMeter, ID: meter.ID, Name: meter.Slug})
	if err != nil {
		return err
	}
	return raiseVersion(ctx, tx)
}

// ListMeters returns a page of a bucket's meters, and how many the bucket has.
func (m *Metering) ListMeters(ctx context.Context, bucket domain.BucketKey, page store.Page) ([]domain.Meter, int, error) {
	var list []domain.Meter
	var total int
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		id, err := m.takeBucket(tx, bucket, store.LockNone)
		if err != nil {
			return err
		}
		weight := store.Weight{SQL: "octet_length(metadata) + octet_length(description) + octet_length(group_by) + 512"}
		rows, n, err := store.ListPage[meterRow](tx.Model(&meterRow{}).Where("bucket_id = ?", id), page, weight)
		if err != nil {
			return err
		}
		total, list = n, make([]domain.Meter, len(rows))
		for i := range rows {
			if list[i], err = rows[i].domain(bucket); err != nil {
				return err
			}
		}
		return nil
	})
	return list, total, store.Wrap("list meters", err)
}

// GetMeter returns a meter by its id or its slug.
func (m *Metering) GetMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string) (domain.Meter, error) {
	var meter domain.Meter
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := m.takeMeter(tx, bucket, idOrSlug, store.LockNone)
		if err != nil {
			return err
		}
		meter, err = row.domain(bucket)
		return err
	})
	return meter, store.Wrap("get meter", err)
}

func (m *Metering) takeMeter(tx *gorm.DB, bucket domain.BucketKey, idOrSlug, lock string) (*meterRow, error) {
	if !store.Storable(idOrSlug) {
		return nil, domain.ErrNotFound
	}
	id, err := m.takeBucket(tx, bucket, store.LockNone)
	if err != nil {
		return nil, err
	}
	row := &meterRow{}
	err = m.db.Lock(tx.Where("bucket_id = ? AND (id = ? OR slug = ?)", id, idOrSlug, idOrSlug), lock).Take(row).Error
	return row, err
}

// UpdateMeter changes the fields of a meter that may change: name, description, metadata and
// groups. ErrInUse: a live feature uses a group that the meter would lose.
func (m *Metering) UpdateMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string, change func(*domain.Meter)) (domain.Meter, error) {
	var meter domain.Meter
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := m.takeMeter(tx, bucket, idOrSlug, store.LockChange)
		if err != nil {
			return err
		}
		if meter, err = row.domain(bucket); err != nil {
			return err
		}
		change(&meter)
		meter.UpdatedOn = m.db.Now()
		features, err := m.featuresOf(tx, row.ID)
		if err != nil {
			return err
		}
		for _, f := range features {
			for group := range f.Filters {
				if meter.GroupBy[group] == "" {
					return ErrInUse
				}
			}
		}
		changedRow, err := meterToRow(&meter, row.BucketID)
		if err != nil {
			return err
		}
		err = tx.Select("name", "description", "metadata", "group_by", "updated_at").Updates(changedRow).Error
		if err != nil {
			return fmt.Errorf("update meter row: %w", err)
		}
		return m.noteMeter(ctx, tx, auditlog.ActionUpdateMeter, &meter)
	})
	return meter, store.Wrap("update meter", err)
}

// DeleteMeter removes a meter. Its counts stay as long as counts are kept. ErrInUse: a live feature
// uses the meter.
func (m *Metering) DeleteMeter(ctx context.Context, bucket domain.BucketKey, idOrSlug string) error {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := m.takeMeter(tx, bucket, idOrSlug, store.LockDelete)
		if err != nil {
			return err
		}
		features, err := m.featuresOf(tx, row.ID)
		if err != nil {
			return err
		}
		if len(features) > 0 {
			return ErrInUse
		}
		meter, err := row.domain(bucket)
		if err != nil {
			return err
		}
		if err := tx.Delete(row).Error; err != nil {
			return fmt.Errorf("delete meter row: %w", err)
		}
		return m.noteMeter(ctx, tx, auditlog.ActionDeleteMeter, &meter)
	})
	return store.Wrap("delete meter", err)
}

// featuresOf returns the live features that use a meter.
func (m *Metering) featuresOf(tx *gorm.DB, meter string) ([]domain.Feature, error) {
	var rows []featureRow
	if err := tx.Where("meter_id = ? AND archived_at IS NULL", meter).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read features of meter: %w", err)
	}
	list := make([]domain.Feature, len(rows))
	for i := range rows {
		var err error
		if list[i], err = rows[i].domain(""); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// dimColumn returns the column of meter_hours that has a dim of events.
func dimColumn(dim string) string { return strings.TrimPrefix(dim, "$.") }
