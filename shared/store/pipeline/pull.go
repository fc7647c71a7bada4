package pipeline

import (
	"context"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// pulledWithin is for how long the upkeep of the log looks for what was on its way while a
// webhook went from push to pull.
const pulledWithin = time.Hour

// EndPushed ends what is undelivered to those of the webhooks that are read by pull: it is in
// their feeds. No webhooks: all that were changed within pulledWithin, in case that who changed
// them could not. The revision stays, so that an attempt in flight may still tell how it ended.
func (p *Pipeline) EndPushed(ctx context.Context, webhooks ...domain.WebhookID) (int, error) {
	pulled := p.db.Reading(ctx).Model(&webhookRow{}).Where("delivery = 'pull' AND NOT deleted AND updated_at > ?", store.InstantOf(p.db.Now().Add(-pulledWithin)))
	if len(webhooks) > 0 {
		pulled = pulled.Where("id IN ?", webhooks)
	}
	var ids []string
	if err := pulled.Pluck("id", &ids).Error; err != nil {
		return 0, store.Wrap("read webhooks that are read by pull", err)
	}
	total := 0
	for _, id := range ids {
		n, err := p.endPushed(ctx, id)
		total += n
		if err != nil {
			return total, store.Wrap("end deliveries to webhooks that are read by pull", err)
		}
	}
	return total, nil
}

// endPushed ends what is undelivered to a webhook if it is still read by pull.
func (p *Pipeline) endPushed(ctx context.Context, webhook string) (int, error) {
	return p.db.Batches(ctx, func(tx *gorm.DB, rows int) *gorm.DB {
		return tx.Exec(`
			UPDATE deliveries SET status = 'failed', reason = ?, next_attempt_at = NULL, in_lane = ?, updated_at = ?
			WHERE (account, id, day) IN (
				SELECT account, id, day FROM deliveries
				WHERE webhook_id = ? AND status IN ('pending', 'retrying', 'held') AND status <> 'delivered'
					AND EXISTS (SELECT 1 FROM webhooks WHERE id = ? AND delivery = 'pull' AND NOT deleted)
				ORDER BY id LIMIT ?)`, domain.ReasonPull, false, store.InstantOf(p.db.Now()), webhook, webhook, rows)
	})
}
