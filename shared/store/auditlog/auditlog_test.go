package storetest

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
)

func auditTests() map[string]func(*testing.T, *bench) {
	return map[string]func(*testing.T, *bench){
		"tells of every change of buckets":    testAuditChanges,
		"tells of every change of webhooks":   testAuditWebhooks,
		"tells of accounts to who makes them": testAuditAccounts,
		"is silent without a caller":          testAuditSilent,
		"is silent about what failed":         testAuditFailed,
		"keeps every field":                   testAuditFields,
		"takes whatever a caller sends":       testAuditHostile,
		"lists newest first in pages":         testAuditList,
		"filters":                             testAuditFilter,
		"counts refusals of a minute":         testAuditCounts,
		"keeps entries for 90 days":           testAuditRetention,
		"tells no secret":                     testAuditSecrets,
	}
}

func caller() domain.Caller {
	return domain.Caller{
		Account: account, Sub: "bucket/consumer", Type: "key", KeyID: "key_1", RequestID: "req-1", Address: "192.0.2.1",
		UserAgent: "test/1", Method: "POST", Route: "/v1/some/{thing}",
	}
}

func (b *bench) audits(t *testing.T, f store.AuditFilter) []domain.AuditEntry {
	t.Helper()
	if f.Account == "" {
		f.Account = account
	}
	f.Page = all()
	entries, total, err := b.ListAudit(t.Context(), f)
	if err != nil || total != len(entries) {
		t.Fatalf("list audit: %d of %d, %v", len(entries), total, err)
	}
	return entries
}

// told returns the one entry that came since n of them, in short.
func (b *bench) told(t *testing.T, n int) string {
	t.Helper()
	entries := b.audits(t, store.AuditFilter{})
	if len(entries) != n+1 {
		t.Fatalf("%d entries, want %d", len(entries), n+1)
	}
	e := entries[0]
	if diff := cmp.Diff(caller(), e.Caller, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Route" }, cmp.Ignore())); diff != "" || !e.Success || e.Error != "" {
		t.Errorf("%s: %+v (-want +got):\n%s", e.Action, e, diff)
	}
	texts := []string{e.Action}
	for _, r := range e.Resources {
		texts = append(texts, r.Type+":"+r.ID)
	}
	return strings.Join(texts, " ")
}

