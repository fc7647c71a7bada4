package pipeline

import (
	"context"
	"fmt"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/store"
)

// The record stage disables the webhooks of a consumer whose quota of deliveries is used
// up, until the period of the quota ends. The api activates them again at that time, and
// when the consumer's plan changes.

// usedUp selects webhooks that are inactive only because of a quota.
const usedUp = `active AND NOT deleted AND EXISTS (SELECT 1 FROM webhook_health h WHERE h.webhook_id = webhooks.id
	AND h.disabled_reason = 'quota' AND h.disabled_version >= webhooks.activated_version`

// ResumeOf activates the webhooks of a consumer that are inactive because of a quota, in a
// transaction that changes the consumer's plan.
func ResumeOf(tx *gorm.DB, consumer string, now time.Time) error {
	_, err := resume(tx, now, usedUp+") AND consumer_id = ?", consumer)
	return err
}

// ended selects the ids of the webhooks that were inactive because of a quota and whose period has ended in
// a span of time. The index by the end of the period finds them.
const ended = `SELECT h.webhook_id FROM webhook_health h JOIN webhooks w ON w.id = h.webhook_id
	WHERE h.disabled_until > ? AND h.disabled_until <= ? AND h.disabled_reason = 'quota' AND h.disabled_version >= w.activated_version
		AND w.active AND NOT w.deleted`

// ResumeQuotas activates the webhooks that were inactive because of a quota whose period has ended since
// the given time, and returns how many it has activated. The stored ends of periods are kept and become
// many, so ask only once for all of them.
func (p *Pipeline) ResumeQuotas(ctx context.Context, since time.Time) (int, error) {
	now := p.db.Now()
	span := []any{max(store.InstantOf(since), 1), store.InstantOf(now)} // an Instant of 0 is NULL
	var some []string
	err := p.db.Reading(ctx).Raw(ended+" LIMIT 1", span...).Scan(&some).Error
	if err != nil || len(some) == 0 {
		return 0, store.Wrap("look for quotas that have ended", err)
	}
	resumed := 0
	err = p.db.Tx(ctx, func(tx *gorm.DB) error {
		resumed, err = resume(tx, now, "id IN ("+ended+")", span...)
		return err
	})
	return resumed, store.Wrap("activate webhooks", err)
}

// resume activates webhooks under a new version, so that dispatchers find them.
func resume(tx *gorm.DB, now time.Time, where string, args ...any) (int, error) {
	version, err := bumpVersion(tx)
	if err != nil {
		return 0, err
	}
	result := tx.Model(&webhookRow{}).Where(where, args...).UpdateColumns(map[string]any{
		"version": version, "activated_version": version, "activated_at": store.InstantOf(now),
	})
	if result.Error != nil {
		return 0, fmt.Errorf("activate webhooks: %w", result.Error)
	}
	return int(result.RowsAffected), nil
}
