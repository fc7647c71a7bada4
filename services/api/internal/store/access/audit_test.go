package access_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func auditTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"tells of every change of buckets":    testAuditChanges,
		"tells of accounts to who makes them": testAuditAccounts,
		"is silent without a caller":          testAuditSilent,
		"is silent about what failed":         testAuditFailed,
		"takes whatever a caller sends":       testAuditHostile,
		"tells no secret":                     testAuditSecrets,
	}
}

func testAuditChanges(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	var bucket domain.Bucket
	var c access.ConsumerView
	var keys []domain.APIKey
	var key domain.APIKey
	var m domain.Manager
	ref := func() access.ConsumerRef { return consumerRef(c) }
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
		if got := b.Told(t, n); got != step.want() {
			t.Errorf("told %s\nwant %s", got, step.want())
		}
	}
}

func testAuditAccounts(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	a, _, err := b.CreateAccount(ctx, "acme", b.apiKey())
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Told(t, 0), "create-account account:"+a.ID; got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	if entries := b.Audits(t, auditlog.AuditFilter{Account: "acme"}); len(entries) != 0 {
		t.Errorf("the new account was told of %+v", entries)
	}
	p, err := b.CreateProject(ctx, account, "parcels")
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Told(t, 1); !strings.HasPrefix(got, "create-project project:"+p.ID+" bucket:") || strings.Count(got, " bucket:") != 3 {
		t.Errorf("told %s", got)
	}
}

func testAuditSilent(t *testing.T, b *bench) {
	if err := b.DeleteConsumer(t.Context(), consumerRef(b.consumer(t, b.bucket(t), 1))); err != nil {
		t.Fatal(err)
	}
	b.Webhook(t)
	if entries := b.Audits(t, auditlog.AuditFilter{}); len(entries) != 0 {
		t.Errorf("told of %+v", entries)
	}
}

func testAuditFailed(t *testing.T, b *bench) {
	bucket := b.bucket(t)
	c := b.consumer(t, bucket, 1)
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
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
			return b.DeleteBucket(ctx, access.BucketRef{Account: account, Bucket: bucket.Name, Guard: guarded.Guard})
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
	if entries := b.Audits(t, auditlog.AuditFilter{}); len(entries) != 0 {
		t.Errorf("told of %+v", entries)
	}
}

// testAuditHostile makes changes whose caller sends what no database keeps.
func testAuditHostile(t *testing.T, b *bench) {
	who := pipelinetest.Caller()
	who.UserAgent, who.RequestID, who.Address = "a\x00b\xff"+strings.Repeat("ü", 5000), "\xed\xa0\x80", "\x00"
	if _, err := b.CreateBucket(auditlog.WithCaller(t.Context(), who), domain.Bucket{Account: account, Name: "bucket"}); err != nil {
		t.Fatal(err)
	}
	got := b.Audits(t, auditlog.AuditFilter{})[0].Caller
	if len(got.UserAgent) > 600 || !strings.HasPrefix(got.UserAgent, "a\uFFFDb\uFFFDü") || got.Address != "\uFFFD" {
		t.Errorf("%q", got)
	}
}

func testAuditSecrets(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
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
	text := fmt.Sprintf("%+v", b.Audits(t, auditlog.AuditFilter{}))
	for _, k := range keys {
		if strings.Contains(text, k.Key.Reveal()) || strings.Contains(text, k.Suffix) {
			t.Error("the audit log tells a key")
		}
	}
	if strings.Contains(text, secret.Reveal()) || strings.Contains(text, "hush") {
		t.Error("the audit log tells of a webhook what is secret")
	}
}
