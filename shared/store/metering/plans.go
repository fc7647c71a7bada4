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

// Errors of changes of a plan.
var (
	ErrNotDraft  = errors.New("the plan is no draft")
	ErrNotActive = errors.New("the plan is not active")
)

// FeatureError means that a feature of a plan does not exist, or has no meter although the plan needs one.
type FeatureError struct {
	Phase, Card int
	// Missing: there is no live feature with the key. Otherwise the feature has no meter.
	Missing bool
}

// Error tells where the fault is.
func (e *FeatureError) Error() string {
	return fmt.Sprintf("rate card %d of phase %d has a feature that is not there as the plan needs it", e.Card, e.Phase)
}

// CreatePlan stores the next version of a plan, as a draft. ErrLimit: the bucket has
// domain.MaxPlans. A *FeatureError describes the first wrong feature.
func (m *Metering) CreatePlan(ctx context.Context, bucket domain.BucketKey, p domain.Plan) (domain.Plan, error) {
	var made domain.Plan
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		id, err := m.takeBucket(tx, bucket, store.LockChange)
		if err != nil {
			return err
		}
		if err := checkLimit(tx.Model(&planRow{}).Where("bucket_id = ?", id), domain.MaxPlans); err != nil {
			return err
		}
		if err := m.checkFeatures(tx, id, p.Phases); err != nil {
			return err
		}
		var last int
		err = tx.Model(&planRow{}).Where("bucket_id = ? AND key = ?", id, p.Key).Select("coalesce(max(version), 0)").Scan(&last).Error
		if err != nil {
			return fmt.Errorf("look for versions of the plan: %w", err)
		}
		now := m.db.Now()
		row := &planRow{
			ID: newID(now), BucketID: id, Key: p.Key, Version: last + 1, Status: string(domain.PlanDraft),
			CreatedAt: store.InstantOf(now), UpdatedAt: store.InstantOf(now),
		}
		if err := row.fill(&p); err != nil {
			return err
		}
		if err := tx.Create(row).Error; err != nil {
			return fmt.Errorf("insert plan: %w", err)
		}
		if made, err = row.domain(); err != nil {
			return err
		}
		return m.notePlan(ctx, tx, auditlog.ActionCreatePlan, bucket, row)
	})
	return made, store.Wrap("create plan", err)
}

// checkFeatures finds the first feature of phases that is missing, or lacks
// the meter that its rate card needs.
func (m *Metering) checkFeatures(tx *gorm.DB, bucket string, phases []domain.Phase) error {
	var rows []featureRow
	if err := m.db.Lock(tx.Where("bucket_id = ? AND archived_at IS NULL", bucket), store.LockShare).Find(&rows).Error; err != nil {
		return fmt.Errorf("read features: %w", err)
	}
	metered := make(map[string]bool, len(rows))
	for i := range rows {
		metered[rows[i].Key] = rows[i].MeterID != nil
	}
	for i, phase := range phases {
		for j, card := range phase.RateCards {
			has, there := metered[card.FeatureKey]
			switch {
			case card.FeatureKey == "":
			case !there:
				return &FeatureError{Phase: i, Card: j, Missing: true}
			case !has && card.Entitlement != nil && card.Entitlement.Type == domain.EntitlementMetered:
				return &FeatureError{Phase: i, Card: j}
			}
		}
	}
	return nil
}

func (m *Metering) notePlan(ctx context.Context, tx *gorm.DB, action string, bucket domain.BucketKey, row *planRow) error {
	name := fmt.Sprintf("%s version %d", row.Key, row.Version)
	err := m.audit.Note(ctx, tx, action, bucket.Account, domain.Resource{Type: auditlog.ResourcePlan, ID: row.ID, Name: name})
	if err != nil {
		return err
	}
	return raiseVersion(ctx, tx)
}

// PlanFilter selects plans of a bucket.
type PlanFilter struct {
	Key    string            // empty: any
	Status domain.PlanStatus // empty: any
	store.Page
}

// ListPlans returns plans of a bucket, and how many there are.
func (m *Metering) ListPlans(ctx context.Context, bucket domain.BucketKey, f PlanFilter) ([]domain.Plan, int, error) {
	if !store.Storable(f.Key) {
		return nil, 0, nil
	}
	var list []domain.Plan
	var total int
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		id, err := m.takeBucket(tx, bucket, store.LockNone)
		if err != nil {
			return err
		}
		query := tx.Model(&planRow{}).Where("bucket_id = ?", id)
		if f.Key != "" {
			query = query.Where("key = ?", f.Key)
		}
		if f.Status != "" {
			query = query.Where("status = ?", string(f.Status))
		}
		rows, n, err := store.ListPage[planRow](query, f.Page, store.Weight{SQL: "octet_length(phases) + octet_length(metadata) + octet_length(description) + 1024", Step: 100})
		if err != nil {
			return err
		}
		total, list = n, make([]domain.Plan, len(rows))
		for i := range rows {
			if list[i], err = rows[i].domain(); err != nil {
				return err
			}
		}
		return nil
	})
	return list, total, store.Wrap("list plans", err)
}

