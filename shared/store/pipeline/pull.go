package pipeline

import (
	"context"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// pulledWithin is how far back the maintenance of the log looks for webhooks that went from push to
// pull while deliveries were on their way.
const pulledWithin = time.Hour

// EndPushed ends the undelivered deliveries of the given webhooks that are read by pull: their
// events are in the webhooks' feeds. Without arguments, it does so for all webhooks that were
// changed within pulledWithin, in case the process that changed one failed to. The revision stays,
// so that an attempt in flight can still report how it ended.
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

// endPushed ends the undelivered deliveries of a webhook if it is still read by pull.
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
