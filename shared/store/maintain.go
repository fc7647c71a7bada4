package store

import (
	"context"
	"fmt"
	"time"

	"waybill.dev/shared/domain"
)

// MaintainResult is what one round of Maintain did.
type MaintainResult struct {
	Dropped []time.Time // days whose log was removed
	// Expired counts deliveries that were not through when the retention ended: they
	// are failed now, with the reason retentionOver.
	Expired int
	// Unsettled counts events that reached the end of the retention unsettled.
	Unsettled int
}

const (
	// maintainBatch bounds the rows that one statement of Maintain touches.
	maintainBatch = 1000
	// Partitions are made from so many days ago, which is how far acceptance looks for
	// repeats, to so many ahead. Older ones come about when a record asks for them.
	daysBehind, daysAhead = 1, 3
)

// Maintain ends what is older than the retention and makes room for the days to come: it
// fails undelivered deliveries, removes the log a day at a time once the whole day is
// past the retention, and purges idempotency keys after 24 hours, audit entries after
// 90 days and deleted webhooks a day after their log. It works in small transactions and may be called at any time;
// after an error the next call goes on.
func (s *Store) Maintain(ctx context.Context, now time.Time, retention time.Duration) (MaintainResult, error) {
	var result MaintainResult
	end := now.Add(-retention)
	if err := s.engine.prepareDays(ctx, daysAround(now)...); err != nil {
		return result, wrap("prepare days", err)
	}
	var err error
	if result.Expired, err = s.expire(ctx, now, end); err != nil {
		return result, wrap("expire deliveries", err)
	}
	if result.Unsettled, err = s.purge(ctx, "outbox", "(received_at, account, id)", "received_at < ?", instantOf(end)); err != nil {
		return result, wrap("purge outbox", err)
	}
	floor := domain.Day(end)
	if err := s.raiseFloor(ctx, floor); err != nil {
		return result, wrap("raise floor of the log", err)
	}
	if result.Dropped, err = s.engine.dropDays(ctx, floor); err != nil {
		return result, wrap("drop days", err)
	}
	if _, err := s.purge(ctx, "requests", "id", "day < ?", dateOf(floor)); err != nil {
		return result, wrap("purge requests", err)
	}
	// An hour of margin: a key is taken over rather than purged when it comes back.
	if _, err := s.purge(ctx, "idempotency_keys", "(account, path, key)", "created_at < ?", instantOf(now.Add(-idempotencyWindow-time.Hour))); err != nil {
		return result, wrap("purge idempotency keys", err)
	}
	if _, err := s.purge(ctx, "audit_log", "id", "at < ?", instantOf(now.Add(-domain.AuditRetention))); err != nil {
		return result, wrap("purge audit log", err)
	}
	gone := instantOf(end.Add(-24 * time.Hour))
	if _, err := s.purge(ctx, "webhooks", "id", "deleted AND deleted_at < ?", gone); err != nil {
		return result, wrap("purge webhooks", err)
	}
	orphan := "updated_at < ? AND NOT EXISTS (SELECT 1 FROM webhooks w WHERE w.id = webhook_health.webhook_id)"
	if _, err := s.purge(ctx, "webhook_health", "webhook_id", orphan, gone); err != nil {
		return result, wrap("purge webhook health", err)
	}
	return result, nil
}

// daysAround lists the days that should have partitions at now.
func daysAround(now time.Time) []time.Time {
	days := make([]time.Time, 0, daysBehind+daysAhead+1)
	for i := -daysBehind; i <= daysAhead; i++ {
		days = append(days, domain.Day(now).AddDate(0, 0, i))
	}
	return days
}

// expire fails the undelivered deliveries of events accepted before end, as a new run,
// so that what a dispatcher still says about the old one comes too late.
func (s *Store) expire(ctx context.Context, now, end time.Time) (int, error) {
	if end.Before(time.UnixMilli(0)) {
		return 0, nil
	}
	total := 0
	for {
		var expired int64
		err := s.again(ctx, func() error {
			result := s.write.WithContext(ctx).Exec(`
				UPDATE deliveries SET status = 'failed', reason = ?, rev = (rev / ? + 1) * ?,
					next_attempt_at = NULL, in_lane = ?, updated_at = ?
				WHERE (account, id, day) IN (
					SELECT account, id, day FROM deliveries
					WHERE status IN ('pending', 'retrying', 'held') AND id < ? AND day <= ?
					ORDER BY id LIMIT ?)`,
				domain.ReasonRetention, domain.RunStep, domain.RunStep, false, instantOf(now),
				string(domain.DeliveryIDFloor(end)), dateOf(end), maintainBatch)
			expired = result.RowsAffected
			return result.Error
		})
		total += int(expired)
		if err != nil || expired < maintainBatch {
			return total, err
		}
	}
}

// purge deletes the rows of a table that match, in batches.
func (s *Store) purge(ctx context.Context, table, key, condition string, arg any) (int, error) {
	total := 0
	for {
		var deleted int64
		err := s.again(ctx, func() error {
			result := s.write.WithContext(ctx).Exec(
				fmt.Sprintf("DELETE FROM %s WHERE %s IN (SELECT %s FROM %s WHERE %s LIMIT ?)",
					table, key, trimParens(key), table, condition), arg, maintainBatch)
			deleted = result.RowsAffected
			return result.Error
		})
		total += int(deleted)
		if err != nil || deleted < maintainBatch {
			return total, err
		}
	}
}

func trimParens(key string) string {
	if key[0] == '(' {
		return key[1 : len(key)-1]
	}
	return key
}

// raiseFloor closes the days before floor: what is recorded for them from now on is
// only counted.
func (s *Store) raiseFloor(ctx context.Context, floor time.Time) error {
	return s.again(ctx, func() error {
		return s.write.WithContext(ctx).Model(&logFloorRow{}).Where("id = 1 AND day < ?", dateOf(floor)).
			UpdateColumn("day", dateOf(floor)).Error
	})
}
