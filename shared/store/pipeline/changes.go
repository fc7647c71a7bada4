package pipeline

import (
	"context"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// The functions of this file are for dispatchers, which follow the webhooks of all accounts and the webhooks' health.

// ConfigVersion returns the version of the last webhook change; the first is 1.
func (p *Pipeline) ConfigVersion(ctx context.Context) (int64, error) {
	var version int64
	err := p.db.Reading(ctx).Raw("SELECT version FROM config_version WHERE id = 1").Scan(&version).Error
	return version, store.Wrap("read configuration version", err)
}

// Webhooks returns the webhooks of all accounts that changed after version since, deleted ones
// included, and the version that this covers. since 0: all webhooks that exist.
func (p *Pipeline) Webhooks(ctx context.Context, since int64) ([]domain.Webhook, int64, error) {
	var webhooks []domain.Webhook
	var version int64
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		if err := tx.Raw("SELECT version FROM config_version WHERE id = 1").Scan(&version).Error; err != nil {
			return err
		}
		query := tx.Where("version > ?", since).Order("version")
		if since == 0 {
			query = tx.Where("NOT deleted").Order("version")
		}
		var rows []webhookRow
		if err := query.Find(&rows).Error; err != nil {
			return err
		}
		webhooks = make([]domain.Webhook, 0, len(rows))
		for _, row := range rows {
			webhooks = append(webhooks, p.webhookFromRow(row))
		}
		return p.giveKeys(tx, webhooks)
	})
	return webhooks, version, store.Wrap("read webhooks", err)
}

// LiveWebhooks returns the webhooks with these ids, of any account, that exist and are not deleted.
func (p *Pipeline) LiveWebhooks(ctx context.Context, ids []domain.WebhookID) ([]domain.Webhook, error) {
	texts := store.All(ids, func(id domain.WebhookID) string { return string(id) })
	var rows []webhookRow
	if err := p.db.Reading(ctx).Where("id IN ? AND NOT deleted", texts).Find(&rows).Error; err != nil {
		return nil, store.Wrap("look webhooks up", err)
	}
	webhooks := store.All(rows, p.webhookFromRow)
	return webhooks, store.Wrap("look webhooks up", p.giveKeys(p.db.Reading(ctx), webhooks))
}

// Healths returns the webhooks' healths that were written at since or later, by the clocks of their
// writers, so callers subtract a margin. The zero time: all healths.
func (p *Pipeline) Healths(ctx context.Context, since time.Time) ([]domain.Health, error) {
	query := p.db.Reading(ctx)
	if !since.IsZero() {
		query = query.Where("updated_at >= ?", store.InstantOf(since))
	}
	var rows []webhookHealthRow
	if err := query.Find(&rows).Error; err != nil {
		return nil, store.Wrap("read webhook health", err)
	}
	return store.All(rows, webhookHealthRow.domain), nil
}