func testAuditChanges(t *testing.T, b *bench) {
	ctx := store.WithCaller(t.Context(), caller())
	var bucket domain.Bucket
	var c store.ConsumerView
	var keys []domain.APIKey
	var key domain.APIKey
	var m domain.Manager
	ref := func() store.ConsumerRef { return consumerRef(c) }
	in := func() string { return " bucket:" + bucket.ID + " consumer:" + c.ID }
	for n, step := range []struct {
		do   func() error
		want func() string
	}{
		{func() (err error) {
			bucket, err = b.CreateBucket(ctx, domain.Bucket{Account: account, Name: "bucket", Retrievable: true})
			return err
		}, func() string { return "create-bucket bucket:" + bucket.ID }},
		{func() error {
			_, err := b.UpdateBucket(ctx, bucketRef(bucket), func(*domain.Bucket) error { return nil })
			return err
		}, func() string { return "update-bucket bucket:" + bucket.ID }},
		{func() (err error) {
			c, err = b.CreateConsumer(ctx, domain.Consumer{Account: account, Bucket: "bucket", Name: "c"}, nil, []domain.APIKey{b.apiKey()})
			return err
		}, func() string { return "create-consumer" + in() + " key:" + c.Keys[0].ID }},
		{func() error {
			_, err := b.UpdateConsumer(ctx, ref(), func(*domain.Consumer) error { return nil })
			return err
		}, func() string { return "update-consumer" + in() }},
		{func() (err error) {
			keys, err = b.CreateKeys(ctx, ref(), []domain.APIKey{b.apiKey()})
			return err
		}, func() string { return "create-key" + in() + " key:" + keys[0].ID }},
		{func() (err error) {
			keys, err = b.CreateKeys(ctx, ref(), []domain.APIKey{b.apiKey(), b.apiKey()})
			return err
		}, func() string { return "create-keys" + in() + " key:" + keys[0].ID + " key:" + keys[1].ID }},
		{func() error {
			_, err := b.UpdateKey(ctx, ref(), keys[0].ID, func(*domain.APIKey) error { return nil })
			return err
		}, func() string { return "update-key" + in() + " key:" + keys[0].ID }},
		{func() error { return b.DeleteKey(ctx, ref(), keys[0].ID) }, func() string { return "delete-key" + in() + " key:" + keys[0].ID }},
		{func() (err error) {
			key, err = b.RollKeys(ctx, ref(), b.apiKey(), time.Time{})
			return err
		}, func() string { return "roll-keys" + in() + " key:" + key.ID }},
		{func() (err error) {
			m, err = b.CreateManager(ctx, ref(), domain.Manager{Email: "a@example.com"})
			return err
		}, func() string { return "create-manager" + in() + " manager:" + m.ID }},
		{func() error { return b.DeleteManager(ctx, ref(), m.ID) }, func() string { return "delete-manager" + in() + " manager:" + m.ID }},
		{func() error { return b.DeleteConsumer(ctx, ref()) }, func() string { return "delete-consumer" + in() }},
		{func() error { return b.DeleteBucket(ctx, bucketRef(bucket)) }, func() string { return "delete-bucket bucket:" + bucket.ID }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if got := b.told(t, n); got != step.want() {
			t.Errorf("told %s\nwant %s", got, step.want())
		}
	}
}

func testAuditWebhooks(t *testing.T, b *bench) {
	who := caller()
	ctx := store.WithCaller(t.Context(), who)
	who.Route = "/v1/webhooks/:id/rotate-secret"
	rotating := store.WithCaller(t.Context(), who)
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
			delivery, err = b.RequestTest(ctx, event("evt_test"), w.ID)
			return err
		}, func() string { return "test-webhook webhook:" + string(w.ID) + " delivery:" + string(delivery) }},
		{func() (err error) {
			o := b.outcome(b.accept(t, "evt_1"), w, domain.StatusDelivered)
			b.record(t, o)
			delivery = o.Delivery
			_, err = b.RequestRetry(ctx, account, delivery)
			return err
		}, func() string { return "retry-delivery delivery:" + string(delivery) }},
		{func() (err error) {
			made, err := b.RequestReplay(ctx, account, w.ID, noon, time.Time{}, store.ReplayAll)
			replay = made.ID
			return err
		}, func() string { return "replay-webhook webhook:" + string(w.ID) + " replay:" + replay }},
		{func() error { return b.DeleteWebhook(ctx, account, w.ID) }, func() string { return "delete-webhook webhook:" + string(w.ID) }},
	} {
		if err := step.do(); err != nil {
			t.Fatalf("step %d: %v", n, err)
		}
		if got := b.told(t, n); got != step.want() {
			t.Errorf("told %s\nwant %s", got, step.want())
		}
	}
	// An answer that is given again is no change, and neither is what is refused.
	if _, _, err := b.CreateWebhook(ctx, w, webhookOnce("k", "a")); err != nil {
		t.Fatal(err)
	}
	_, _, err := b.UpdateWebhook(ctx, account, w.ID, nothing)
	wantNotFound(t, "update", err)
	wantNotFound(t, "delete", b.DeleteWebhook(ctx, account, w.ID))
	_, err = b.RequestTest(ctx, event("evt_2"), w.ID)
	wantNotFound(t, "test", err)
	if n := len(b.audits(t, store.AuditFilter{})); n != 7 {
		t.Errorf("%d entries, want 7", n)
	}
}