// GetPlan returns a plan.
func (m *Metering) GetPlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error) {
	var plan domain.Plan
	err := m.db.Snapshot(ctx, func(tx *gorm.DB) error {
		row, err := m.takePlan(tx, bucket, id, store.LockNone)
		if err != nil {
			return err
		}
		plan, err = row.domain()
		return err
	})
	return plan, store.Wrap("get plan", err)
}

func (m *Metering) takePlan(tx *gorm.DB, bucket domain.BucketKey, id, lock string) (*planRow, error) {
	if !store.Storable(id) {
		return nil, domain.ErrNotFound
	}
	in, err := m.takeBucket(tx, bucket, store.LockNone)
	if err != nil {
		return nil, err
	}
	row := &planRow{}
	err = m.db.Lock(tx.Where("bucket_id = ? AND id = ?", in, id), lock).Take(row).Error
	return row, err
}

// changePlan changes the row of a plan, in one transaction.
func (m *Metering) changePlan(ctx context.Context, action string, bucket domain.BucketKey, id string, change func(*gorm.DB, *planRow) error) (domain.Plan, error) {
	var plan domain.Plan
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := m.takePlan(tx, bucket, id, store.LockChange)
		if err != nil {
			return err
		}
		if err := change(tx, row); err != nil {
			return err
		}
		row.UpdatedAt = store.InstantOf(m.db.Now())
		if err := tx.Save(row).Error; err != nil {
			return fmt.Errorf("update plan row: %w", err)
		}
		if plan, err = row.domain(); err != nil {
			return err
		}
		return m.notePlan(ctx, tx, action, bucket, row)
	})
	return plan, err
}

// UpdatePlan replaces the content of a draft. ErrNotDraft: the plan is no draft. A *FeatureError
// describes the first wrong feature.
func (m *Metering) UpdatePlan(ctx context.Context, bucket domain.BucketKey, id string, p domain.Plan) (domain.Plan, error) {
	plan, err := m.changePlan(ctx, auditlog.ActionUpdatePlan, bucket, id, func(tx *gorm.DB, row *planRow) error {
		if domain.PlanStatus(row.Status) != domain.PlanDraft {
			return ErrNotDraft
		}
		if err := m.checkFeatures(tx, row.BucketID, p.Phases); err != nil {
			return err
		}
		return row.fill(&p)
	})
	return plan, store.Wrap("update plan", err)
}

// PublishPlan makes a draft active. The version that was active before stays active. ErrNotDraft:
// the plan is no draft. A *FeatureError describes a feature that does not exist any more.
func (m *Metering) PublishPlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error) {
	plan, err := m.changePlan(ctx, auditlog.ActionPublishPlan, bucket, id, func(tx *gorm.DB, row *planRow) error {
		if domain.PlanStatus(row.Status) != domain.PlanDraft {
			return ErrNotDraft
		}
		draft, err := row.domain()
		if err != nil {
			return err
		}
		if err := m.checkFeatures(tx, row.BucketID, draft.Phases); err != nil {
			return err
		}
		row.Status, row.EffectiveFrom = string(domain.PlanActive), store.InstantOf(m.db.Now())
		return nil
	})
	return plan, store.Wrap("publish plan", err)
}

// ArchivePlan makes an active plan unavailable for new subscriptions. ErrNotActive: the plan is not active.
func (m *Metering) ArchivePlan(ctx context.Context, bucket domain.BucketKey, id string) (domain.Plan, error) {
	plan, err := m.changePlan(ctx, auditlog.ActionArchivePlan, bucket, id, func(_ *gorm.DB, row *planRow) error {
		if domain.PlanStatus(row.Status) != domain.PlanActive {
			return ErrNotActive
		}
		row.Status, row.EffectiveTo = string(domain.PlanArchived), store.InstantOf(m.db.Now())
		return nil
	})
	return plan, store.Wrap("archive plan", err)
}

// DeletePlan removes a draft. ErrNotDraft: the plan is no draft.
func (m *Metering) DeletePlan(ctx context.Context, bucket domain.BucketKey, id string) error {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		row, err := m.takePlan(tx, bucket, id, store.LockDelete)
		if err != nil {
			return err
		}
		if domain.PlanStatus(row.Status) != domain.PlanDraft {
			return ErrNotDraft
		}
		if err := tx.Delete(row).Error; err != nil {
			return fmt.Errorf("delete plan row: %w", err)
		}
		return m.notePlan(ctx, tx, auditlog.ActionDeletePlan, bucket, row)
	})
	return store.Wrap("delete plan", err)
}
