package dispatcher

import (
	"context"

	"waybill.dev/services/dispatcher/internal/index"
	"waybill.dev/services/dispatcher/internal/record"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/news"
	"waybill.dev/shared/store/recorder"
)

// announcer writes records. Then it announces the changes to clients that watch an
// account, and alerts to the relay.
type announcer struct {
	record.Writer

	news     *news.Publisher
	index    *index.Index
	announce func(subject string, body []byte)
}

// Record implements record.Writer.
func (t announcer) Record(ctx context.Context, batches []domain.RecordBatch) (recorder.RecordResult, error) {
	result, err := t.Writer.Record(ctx, batches)
	if err == nil && len(result.Alerts) > 0 {
		t.announce(bus.SubjectRelay, nil)
	}
	for _, change := range result.Disabled {
		t.index.QuotaUsedUp(change)
	}
	if err != nil || !t.news.Watched() {
		return result, err
	}
	for i := range batches {
		for j := range batches[i].Events {
			t.news.Note(batches[i].Events[j].Account, news.Event, batches[i].Events[j].ID)
		}
		for j := range batches[i].Outcomes {
			t.news.Note(batches[i].Outcomes[j].Account, news.Delivery, string(batches[i].Outcomes[j].Delivery))
		}
		for _, change := range batches[i].Health {
			if hook, ok := t.index.Hook(change.Webhook); ok {
				t.news.Note(hook.Account, news.Webhook, string(change.Webhook))
			}
		}
	}
	for _, change := range result.Disabled {
		if hook, ok := t.index.Hook(change.Webhook); ok {
			t.news.Note(hook.Account, news.Webhook, string(change.Webhook))
		}
	}
	for _, alert := range result.Alerts {
		t.news.Note(alert.Account, news.Event, alert.ID)
	}
	for _, job := range result.Jobs {
		t.news.Note(job.Account, news.Job, job.ID)
	}
	return result, nil
}
