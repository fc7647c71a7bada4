package api

import (
	"context"

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

// CreateJob implements jobs.Maker.
func (t telling) CreateJob(ctx context.Context, job pipeline.NewJob) (pipeline.CreatedJob, error) {
	made, err := t.tables.CreateJob(ctx, job)
	if err == nil {
		t.news.Note(made.Account, news.Job, made.ID)
		t.news.Note(made.Account, news.Delivery, "")
	}
	return made, err
}

// CancelJob implements jobs.Store.
func (t telling) CancelJob(ctx context.Context, account, id string) (domain.Job, error) {
	job, err := t.tables.CancelJob(ctx, account, id)
	if err == nil {
		t.news.Note(account, news.Job, id)
	}
	return job, err
}
