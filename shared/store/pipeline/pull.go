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
	pulled := "delivery = 'pull' AND NOT deleted AND updated_at > ?"
	args := []any{store.InstantOf(p.db.Now().Add(-pulledWithin))}
	if len(webhooks) > 0 {
		pulled, args = pulled+" AND id IN ?", append(args, webhooks)
	}
	total, err := p.db.Batches(ctx, func(tx *gorm.DB, rows int) *gorm.DB {
		values := []any{domain.ReasonPull, false, store.InstantOf(p.db.Now())}
		return tx.Exec(`
			UPDATE deliveries SET status = 'failed', reason = ?, next_attempt_at = NULL, in_lane = ?, updated_at = ?
			WHERE (account, id, day) IN (
				SELECT account, id, day FROM deliveries
				WHERE status IN ('pending', 'retrying', 'held') AND status <> 'delivered'
					AND webhook_id IN (SELECT id FROM webhooks WHERE `+pulled+`)
				ORDER BY id LIMIT ?)`, append(append(values, args...), rows)...)
	})
	return total, store.Wrap("end deliveries to webhooks that are read by pull", err)
}
