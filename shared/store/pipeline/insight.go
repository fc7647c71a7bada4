package pipeline

import (
	"context"
	"fmt"
	"slices"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

// MostCounted is up to which number deliveries are counted that are not through.
const MostCounted = 100_000

// OpenCounts tells how many deliveries of a webhook are not through, each up to MostCounted.
type OpenCounts struct {
	Waiting   int // for their first attempt, or for one that was asked for
	Held      int // in the hold queue
	Scheduled int // for their next attempt
}

// sqlWaits are the deliveries that the index deliveries_waiting has.
const sqlWaits = "status IN ('pending', 'retrying', 'held')"

// CountOpen counts the deliveries of a webhook that are not through.
func (p *Pipeline) CountOpen(ctx context.Context, account string, id domain.WebhookID) (OpenCounts, error) {
	var counts OpenCounts
	err := p.db.Snapshot(ctx, func(tx *gorm.DB) error {
		count := func(into *int, query *gorm.DB) error {
			var n int64
			err := tx.Table("(?) AS found", query.Select("1 AS one").Limit(MostCounted-min(*into, MostCounted))).Count(&n).Error
			*into += int(n)
			return err
		}
		of := func(inLane bool) *gorm.DB {
			return tx.Table("deliveries").Where("webhook_id = ? AND in_lane = ? AND "+sqlWaits, string(id), inLane)
		}
		for _, part := range []struct {
			into  *int
			query *gorm.DB
		}{
			{&counts.Waiting, of(false).Where("status = 'pending'")},
			{&counts.Waiting, tx.Table("requests AS r").Where("r.account = ? AND r.webhook_id = ?", account, string(id)).
				Where("NOT EXISTS (SELECT 1 FROM deliveries d WHERE d.account = r.account AND d.id = r.delivery_id AND d.day = r.day AND d." + sqlWaits + ")")},
			{&counts.Held, of(true)},
			{&counts.Held, of(false).Where("status = 'held'")},
			{&counts.Scheduled, of(false).Where("status = 'retrying'")},
		} {
			if err := count(part.into, part.query); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return OpenCounts{}, store.Wrap("count open deliveries", err)
	}
	return counts, nil
}

// recentDeliveries is how many of a webhook's newest deliveries its last answers are looked for in.
const recentDeliveries = 200

// LastAnswers returns the last attempts of a webhook's newest deliveries that ended differently
// from each other, by status, class and the beginning of the body, the newest first.
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
			if first, ok := row.firstAttempt(); ok {
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

// DistinctAnswers returns up to most answers that differ in more than their time, each at its
// newest, the newest first.
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