func testAuditAccounts(t *testing.T, b *bench) {
	ctx := store.WithCaller(t.Context(), caller())
	a, _, err := b.CreateAccount(ctx, "acme", b.apiKey())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.told(t, 0), "create-account account:"+a.ID; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	if entries := b.audits(t, store.AuditFilter{Account: "acme"}); len(entries) != 0 {
		t.Errorf("the new account was told of %+v", entries)
	}
	p, err := b.CreateProject(ctx, account, "parcels")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.told(t, 1); !strings.HasPrefix(got, "create-project project:"+p.ID+" bucket:") || strings.Count(got, " bucket:") != 3 {
		t.Errorf("told %s", got)
	}
}

func testAuditSilent(t *testing.T, b *bench) {
	if err := b.DeleteConsumer(t.Context(), consumerRef(b.consumer(t, b.bucket(t), 1))); err != nil {
		t.Fatal(err)
	}
	b.webhook(t)
	if entries := b.audits(t, store.AuditFilter{}); len(entries) != 0 {
		t.Errorf("told of %+v", entries)
	}
}

func testAuditFailed(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	c := b.consumer(t, bucket, 1)
	ctx := store.WithCaller(t.Context(), caller())
	guarded := consumerRef(c)
	guarded.Guard = func(domain.Consumer) error { return errChange }
	for doing, call := range map[string]func() error{
		"create account": func() error { _, _, err := b.CreateAccount(ctx, account, b.apiKey()); return err },
		"create bucket":  func() error { _, err := b.CreateBucket(ctx, bucket); return err },
		"update bucket": func() error {
			_, err := b.UpdateBucket(ctx, bucketRef(bucket), func(*domain.Bucket) error { return errChange })
			return err
		},
		"create consumer": func() error { _, err := b.CreateConsumer(ctx, c.Consumer, nil, nil); return err },
		"update consumer": func() error {
			_, err := b.UpdateConsumer(ctx, guarded, func(*domain.Consumer) error { return nil })
			return err
		},
		"create keys": func() error { _, err := b.CreateKeys(ctx, consumerRef(c), c.Keys); return err },
		"update key": func() error {
			_, err := b.UpdateKey(ctx, consumerRef(c), "x", func(*domain.APIKey) error { return nil })
			return err
		},
		"delete key":      func() error { return b.DeleteKey(ctx, consumerRef(c), "x") },
		"roll keys":       func() error { _, err := b.RollKeys(ctx, consumerRef(c), c.Keys[0], time.Time{}); return err },
		"delete manager":  func() error { return b.DeleteManager(ctx, consumerRef(c), "x") },
		"delete consumer": func() error { return b.DeleteConsumer(ctx, guarded) },
		"delete bucket": func() error {
			return b.DeleteBucket(ctx, store.BucketRef{Account: account, Bucket: bucket.Name, Guard: guarded.Guard})
		},
		"cancelled": func() error {
			gone, cancel := context.WithCancel(ctx)
			cancel()
			_, err := b.CreateBucket(gone, domain.Bucket{Account: account, Name: "cancelled"})
			return err
		},
	} {
		if err := call(); err == nil {
			t.Errorf("%s succeeded", doing)
		}
	}
	if entries := b.audits(t, store.AuditFilter{}); len(entries) != 0 {
		t.Errorf("told of %+v", entries)
	}
}

func testAuditFields(t *testing.T, b *bench) {
	want := domain.AuditEntry{
		Account: account, Action: "delete-bucket", Caller: caller(), Error: "FORBIDDEN",
		Resources: []domain.Resource{{Type: "bucket", Name: "größer ☃"}, {Type: "key", ID: "key_1"}},
	}
	if err := b.Audit(t.Context(), want); err != nil {
		t.Fatal(err)
	}
	b.clock.advance(time.Minute)
	bare := domain.AuditEntry{Account: account, At: noon.Add(time.Hour), Success: true, Caller: domain.Caller{Account: account}}
	if err := b.Audit(t.Context(), bare); err != nil {
		t.Fatal(err)
	}
	got := b.audits(t, store.AuditFilter{})
	if len(got) != 2 || got[0].ID == got[1].ID {
		t.Fatalf("%+v", got)
	}
	want.At, want.ID, bare.ID = noon, got[1].ID, got[0].ID
	want.Count, bare.Count = 1, 1
	if diff := cmp.Diff([]domain.AuditEntry{bare, want}, got); diff != "" {
		t.Errorf("entries (-want +got):\n%s", diff)
	}
}

