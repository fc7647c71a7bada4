package pipeline_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth/receiverauthtest"
	"waybill.dev/shared/store/storetest"
)

func expiryTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"tells of what ends within 14 days, and of nothing else":    testExpiringBounds,
		"tells a receiver's certificate until there is another one": testExpiringReceiver,
		"tells of webhooks to which something is sent":              testExpiringSends,
		"counts over all accounts":                                  testExpiringCounts,
	}
}

// ending returns what of an account ends, by kind and time.
func (b *bench) ending(t *testing.T, account string) []domain.Expiry {
	t.Helper()
	found, err := b.Expiring(t.Context(), account, b.Clock.Now(), 100)
	if err != nil {
		t.Fatal(err)
	}
	for i := range found {
		found[i].URL = "" // where it is not empty, that of the webhook
	}
	return found
}

// seen records the end of a receiver's certificate.
func (b *bench) seen(t *testing.T, w domain.Webhook, ends time.Time) {
	t.Helper()
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, Certificate: &domain.Certificate{ExpiresAt: ends, Version: w.Version}, At: b.Clock.Now()}}})
}

func (b *bench) wantEnding(t *testing.T, doing, account string, want ...domain.Expiry) {
	t.Helper()
	if diff := cmp.Diff(want, b.ending(t, account)); diff != "" {
		t.Errorf("%s (-want +got):\n%s", doing, diff)
	}
}

func (b *bench) changed(t *testing.T, w domain.Webhook, change func(*domain.Webhook)) domain.Webhook {
	t.Helper()
	after, _, err := b.UpdateWebhook(t.Context(), w.Account, w.ID, func(w *domain.Webhook) error { change(w); return nil })
	if err != nil {
		t.Fatal(err)
	}
	return after
}

