package pipeline

import (
	"context"
	"time"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// sequencesKept is how long a webhook's number of a shipment is kept after the last delivery. After
// that, numbers begin at 1 again.
const sequencesKept = 90 * 24 * time.Hour

// MaintainResult is what one round of Maintain did.
type MaintainResult struct {
	Dropped []time.Time // days whose log was removed
	// Expired counts deliveries that had not ended when the retention ended: they are failed now,
	// with the reason retentionOver.
	Expired int
	// Unsettled counts events that were not settled when the retention ended.
	Unsettled int
}

// Maintain removes what is older than the retention and makes room for the days to come. It fails undelivered deliveries, removes the log a
// day at a time once the whole day is past the retention, and purges idempotency keys after 24 hours, audit entries and the numbers of
// shipments after 90 days, and deleted webhooks a day after their log. It works in small transactions and may be called at any time; after
// an error the next call goes on.
func (p *Pipeline) Maintain(ctx context.Context, now time.Time, retention time.Duration) (MaintainResult, error) {
	var result MaintainResult
	end := now.Add(-retention)
	if err := p.db.PrepareDays(ctx, store.DaysAround(now)...); err != nil {
		return result, store.Wrap("prepare days", err)
	}
	var err error
	if result.Expired, err = p.expire(ctx, now, end); err != nil {
		return result, store.Wrap("expire deliveries", err)
	}
	if result.Unsettled, err = p.db.Purge(ctx, "outbox", "(received_at, account, id)", "received_at < ?", store.InstantOf(end)); err != nil {
		return result, store.Wrap("purge outbox", err)
	}
	if _, err := p.EndPushed(ctx); err != nil {
		return result, err
	}
	floor := domain.Day(end)
	if err := p.db.RaiseFloor(ctx, floor); err != nil {
		return result, store.Wrap("raise floor of the log", err)
	}
	rollups := "(account, webhook_id, step, start, event_type, class)"
	if _, err = p.db.Purge(ctx, "rollups", rollups, "start < ?", store.InstantOf(floor)); err != nil {
		return result, store.Wrap("purge rollups", err)
	}
	if result.Dropped, err = p.db.DropDays(ctx, floor); err != nil {
		return result, store.Wrap("drop days", err)
	}
	if _, err := p.db.Purge(ctx, "requests", "id", "day < ?", store.DateOf(floor)); err != nil {
		return result, store.Wrap("purge requests", err)
	}
	if err := p.endJobs(ctx, floor); err != nil {
		return result, store.Wrap("purge jobs", err)
	}
	// An hour of margin: a key that comes back in that hour is taken over and need not be purged.
	if _, err := p.db.Purge(ctx, "idempotency_keys", "(account, path, key)", "created_at < ?", store.InstantOf(now.Add(-idempotencyWindow-time.Hour))); err != nil {
		return result, store.Wrap("purge idempotency keys", err)
	}
	if err := p.audit.Purge(ctx, now); err != nil {
		return result, err
	}
	if _, err := p.db.Purge(ctx, "signing_keys", "id", "expires_at < ?", store.InstantOf(now.Add(-24*time.Hour))); err != nil {
		return result, store.Wrap("purge signing keys", err)
	}
	if _, err := p.db.Purge(ctx, "webhook_sequences", "(webhook_id, shipment)", "updated_at < ?", store.InstantOf(now.Add(-sequencesKept))); err != nil {
		return result, store.Wrap("purge sequences", err)
	}
	return result, p.purgeWebhooks(ctx, store.InstantOf(end.Add(-24*time.Hour)))
}

// purgeWebhooks removes the webhooks that were deleted before a time. Rows that belong to them are removed
// first, because they can't be found without the webhook. The webhook has been deleted for longer than the
// retention, so dispatchers report nothing about it any more.
func (p *Pipeline) purgeWebhooks(ctx context.Context, gone store.Instant) error {
	const old, theirs = "deleted AND deleted_at < ?", "webhook_id IN (SELECT id FROM webhooks WHERE deleted_at < ? AND deleted)"
	for _, of := range []struct{ table, key, condition string }{
		{"webhook_cursors", "(webhook_id, name)", theirs},
		{"webhook_health", "webhook_id", theirs},
		{"webhook_circuits", "webhook_id", theirs},
		{"webhook_alerts", "webhook_id", theirs},
		{"webhook_acknowledgements", "webhook_id", theirs},
		{"webhooks", "id", old},
	} {
		if _, err := p.db.Purge(ctx, of.table, of.key, of.condition, gone); err != nil {
			return store.Wrap("purge "+of.table, err)
		}
	}
	return nil
}

// expire fails the undelivered deliveries of events accepted before end, as a new run, so that
// later reports of dispatchers about the old run have no effect.
func (p *Pipeline) expire(ctx context.Context, now, end time.Time) (int, error) {
	if end.Before(time.UnixMilli(0)) {
		return 0, nil
	}
	return p.db.Batches(ctx, func(tx *gorm.DB, rows int) *gorm.DB {
		return tx.Exec(`
			UPDATE deliveries SET status = 'failed', reason = ?, rev = (rev / ? + 1) * ?,
				next_attempt_at = NULL, in_lane = ?, updated_at = ?
			WHERE (account, id, day) IN (
				SELECT account, id, day FROM deliveries
				WHERE status IN ('pending', 'retrying', 'held') AND id < ? AND day <= ?
				ORDER BY id LIMIT ?)`,
			domain.ReasonRetention, domain.RunStep, domain.RunStep, false, store.InstantOf(now),
			string(domain.DeliveryIDFloor(end)), store.DateOf(end), rows)
	})
}
