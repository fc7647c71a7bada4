package pipeline

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// MostCounted is the number up to which the unfinished deliveries of one webhook are counted.
// CountedInLists is the same for each webhook of a list.
const (
	MostCounted    = 100_000
	CountedInLists = 1000
)

// OpenCounts has the numbers of a webhook's unfinished deliveries, each up to a bound.
type OpenCounts struct {
	Waiting   int // for their first attempt, or for an attempt that was asked for
	Held      int // in the hold queue
	Scheduled int // for their next attempt
	// Oldest is the unfinished delivery of the earliest event; empty: the log has none.
	Oldest domain.DeliveryID
}

// sqlWaits selects the deliveries that are in the index deliveries_oldest.
const sqlWaits = "status IN ('pending', 'retrying', 'held')"

// CountOpen counts the unfinished deliveries of an account's webhooks: up to most of each webhook and kind, in three
// statements at most.
func (p *Pipeline) CountOpen(ctx context.Context, account string, most int, ids ...domain.WebhookID) (map[domain.WebhookID]OpenCounts, error) {
	var rows []struct {
		ID                                string
		Pending, InLane, Inactive, Coming int
	}
	var requests []struct {
		WebhookID string
		N         int
	}
	var oldest map[string]domain.DeliveryID
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		count := func(condition string) string {
			return fmt.Sprintf("(SELECT count(*) FROM (SELECT 1 AS one FROM deliveries d WHERE d.webhook_id = w.id AND d.%s AND %s LIMIT %d) AS found)", sqlWaits, condition, most)
		}
		err := tx.Raw("SELECT w.id, "+count("d.in_lane = ? AND d.status = 'pending'")+" AS pending, "+count("d.in_lane = ?")+" AS in_lane, "+
			count("d.in_lane = ? AND d.status = 'held'")+" AS inactive, "+count("d.in_lane = ? AND d.status = 'retrying'")+" AS coming"+
			" FROM webhooks w WHERE w.account = ? AND w.id IN ?", false, true, false, false, account, ids).Scan(&rows).Error
		if err != nil {
			return err
		}
		var some []string // the webhooks that have any
		for _, row := range rows {
			if row.Pending+row.InLane+row.Inactive+row.Coming > 0 {
				some = append(some, row.ID)
			}
		}
		if oldest, err = oldestOpen(tx, some); err != nil {
			return err
		}
		return tx.Raw("SELECT asked.webhook_id, count(*) AS n FROM (SELECT r.webhook_id FROM requests r WHERE r.account = ? AND r.webhook_id IN ?"+
			" AND NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.account = r.account AND d.id = r.delivery_id AND d.day = r.day AND d."+sqlWaits+") LIMIT ?) AS asked"+
			" GROUP BY asked.webhook_id", account, ids, min(MostCounted, most*len(ids))).Scan(&requests).Error
	})
	if err != nil {
		return nil, store.Wrap("count open deliveries", err)
	}
	counts := make(map[domain.WebhookID]OpenCounts, len(rows))
	for _, row := range rows {
		counts[domain.WebhookID(row.ID)] = OpenCounts{Waiting: row.Pending, Held: min(most, row.InLane+row.Inactive), Scheduled: row.Coming, Oldest: oldest[row.ID]}
	}
	for _, row := range requests {
		of := counts[domain.WebhookID(row.WebhookID)]
		of.Waiting = min(most, of.Waiting+row.N)
		counts[domain.WebhookID(row.WebhookID)] = of
	}
	return counts, nil
}

// oldestOpen finds the oldest unfinished delivery of each webhook. For each kind of waiting it reads the first
// entry of the index deliveries_oldest.
func oldestOpen(tx *gorm.DB, webhooks []string) (map[string]domain.DeliveryID, error) {
	if len(webhooks) == 0 {
		return nil, nil
	}
	var ways []string
	var args []any
	for _, inLane := range []bool{false, true} {
		for _, status := range []domain.Status{domain.StatusPending, domain.StatusRetrying, domain.StatusHeld} {
			ways = append(ways, fmt.Sprintf("SELECT w.id AS webhook_id, (SELECT d.id FROM deliveries d WHERE d.webhook_id = w.id AND d.%s AND d.in_lane = ? AND d.status = '%s' ORDER BY d.id LIMIT 1) AS id"+
				" FROM webhooks w WHERE w.id IN ?", sqlWaits, status))
			args = append(args, inLane, webhooks)
		}
	}
	var rows []struct{ WebhookID, ID string }
	err := tx.Raw("SELECT webhook_id, min(id) AS id FROM ("+strings.Join(ways, " UNION ALL ")+") AS found WHERE id IS NOT NULL GROUP BY webhook_id", args...).Scan(&rows).Error
	oldest := make(map[string]domain.DeliveryID, len(rows))
	for _, row := range rows {
		oldest[row.WebhookID] = domain.DeliveryID(row.ID)
	}
	return oldest, err
}

// recentDeliveries is in how many of a webhook's newest deliveries LastAnswers looks.
const recentDeliveries = 200

// LastAnswers returns last attempts of a webhook's newest deliveries that ended in different ways,
// by status, class and the beginning of the body, the newest first.
func (p *Pipeline) LastAnswers(ctx context.Context, id domain.WebhookID, most int) ([]domain.Answer, error) {
	var answers []domain.Answer
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		var rows []deliveryRow
		err := tx.Where("webhook_id = ?", string(id)).Order("id DESC").Limit(recentDeliveries).Find(&rows).Error
		if err != nil {
			return fmt.Errorf("read deliveries: %w", err)
		}
		days := map[store.Date][]string{}
		for _, row := range rows {
			if first, ok := row.firstAttempt(); ok && !domain.Forged(row.Reason) {
				answers = append(answers, domain.AnswerOf(&first))
			}
			if row.Attempts > 1 {
				days[row.Day] = append(days[row.Day], row.ID)
			}
		}
		for day, ids := range days {
			var later []attemptRow
			err := tx.Where("day = ? AND delivery_id IN ?", day, ids).Order("started_at DESC").Limit(maxAttempts).Find(&later).Error
			if err != nil {
				return fmt.Errorf("read attempts: %w", err)
			}
			for _, row := range later {
				attempt := row.domain()
				answers = append(answers, domain.AnswerOf(&attempt))
			}
		}
		return nil
	})
	if err != nil {
		return nil, store.Wrap("find last answers", err)
	}
	return DistinctAnswers(answers, most), nil
}

// DistinctAnswers returns up to most answers that differ in more than their time, each with its
// newest time, the newest first.
func DistinctAnswers(answers []domain.Answer, most int) []domain.Answer {
	slices.SortStableFunc(answers, func(a, b domain.Answer) int { return b.At.Compare(a.At) })
	seen := map[domain.Answer]bool{}
	var distinct []domain.Answer
	for _, a := range answers {
		what := domain.Answer{Status: a.Status, Class: a.Class, Body: a.Body}
		if !seen[what] && len(distinct) < most {
			seen[what] = true
			distinct = append(distinct, a)
		}
	}
	return distinct
}
