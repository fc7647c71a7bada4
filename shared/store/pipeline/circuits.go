package pipeline

import (
	"context"
	"errors"

	"gorm.io/gorm"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

func (r webhookCircuitRow) domain() domain.Circuit {
	c := domain.Circuit{
		OpenSince: r.OpenSince.Time(), Failures: int(r.Failures), FailingSince: r.FailingSince.Time(),
		NextProbeAt: r.NextProbeAt.Time(), SaidAt: r.SaidAt.Time(),
	}
	if r.AnswerAt != 0 {
		c.Last = &domain.Answer{At: r.AnswerAt.Time(), Status: r.AnswerStatus, Class: domain.Class(r.AnswerClass), Body: r.AnswerBody}
	}
	return c
}

// GetCircuit returns the recorded state of a webhook's circuit; the zero Circuit: there is none
// yet, because no attempt has failed.
func (p *Pipeline) GetCircuit(ctx context.Context, id domain.WebhookID) (domain.Circuit, error) {
	var row webhookCircuitRow
	err := p.db.Reading(ctx).Where("webhook_id = ?", string(id)).Take(&row).Error
	if errors.Is(err, gorm.ErrRecordNotFound) {
		return domain.Circuit{}, nil
	}
	return row.domain(), store.Wrap("get circuit", err)
}

// Circuits returns the recorded states of the circuits of webhooks. Webhooks without a record are left out.
func (p *Pipeline) Circuits(ctx context.Context, ids []domain.WebhookID) (map[domain.WebhookID]domain.Circuit, error) {
	var rows []webhookCircuitRow
	if err := p.db.Reading(ctx).Where("webhook_id IN ?", ids).Find(&rows).Error; err != nil {
		return nil, store.Wrap("get circuits", err)
	}
	return byWebhook(rows), nil
}

func byWebhook(rows []webhookCircuitRow) map[domain.WebhookID]domain.Circuit {
	said := make(map[domain.WebhookID]domain.Circuit, len(rows))
	for i := range rows {
		said[domain.WebhookID(rows[i].WebhookID)] = rows[i].domain()
	}
	return said
}

// FailingCircuits returns the recorded circuits of the webhooks whose last attempt failed.
func (p *Pipeline) FailingCircuits(ctx context.Context) (map[domain.WebhookID]domain.Circuit, error) {
	var rows []webhookCircuitRow
	if err := p.db.Reading(ctx).Where("failures > 0").Find(&rows).Error; err != nil {
		return nil, store.Wrap("list circuits", err)
	}
	return byWebhook(rows), nil
}
