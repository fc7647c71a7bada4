package pipeline

import (
	"context"

	"gorm.io/gorm"
	"gorm.io/gorm/clause"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

// webhookAcknowledgementRow notes that a person knows of a webhook's problem.
type webhookAcknowledgementRow struct {
	WebhookID  string `gorm:"primaryKey"`
	Cause      string
	Sub        string
	At         store.Instant
	MutedUntil store.Instant
}

func (webhookAcknowledgementRow) TableName() string { return "webhook_acknowledgements" }

// Acknowledge stores the acknowledgement of a problem of the account's webhook, in place of an earlier one.
func (p *Pipeline) Acknowledge(ctx context.Context, account string, webhook domain.WebhookID, a domain.Acknowledgement) error {
	return store.Wrap("acknowledge", p.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, _, err := p.webhook(tx, account, webhook, true); err != nil {
			return err
		}
		row := webhookAcknowledgementRow{string(webhook), a.Cause, a.By, store.InstantOf(a.At), store.InstantOf(a.MutedUntil)}
		if err := tx.Clauses(clause.OnConflict{UpdateAll: true}).Create(&row).Error; err != nil {
			return err
		}
		return p.audit.Note(ctx, tx, auditlog.ActionAcknowledgeProblem, account, webhookResource(webhook))
	}))
}

// Reopen deletes the acknowledgement of a webhook's problem. domain.ErrNotFound: there is none.
func (p *Pipeline) Reopen(ctx context.Context, account string, webhook domain.WebhookID) error {
	return store.Wrap("reopen", p.db.Tx(ctx, func(tx *gorm.DB) error {
		if _, _, err := p.webhook(tx, account, webhook, true); err != nil {
			return err
		}
		result := tx.Where("webhook_id = ?", string(webhook)).Delete(&webhookAcknowledgementRow{})
		if result.Error != nil {
			return result.Error
		}
		if result.RowsAffected == 0 {
			return domain.ErrNotFound
		}
		return p.audit.Note(ctx, tx, auditlog.ActionReopenProblem, account, webhookResource(webhook))
	}))
}

// Acknowledgements returns the acknowledgements of webhooks; a webhook without one is left out.
func (p *Pipeline) Acknowledgements(ctx context.Context, ids []domain.WebhookID) (map[domain.WebhookID]domain.Acknowledgement, error) {
	var rows []webhookAcknowledgementRow
	if err := p.db.Reading(ctx).Where("webhook_id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, store.Wrap("get acknowledgements", err)
	}
	known := make(map[domain.WebhookID]domain.Acknowledgement, len(rows))
	for _, r := range rows {
		known[domain.WebhookID(r.WebhookID)] = domain.Acknowledgement{Cause: r.Cause, By: r.Sub, At: r.At.Time(), MutedUntil: r.MutedUntil.Time()}
	}
	return known, nil
}