func testExpiringBounds(t *testing.T, b *bench) {
	now := time.Now().UTC().Truncate(time.Second)
	b.Clock.Set(now)
	limit := now.Add(domain.ExpirySoon)
	authority := receiverauthtest.New(t)
	auth := func(ends time.Time) domain.Secret {
		of := authority.Auth(t, "waybill")
		cert, key := authority.Issue(t, "waybill", ends)
		of.Certificate, of.PrivateKey = cert, domain.Secret(key)
		kept, err := of.Encode()
		if err != nil {
			t.Fatal(err)
		}
		return kept
	}
	for _, tc := range []struct {
		at           time.Time
		certificates bool // those are told of then
		overlaps     bool
	}{
		{limit.Add(time.Second), false, false}, {limit, true, true}, {now.Add(5 * 24 * time.Hour), true, true},
		{now.Add(time.Second), true, true}, {now.Add(-time.Second), true, false},
	} {
		w := b.Webhook(t, func(w *domain.Webhook) {
			w.Auth = auth(tc.at)
			w.PreviousSecret, w.PreviousSecretExpiresAt = domain.NewSecret(), tc.at
		})
		b.seen(t, w, tc.at)
		var want []domain.Expiry
		if tc.certificates {
			want = append(want, domain.Expiry{Kind: domain.ExpiryReceiverCertificate, At: tc.at, Webhook: w.ID}, domain.Expiry{Kind: domain.ExpiryClientCertificate, At: tc.at, Webhook: w.ID})
		}
		if tc.overlaps {
			want = append(want, domain.Expiry{Kind: domain.ExpiryWebhookSecret, At: tc.at, Webhook: w.ID})
		}
		b.wantEnding(t, tc.at.Sub(now).String(), account, want...)
		b.wantEnding(t, "another account", "other")
		if err := b.DeleteWebhook(t.Context(), account, w.ID); err != nil {
			t.Fatal(err)
		}
		b.wantEnding(t, "a deleted webhook", account)
	}
	if err := b.EnsureSigningKey(t.Context(), account); err != nil {
		t.Fatal(err)
	}
	b.wantEnding(t, "the present signing key", account)
	keys, _, err := b.RotateSigningKey(t.Context(), account, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	b.wantEnding(t, "a rotation", account, domain.Expiry{Kind: domain.ExpirySigningKey, At: now.Add(time.Hour), Key: keys[1].ID})
	b.Clock.Set(now.Add(time.Hour))
	b.wantEnding(t, "after the overlap", account)
}

func testExpiringReceiver(t *testing.T, b *bench) {
	now := b.Clock.Now()
	w := b.Webhook(t)
	soon := now.Add(5 * 24 * time.Hour)
	want := domain.Expiry{Kind: domain.ExpiryReceiverCertificate, At: soon, Webhook: w.ID}
	b.seen(t, w, soon)
	b.wantEnding(t, "seen", account, want)
	b.seen(t, w, time.Time{})
	b.wantEnding(t, "renewed", account)
	b.seen(t, w, soon)
	later := b.changed(t, w, func(w *domain.Webhook) { w.Description = "x" })
	b.wantEnding(t, "another description", account, want)
	b.seen(t, later, soon)
	b.seen(t, w, time.Time{}) // late
	b.wantEnding(t, "what was seen in an earlier state", account, want)
	moved := b.changed(t, w, func(w *domain.Webhook) { w.URL = "https://elsewhere.example/" })
	b.wantEnding(t, "another URL", account)
	b.seen(t, later, soon) // of a connection to the receiver before
	b.wantEnding(t, "of the receiver before", account)
	b.seen(t, moved, soon)
	b.wantEnding(t, "of the receiver now", account, want)
	_, health, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil || !health.CertificateExpiresAt.Equal(soon) || health.CertificateVersion != moved.Version {
		t.Errorf("%+v, %v", health, err)
	}
}

func testExpiringSends(t *testing.T, b *bench) {
	soon := b.Clock.Now().Add(time.Hour)
	w := b.Webhook(t)
	b.seen(t, w, soon)
	want := domain.Expiry{Kind: domain.ExpiryReceiverCertificate, At: soon, Webhook: w.ID}
	b.changed(t, w, func(w *domain.Webhook) { w.Active = false })
	b.wantEnding(t, "paused", account)
	active := b.changed(t, w, func(w *domain.Webhook) { w.Active = true })
	b.wantEnding(t, "active again", account, want)
	b.RecordedBatch(t, domain.RecordBatch{Health: []domain.HealthChange{{Webhook: w.ID, DisabledVersion: active.Version, DisabledReason: domain.DisabledFailing, At: b.Clock.Now()}}})
	b.wantEnding(t, "disabled", account)
	b.changed(t, w, func(w *domain.Webhook) { w.Active = true })
	b.wantEnding(t, "activated", account, want)
	b.changed(t, w, func(w *domain.Webhook) { w.Delivery = domain.DeliveryPull })
	b.wantEnding(t, "pull", account)
}

func testExpiringCounts(t *testing.T, b *bench) {
	now := b.Clock.Now()
	for i, of := range []string{account, "other", account} {
		w := b.Webhook(t, func(w *domain.Webhook) { w.Account = of })
		b.seen(t, w, now.Add(time.Duration(2-i)*time.Hour))
	}
	counts, err := b.CountExpiring(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	want := []domain.ExpiryCount{
		{Kind: domain.ExpiryReceiverCertificate, N: 3, Soonest: now}, {Kind: domain.ExpiryClientCertificate}, {Kind: domain.ExpiryWebhookSecret}, {Kind: domain.ExpirySigningKey},
	}
	if diff := cmp.Diff(want, counts); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	found, err := b.Expiring(t.Context(), account, now, 1)
	if err != nil || len(found) != 1 || !found[0].At.Equal(now) {
		t.Errorf("the soonest alone: %+v, %v", found, err)
	}
	if all := b.ending(t, account); !slices.IsSortedFunc(all, func(a, b domain.Expiry) int { return a.At.Compare(b.At) }) || len(all) != 2 {
		t.Errorf("%+v", all)
	}
}
