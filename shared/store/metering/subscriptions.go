package metering

import (
	"context"
	"errors"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
)

// ErrNoPlan is returned for a subscription to a plan that does not exist.
var ErrNoPlan = errors.New("there is no such plan")

// ErrNoSubscription is returned for a consumer without a plan. It is a kind of domain.ErrNotFound.
var ErrNoSubscription = fmt.Errorf("the consumer has no plan: %w", domain.ErrNotFound)

// GetSubscription returns the subscription of a consumer. ErrNoSubscription: the consumer has no plan.
func (m *Metering) GetSubscription(ctx context.Context, key ConsumerKey) (*Entitlements, error) {
	c, err := m.takeConsumer(m.db.Reading(ctx), key, store.LockNone)
	if err != nil {
		return nil, store.Wrap("get subscription", err)
	}
	found, err := m.Entitlements(ctx, []string{c.ID})
	if err != nil {
		return nil, err
	}
	if found[c.ID] == nil {
		return nil, ErrNoSubscription
	}
	return found[c.ID], nil
}

// PutSubscription gives a consumer a plan, in its latest active version if version is 0. Periods
// continue as they began with the first plan. Webhooks of the consumer that were inactive because a
// quota of deliveries was used up become active again. ErrNoPlan: there is no such plan.
// ErrNotActive: the plan is a draft, or archived.
func (m *Metering) PutSubscription(ctx context.Context, key ConsumerKey, planKey string, version int) (*Entitlements, error) {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		c, err := m.takeConsumer(tx, key, store.LockShare)
		if err != nil {
			return err
		}
		plan, err := m.planOf(tx, c.BucketID, planKey, version)
		if err != nil {
			return err
		}
		now := m.db.Now()
		row := subscriptionRow{ConsumerID: c.ID, AnchorAt: store.InstantOf(now.Truncate(time.Hour)), CreatedAt: store.InstantOf(now)}
		err = m.db.Lock(tx.Where("consumer_id = ?", c.ID), store.LockChange).Limit(1).Find(&row).Error
		if err != nil {
			return fmt.Errorf("read subscription: %w", err)
		}
		if row.PlanID == plan.ID {
			return nil // the consumer has that plan already
		}
		row.PlanID, row.SinceAt, row.UpdatedAt = plan.ID, store.InstantOf(now), store.InstantOf(now)
		if err := tx.Save(&row).Error; err != nil {
			return fmt.Errorf("write subscription: %w", err)
		}
		name := fmt.Sprintf("%s: %s version %d", c.Name, plan.Key, plan.Version)
		return m.finishChange(ctx, tx, auditlog.ActionSetSubscription, key, c, name)
	})
	if err != nil {
		return nil, store.Wrap("set subscription", err)
	}
	return m.GetSubscription(ctx, key)
}

// planOf returns the plan that a subscription names.
func (m *Metering) planOf(tx *gorm.DB, bucket, key string, version int) (*planRow, error) {
	if !store.Storable(key) {
		return nil, ErrNoPlan
	}
	query := tx.Where("bucket_id = ? AND key = ?", bucket, key)
	if version != 0 {
		query = query.Where("version = ?", version)
	}
	var rows []planRow
	if err := m.db.Lock(query.Order("version DESC"), store.LockShare).Find(&rows).Error; err != nil {
		return nil, fmt.Errorf("read plan: %w", err)
	}
	if len(rows) == 0 {
		return nil, ErrNoPlan
	}
	for i := range rows {
		if domain.PlanStatus(rows[i].Status) == domain.PlanActive {
			return &rows[i], nil
		}
	}
	return nil, ErrNotActive
}

// DeleteSubscription removes a consumer's plan. Quotas don't bind its webhooks any more.
// ErrNoSubscription: the consumer has no plan.
func (m *Metering) DeleteSubscription(ctx context.Context, key ConsumerKey) error {
	err := m.db.Tx(ctx, func(tx *gorm.DB) error {
		c, err := m.takeConsumer(tx, key, store.LockShare)
		if err != nil {
			return err
		}
		result := tx.Where("consumer_id = ?", c.ID).Delete(&subscriptionRow{})
		if result.Error != nil {
			return fmt.Errorf("delete subscription: %w", result.Error)
		}
		if result.RowsAffected == 0 {
			return ErrNoSubscription
		}
		return m.finishChange(ctx, tx, auditlog.ActionDeleteSubscription, key, c, c.Name)
	})
	return store.Wrap("delete subscription", err)
}

// finishChange ends a change of a subscription: quotas of deliveries start over, and gateways learn
// of the change.
func (m *Metering) finishChange(ctx context.Context, tx *gorm.DB, action string, key ConsumerKey, c consumer, name string) error {
	if err := pipeline.ResumeOf(tx, c.ID, m.db.Now()); err != nil {
		return err
	}
	err := m.audit.Note(ctx, tx, action, key.Account, domain.Resource{Type: auditlog.ResourceSubscription, ID: c.ID, Name: name})
	if err != nil {
		return err
	}
	return raiseVersion(ctx, tx)
}
