package metering

import (
	"context"
	"errors"
	"fmt"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// Faults of a feature, in addition to those of its form.
var (
	ErrNoMeter = errors.New("there is no such meter")
	ErrGroup   = errors.New("the meter has no such group")
)

// CreateFeature stores a feature in a bucket; the store sets its id and times. ErrConflict: the
// bucket has a live feature with the key. ErrLimit: the bucket has domain.MaxFeatures live
// features. ErrNoMeter, ErrGroup: the feature's meter, or a group of it, does not exist.
func (m *Metering) CreateFeature(ctx context.Context, bucket domain.BucketKey, f domain.Feature) (domain.Feature, error) {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		id, err := m.takeBucket(tx, bucket, store.LockChange)
		if err != nil {
			return err
		}
		live := tx.Model(&featureRow{}).Where("bucket_id = ? AND archived_at IS NULL", id)
		if err := checkLimit(live, domain.MaxFeatures); err != nil {
			return err
		}
		f.CreatedOn = m.db.Now()
		f.UpdatedOn, f.ID = f.CreatedOn, newID(f.CreatedOn)
		row := &featureRow{
			ID: f.ID, BucketID: id, Key: f.Key, Name: f.Name, CreatedAt: store.InstantOf(f.CreatedOn), UpdatedAt: store.InstantOf(f.UpdatedOn),
		}
		if row.Metadata, err = writeMap(f.Metadata); err != nil {
			return err
		}
		if row.Filters, err = writeMap(f.Filters); err != nil {
			return err
		}
		if f.MeterSlug != "" {
			meter, err := m.meterOf(tx, id, &f)
			if err != nil {
				return err
			}
			row.MeterID = &meter
		}
		if err := tx.Create(row).Error; err != nil {
			return fmt.Errorf("insert feature: %w", err)
		}
		return m.noteFeature(ctx, tx, auditlog.ActionCreateFeature, bucket, row)
	})
	return f, store.Wrap("create feature", err)
}

// meterOf returns the id of a new feature's meter.
func (m *Metering) meterOf(tx *gorm.DB, bucket string, f *domain.Feature) (string, error) {
	var row meterRow
	err := m.db.Lock(tx.Where("bucket_id = ? AND slug = ?", bucket, f.MeterSlug), store.LockShare).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return "", ErrNoMeter
	}
	if err != nil {
		return "", fmt.Errorf("read meter of feature: %w", err)
	}
	meter, err := row.domain(domain.BucketKey{})
	for group := range f.Filters {
		if meter.GroupBy[group] == "" {
			return "", ErrGroup
		}
	}
	return row.ID, err
}

func (m *Metering) noteFeature(ctx context.Context, tx *gorm.DB, action string, bucket domain.BucketKey, row *featureRow) error {
	err := m.audit.Note(ctx, tx, action, bucket.Account, domain.Resource{Type: auditlog.ResourceFeature, ID: row.ID, Name: row.Key})
	if err != nil {
		return err
	}
	return raiseVersion(ctx, tx)
}

// FeatureFilter selects features of a bucket.
type FeatureFilter struct {
	MeterSlug string // empty: any
	Archived  bool   // include archived features
	store.Page
}

// ListFeatures returns features of a bucket, and how many there are.
func (m *Metering) ListFeatures(ctx context.Context, bucket domain.BucketKey, f FeatureFilter) ([]domain.Feature, int, error) {
	if !store.Storable(f.MeterSlug) {
		return nil, 0, nil
	}
	var list []domain.Feature
	var total int
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		id, err := m.takeBucket(tx, bucket, store.LockNone)
		if err != nil {
			return err
		}
		query := tx.Model(&featureRow{}).Where("bucket_id = ?", id)
		if !f.Archived {
			query = query.Where("archived_at IS NULL")
		}
		if f.MeterSlug != "" {
			query = query.Where("meter_id IN (SELECT id FROM meters WHERE bucket_id = ? AND slug = ?)", id, f.MeterSlug)
		}
		rows, n, err := store.ListPage[featureRow](query, f.Page, store.Weight{SQL: "octet_length(metadata) + octet_length(filters) + 512"})
		if err != nil {
			return err
		}
		total = n
		list, err = m.withMeters(tx, id, rows)
		return err
	})
	return list, total, store.Wrap("list features", err)
}

// withMeters returns features with the slugs of their meters.
func (m *Metering) withMeters(tx *gorm.DB, bucket string, rows []featureRow) ([]domain.Feature, error) {
	var meters []meterRow
	if err := tx.Select("id", "slug").Where("bucket_id = ?", bucket).Find(&meters).Error; err != nil {
		return nil, fmt.Errorf("read slugs of meters: %w", err)
	}
	slugs := make(map[string]string, len(meters))
	for i := range meters {
		slugs[meters[i].ID] = meters[i].Slug
	}
	list := make([]domain.Feature, len(rows))
	for i := range rows {
		slug := ""
		if rows[i].MeterID != nil {
			slug = slugs[*rows[i].MeterID]
		}
		var err error
		if list[i], err = rows[i].domain(slug); err != nil {
			return nil, err
		}
	}
	return list, nil
}

// GetFeature returns a feature, also an archived one.
func (m *Metering) GetFeature(ctx context.Context, bucket domain.BucketKey, id string) (domain.Feature, error) {
	var feature domain.Feature
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := m.takeFeature(tx, bucket, id, store.LockNone)
		if err != nil {
			return err
		}
		list, err := m.withMeters(tx, row.BucketID, []featureRow{*row})
		if err == nil {
			feature = list[0]
		}
		return err
	})
	return feature, store.Wrap("get feature", err)
}

func (m *Metering) takeFeature(tx *gorm.DB, bucket domain.BucketKey, id, lock string) (*featureRow, error) {
	if !store.Storable(id) {
		return nil, domain.ErrNotFound
	}
	in, err := m.takeBucket(tx, bucket, store.LockNone)
	if err != nil {
		return nil, err
	}
	row := &featureRow{}
	err = m.db.Lock(tx.Where("bucket_id = ? AND id = ?", in, id), lock).Take(row).Error
	return row, err
}

// ArchiveFeature makes a feature unavailable for new plans. Plans that have it keep it. For an
// archived feature it does nothing.
func (m *Metering) ArchiveFeature(ctx context.Context, bucket domain.BucketKey, id string) error {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := m.takeFeature(tx, bucket, id, store.LockChange)
		if err != nil || row.ArchivedAt != 0 {
			return err
		}
		row.ArchivedAt = store.InstantOf(m.db.Now())
		row.UpdatedAt = row.ArchivedAt
		if err := tx.Select("archived_at", "updated_at").Updates(row).Error; err != nil {
			return fmt.Errorf("archive feature row: %w", err)
		}
		return m.noteFeature(ctx, tx, auditlog.ActionArchiveFeature, bucket, row)
	})
	return store.Wrap("archive feature", err)
}