// testAuditHostile makes changes whose caller sends what no database keeps.
func testAuditHostile(t *testing.T, b *bench) {
	who := caller()
	who.UserAgent, who.RequestID, who.Address = "a\x00b\xff"+strings.Repeat("ü", 5000), "\xed\xa0\x80", "\x00"
	if _, err := b.CreateBucket(store.WithCaller(t.Context(), who), domain.Bucket{Account: account, Name: "bucket"}); err != nil {
		t.Fatal(err)
	}
	got := b.audits(t, store.AuditFilter{})[0].Caller
	if len(got.UserAgent) > 600 || !strings.HasPrefix(got.UserAgent, "a\uFFFDb\uFFFDü") || got.Address != "\uFFFD" {
		t.Errorf("%q", got)
	}
}

func testAuditList(t *testing.T, b *bench) {
	var want []string
	for i := range 7 {
		e := domain.AuditEntry{Account: account, Action: strconv.Itoa(i), Caller: caller(), Success: true}
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
		want = append([]string{e.Action}, want...)
		if i%3 == 2 {
			b.clock.advance(time.Millisecond)
		}
	}
	var got []string
	for offset := 0; offset < 9; offset += 3 {
		page, total, err := b.ListAudit(t.Context(), store.AuditFilter{Account: account, Page: store.Page{Limit: 3, Offset: offset}})
		if err != nil || total != 7 {
			t.Fatalf("%d, %v", total, err)
		}
		for _, e := range page {
			got = append(got, e.Action)
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("actions (-want +got):\n%s", diff)
	}
}

func testAuditFilter(t *testing.T, b *bench) {
	for i := range 8 {
		who := caller()
		who.Sub = fmt.Sprint("sub-", i%2)
		name := account
		if i == 7 {
			name = "other"
		}
		e := domain.AuditEntry{Account: name, Action: fmt.Sprint("action-", i%3), Caller: who, Success: i%4 == 0, At: noon.Add(time.Duration(i) * time.Minute)}
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	yes, no := true, false
	for _, test := range []struct {
		filter store.AuditFilter
		want   []int // minutes
	}{
		{store.AuditFilter{}, []int{6, 5, 4, 3, 2, 1, 0}},
		{store.AuditFilter{Account: "other"}, []int{7}},
		{store.AuditFilter{Account: "nobody"}, nil},
		{store.AuditFilter{Action: "action-1"}, []int{4, 1}},
		{store.AuditFilter{Action: "action"}, nil},
		{store.AuditFilter{Actor: "sub-1"}, []int{5, 3, 1}},
		{store.AuditFilter{Success: &yes}, []int{4, 0}},
		{store.AuditFilter{Success: &no}, []int{6, 5, 3, 2, 1}},
		{store.AuditFilter{Since: noon.Add(5 * time.Minute)}, []int{6, 5}},
		{store.AuditFilter{Until: noon.Add(2 * time.Minute)}, []int{1, 0}},
		{store.AuditFilter{Since: noon.Add(time.Minute), Until: noon.Add(4 * time.Minute), Actor: "sub-1", Success: &no, Action: "action-0"}, []int{3}},
		{store.AuditFilter{Since: noon.Add(time.Hour)}, nil},
	} {
		var got []int
		for _, e := range b.audits(t, test.filter) {
			got = append(got, int(e.At.Sub(noon).Minutes()))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.filter, diff)
		}
	}
}

// testAuditCounts has several processes write the same refusals, and others beside them.
func testAuditCounts(t *testing.T, b *bench) {
	refused := domain.AuditEntry{Account: account, Action: "create-key", Caller: caller(), Error: "FORBIDDEN"}
	var writers sync.WaitGroup
	for i := range 8 {
		writers.Go(func() {
			e := refused
			e.Caller.RequestID, e.Count = strconv.Itoa(i), 3
			if err := b.Audit(t.Context(), e, refused); err != nil { // 3 and 1
				t.Error(err)
			}
		})
	}
	writers.Wait()
	other := func(change func(e *domain.AuditEntry)) domain.AuditEntry {
		e := refused
		change(&e)
		return e
	}
	for _, e := range []domain.AuditEntry{
		other(func(e *domain.AuditEntry) { e.Account = "other" }),
		other(func(e *domain.AuditEntry) { e.Action = "delete-key" }),
		other(func(e *domain.AuditEntry) { e.Error = "NOT_FOUND" }),
		other(func(e *domain.AuditEntry) { e.Caller.Sub = "bucket/another" }),
		other(func(e *domain.AuditEntry) { e.Caller.KeyID = "key_2" }),
		other(func(e *domain.AuditEntry) { e.At = noon.Add(time.Minute) }),
		other(func(e *domain.AuditEntry) { e.Success, e.Error = true, "" }),
		other(func(e *domain.AuditEntry) { e.Success, e.Error = true, "" }),
	} {
		if err := b.Audit(t.Context(), e); err != nil {
			t.Fatal(err)
		}
	}
	counts := map[int]int{}
	for _, e := range append(b.audits(t, store.AuditFilter{}), b.audits(t, store.AuditFilter{Account: "other"})...) {
		counts[e.Count]++
		if e.Count > 1 && (!e.At.Equal(noon) || e.Action != "create-key" || e.Error != "FORBIDDEN" || e.Success) {
			t.Errorf("the entry that counts is %+v", e)
		}
	}
	if diff := cmp.Diff(map[int]int{32: 1, 1: 8}, counts); diff != "" {
		t.Errorf("entries by count (-want +got):\n%s", diff)
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
	b.clock.advance(time.Millisecond)
	if err := b.Audit(t.Context(), domain.AuditEntry{Account: account, Action: "new"}); err != nil {
		t.Fatal(err)
	}
	b.clock.set(noon.Add(domain.AuditRetention))
	b.maintain(t)
	if _, total, err := b.ListAudit(t.Context(), store.AuditFilter{Account: account, Page: store.Page{Limit: 1}}); err != nil || total != old+1 {
		t.Errorf("%d entries after 90 days, %v", total, err)
	}
	b.clock.advance(time.Millisecond)
	b.maintain(t)
	if got := b.audits(t, store.AuditFilter{}); len(got) != 1 || got[0].Action != "new" {
		t.Errorf("%d entries left", len(got))
	}
}

func testAuditSecrets(t *testing.T, b *bench) {
	ctx := store.WithCaller(t.Context(), caller())
	keys := []domain.APIKey{b.apiKey(), b.apiKey(), b.apiKey(), b.apiKey()}
	if _, err := b.CreateBucket(ctx, domain.Bucket{Account: account, Name: "bucket", Retrievable: true}); err != nil {
		t.Fatal(err)
	}
	c, err := b.CreateConsumer(ctx, domain.Consumer{Account: account, Bucket: "bucket", Name: "c"}, nil, keys[:1])
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.CreateKeys(ctx, consumerRef(c), keys[1:2]); err != nil {
		t.Fatal(err)
	}
	if _, err := b.RollKeys(ctx, consumerRef(c), keys[2], time.Time{}); err != nil {
		t.Fatal(err)
	}
	if _, _, err := b.CreateAccount(ctx, "acme", keys[3]); err != nil {
		t.Fatal(err)
	}
	secret := domain.NewSecret()
	if _, _, err := b.CreateWebhook(ctx, domain.Webhook{Account: account, URL: "https://x.example/?token=hush", Secret: secret}, nil); err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v", b.audits(t, store.AuditFilter{}))
	for _, k := range keys {
		if strings.Contains(text, k.Key.Reveal()) || strings.Contains(text, k.Suffix) {
			t.Error("the audit log tells a key")
		}
	}
	if strings.Contains(text, secret.Reveal()) || strings.Contains(text, "hush") {
		t.Error("the audit log tells of a webhook what is secret")
	}
}
