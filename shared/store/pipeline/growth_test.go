package pipeline_test

import (
	"fmt"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func growthTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"reads what it returns, however much there is": testGrowth,
		"says that a plan is cut short":                testPlanCutShort,
	}
}

// testGrowth has each of the calls look at as many pages of a SQLite file with ten times the log and the
// webhooks. The statements are the same on Postgres.
func testGrowth(t *testing.T, b *bench) {
	if !b.DB.SQLite() {
		return
	}
	now := b.Clock.Now()
	var hook domain.Webhook
	for i := range 3 {
		hook = b.Webhook(t)
		o := b.Outcome(b.Accepted(t, fmt.Sprintf("evt_first_%d", i)), hook, domain.StatusRetrying)
		b.Recorded(t, o)
	}
	few := pipeline.DeliveryFilter{Account: account, Shipment: "SH-1"}
	calls := map[string]func() error{
		"deliveries of a shipment": func() error {
			list, _, err := b.ListDeliveries(t.Context(), few)
			if len(list) != 3 {
				t.Errorf("%d deliveries of the shipment, want 3", len(list))
			}
			return err
		},
		"a plan for a shipment": func() error {
			_, err := b.PlanJob(t.Context(), pipeline.NewJob{Kind: domain.JobRetry, Filter: pipeline.JobFilter{Resend: pipeline.ResendAll, DeliveryFilter: few}})
			return err
		},
		"quotas that have ended": func() error {
			_, err := b.ResumeQuotas(t.Context(), now.Add(-time.Minute))
			return err
		},
		"a page of webhooks": func() error {
			_, _, _, err := b.ListWebhooks(t.Context(), account, 3, 0)
			return err
		},
		"what waits": func() error {
			open, err := b.CountOpen(t.Context(), account, pipeline.CountedInLists, hook.ID)
			if of := open[hook.ID]; of.Scheduled != 1 || of.Oldest == "" {
				t.Errorf("%+v, want one, which is the oldest", of)
			}
			return err
		},
		"what ends soon": func() error {
			_, err := b.Expiring(t.Context(), account, now, 100)
			return err
		},
		"upkeep with nothing to do": func() error {
			_, err := b.Maintain(t.Context(), now, week)
			return err
		},
	}
	looked := func(call func() error) int {
		t.Helper()
		writing, reading := b.DB.Handles()
		var read int
		wrote := storetest.PagesRead(t, writing, func() {
			read = storetest.PagesRead(t, reading, func() {
				if err := call(); err != nil {
					t.Fatal(err)
				}
			})
		})
		return read + wrote
	}
	pages := map[string]int{}
	for _, rows := range []int{2_000, 18_000} {
		fillLog(t, b, rows, hook)
		for name, call := range calls {
			looked(call) // connections are made, statements prepared
			n := looked(call)
			if before, ok := pages[name]; ok && n > 2*before+20 {
				t.Errorf("%s: %d pages, with a tenth of the rows %d", name, n, before)
			}
			pages[name] = n
		}
	}
}

// fillLog adds so many deliveries to a webhook, most of them delivered, each of an event of its own, which is not in the
// log and is an hour old, and a webhook with its health for every ten.
func fillLog(t *testing.T, b *bench, rows int, to domain.Webhook) {
	t.Helper()
	b.Clock.Advance(time.Second) // deliveries of one millisecond lie together
	hook := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range rows {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", b.Next()))
		e.ReceivedAt = b.Clock.Now().Add(-time.Hour)
		status := domain.StatusDelivered
		if i%20 == 0 {
			status = domain.StatusFailed
		}
		o := b.Outcome(e, to, status)
		o.Attempt.Transcript = nil
		batch.Outcomes = append(batch.Outcomes, o)
	}
	b.RecordedBatch(t, batch)
	err := b.DB.Writing(t.Context()).Exec(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?)
		INSERT INTO webhooks (id, account, url, events, active, description, timeout_ms, max_in_flight, created_at, updated_at, version, activated_version, deleted)
		SELECT ? || '-' || i, account, url, events, active, description, timeout_ms, max_in_flight, created_at, updated_at, version, activated_version, deleted
		FROM n, webhooks WHERE id = ?`, rows/10, string(hook.ID), string(hook.ID)).Error
	if err == nil {
		err = b.DB.Writing(t.Context()).Exec("INSERT OR IGNORE INTO webhook_health (webhook_id, disabled_version, disabled_reason, updated_at) SELECT id, 0, '', ? FROM webhooks",
			store.InstantOf(b.Clock.Now().Add(-30*24*time.Hour))).Error
	}
	if err != nil {
		t.Fatal(err)
	}
}

// testPlanCutShort has a plan look at the oldest 20,000 that are undelivered, and a job count all.
func testPlanCutShort(t *testing.T, b *bench) {
	w := b.Webhook(t)
	var batch domain.RecordBatch
	for i := range 20_005 {
		e := pipelinetest.Event(fmt.Sprintf("evt_%d", i))
		e.ReceivedAt = b.Clock.Now().Add(-time.Hour)
		o := b.Outcome(e, w, domain.StatusFailed)
		o.Attempt.Transcript = nil
		batch.Outcomes = append(batch.Outcomes, o)
	}
	b.RecordedBatch(t, batch)
	job := retryJob(pipeline.DeliveryFilter{Webhook: w.ID}, pipeline.ResendUndelivered)
	plan, err := b.PlanJob(t.Context(), job)
	if err != nil || plan.Matched != 20_000 || !plan.More {
		t.Errorf("plan: %+v, %v; want 20,000 and more", plan, err)
	}
	job.Filter.Type = domain.ShipmentException
	if plan, err := b.PlanJob(t.Context(), job); err != nil || plan.Matched != 0 || !plan.More {
		t.Errorf("plan of another type: %+v, %v; want none and more", plan, err)
	}
	job.Filter.Type = ""
	made, err := b.CreateJob(t.Context(), job)
	if err != nil || made.Matched != 20_005 {
		t.Errorf("job: %d match, %v; want 20,005", made.Matched, err)
	}
}
