package api

import (
	"context"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/pipeline"
)

// telling are the tables, with news of what was changed in them: a change is told after it is
// committed, by who has committed it.
type telling struct {
	tables

	news *news.Publisher
}

// Accept implements accept.Store.
func (t telling) Accept(ctx context.Context, subs []pipeline.Submission) ([]pipeline.Receipt, error) {
	receipts, err := t.tables.Accept(ctx, subs)
	if err != nil || !t.news.Watched() {
		return receipts, err
	}
	for i := range receipts {
		if receipts[i].Err != nil || receipts[i].Replay != nil || i >= len(subs) {
			continue
		}
		for j, accepted := range receipts[i].Events {
			if e := &subs[i].Events[j]; !accepted.Duplicate {
				t.news.Note(e.Account, news.Event, e.ID)
			}
		}
	}
	return receipts, nil
}

// CreateWebhook implements webhooks.Store.
func (t telling) CreateWebhook(ctx context.Context, w domain.Webhook, once *pipeline.WebhookOnce) (domain.Webhook, *pipeline.StoredResponse, error) {
	made, stored, err := t.tables.CreateWebhook(ctx, w, once)
	if err == nil && stored == nil {
		t.news.Note(made.Account, news.Webhook, string(made.ID))
	}
	return made, stored, err
}

// UpdateWebhook implements webhooks.Store.
func (t telling) UpdateWebhook(ctx context.Context, account string, id domain.WebhookID, change func(*domain.Webhook) error) (domain.Webhook, domain.Health, error) {
	w, health, err := t.tables.UpdateWebhook(ctx, account, id, change)
	if err == nil {
		t.news.Note(account, news.Webhook, string(id))
	}
	return w, health, err
}

// DeleteWebhook implements webhooks.Store. Its deliveries end with it.
func (t telling) DeleteWebhook(ctx context.Context, account string, id domain.WebhookID) error {
	err := t.tables.DeleteWebhook(ctx, account, id)
	if err == nil {
		t.news.Note(account, news.Webhook, string(id))
		t.news.Note(account, news.Delivery, "")
	}
	return err
}

// RequestTest implements deliveries.Requests.
func (t telling) RequestTest(ctx context.Context, e domain.Event, w domain.WebhookID) (domain.DeliveryID, error) {
	id, err := t.tables.RequestTest(ctx, e, w)
	if err == nil {
		t.news.Note(e.Account, news.Event, e.ID)
		t.news.Note(e.Account, news.Delivery, string(id))
	}
	return id, err
}

// RequestRetry implements deliveries.Requests.
func (t telling) RequestRetry(ctx context.Context, account string, id domain.DeliveryID) (domain.Delivery, error) {
	d, err := t.tables.RequestRetry(ctx, account, id)
	if err == nil {
		t.news.Note(account, news.Delivery, string(id))
	}
	return d, err
}

// RequestReplay implements deliveries.Requests.
func (t telling) RequestReplay(ctx context.Context, account string, webhook domain.WebhookID, since, until time.Time, which pipeline.ReplayStatus) (pipeline.Replay, error) {
	replay, err := t.tables.RequestReplay(ctx, account, webhook, since, until, which)
	if err == nil && replay.Matched > 0 {
		t.news.Note(account, news.Delivery, "")
	}
	return replay, err
}
