package pipeline_test

import (
	"strconv"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func auditTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"tells of every change of webhooks": testAuditWebhooks,
		"keeps entries for 90 days":         testAuditRetention,
	}
}

func testAuditWebhooks(t *testing.T, b *bench) {
	who := pipelinetest.Caller()
	ctx := auditlog.WithCaller(t.Context(), who)
	who.Route = "/v1/webhooks/:id/rotate-secret"
	rotating := auditlog.WithCaller(t.Context(), who)
	var w domain.Webhook
	var delivery domain.DeliveryID
	var replay string
	nothing := func(*domain.Webhook) error { return nil }
	for n, step := range []struct {
		do   func() error
		want func() string
	}{
		{func() (err error) {
			w, _, err = b.CreateWebhook(ctx, domain.Webhook{Account: account, URL: "https://x.example", Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret()}, webhookOnce("k", "a"))
			return err
		}, func() string { return "create-webhook webhook:" + string(w.ID) }},
		{func() error {
			_, _, err := b.UpdateWebhook(ctx, account, w.ID, nothing)
			return err
		}, func() string { return "update-webhook webhook:" + string(w.ID) }},
		{func() error {
			_, _, err := b.UpdateWebhook(rotating, account, w.ID, nothing)
			return err
		}, func() string { return "rotate-secret webhook:" + string(w.ID) }},
		{func() (err error) {
			delivery, err = b.RequestTest(ctx, pipelinetest.Event("evt_test"), w.ID, "")
			return err
		}, func() string { return "test-webhook webhook:" + string(w.ID) + " delivery:" + string(delivery) }},
		{func() (err error) {
			o := b.Outcome(b.Accepted(t, "evt_1"), w, domain.StatusDelivered)
			b.Recorded(t, o)
			delivery = o.Delivery
			_, err = b.RequestRetry(ctx, account, delivery)
			return err
		}, func() string { return "retry-delivery delivery:" + string(delivery) }},
		{func() (err error) {
			made, err := b.CreateJob(ctx, replayJob(w.ID, noon, time.Time{}, pipeline.ResendAll))
			replay = made.ID
			return err
		}, func() string { return "replay-webhook webhook:" + string(w.ID) + " replay:" + replay }},
		{func() error { return b.DeleteWebhook(ctx, account, w.ID) }, func() string { return "delete-webhook webhook:" + string(w.ID) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if got := b.Told(t, n); got != step.want() {
			t.Errorf("told %s\nwant %s", got, step.want())
		}
	}
	// An answer that is given again is no change, and neither is what is refused.
	if _, _, err := b.CreateWebhook(ctx, w, webhookOnce("k", "a")); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.UpdateWebhook(ctx, account, w.ID, nothing)
	storetest.WantNotFound(t, "update", err)
	storetest.WantNotFound(t, "delete", b.DeleteWebhook(ctx, account, w.ID))
	_, err = b.RequestTest(ctx, pipelinetest.Event("evt_2"), w.ID, "")
	storetest.WantNotFound(t, "test", err)
	if n := len(b.Audits(t, auditlog.AuditFilter{})); n != 7 {
		t.Errorf("%d entries, want 7", n)
	}
}

func testAuditRetention(t *testing.T, b *bench) {
	const old = 1100 // more than a batch
	entries := make([]domain.AuditEntry, old)
	for i := range entries {
		entries[i] = domain.AuditEntry{Account: account, Action: "old-" + strconv.Itoa(i)}
	}
	if err := b.Audit(t.Context(), entries...); err != nil {
		t.Fatal(err)
	}
	b.Clock.Advance(time.Millisecond)
	if err := b.Audit(t.Context(), domain.AuditEntry{Account: account, Action: "new"}); err != nil {
		t.Fatal(err)
	}
	b.Clock.Set(noon.Add(domain.AuditRetention))
	b.maintain(t)
	if _, total, err := b.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Page: store.Page{Limit: 1}}); err != nil || total != old+1 {
		t.Errorf("%d entries after 90 days, %v", total, err)
	}
	b.Clock.Advance(time.Millisecond)
	b.maintain(t)
	if got := b.Audits(t, auditlog.AuditFilter{}); len(got) != 1 || got[0].Action != "new" {
		t.Errorf("%d entries left", len(got))
	}
}
