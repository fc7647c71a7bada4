package pipeline_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/signature"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/pipeline/pipelinetest"
	"waybill.dev/shared/store/storetest"
)

func signingTests() storetest.Tests[*bench] {
	return storetest.Tests[*bench]{
		"a key is made at the first use":       testFirstKey,
		"first uses at once make one key":      testFirstKeyConcurrent,
		"rotation overlaps":                    testRotation,
		"rotations at once keep one present":   testRotationConcurrent,
		"rotation without overlap ends others": testRotationAtOnce,
		"rotation changes its own webhooks":    testRotationVersions,
		"rotation is in the audit log":         testRotationAudit,
	}
}

func v1a(w *domain.Webhook) { w.Signing = domain.SigningV1A }

// keys returns an account's keys, checked: one without an end, the newest first.
func (b *bench) keys(t *testing.T, account string) []domain.SigningKey {
	t.Helper()
	keys, err := b.SigningKeys(t.Context(), account)
	if err != nil {
		t.Fatal(err)
	}
	for i, key := range keys {
		if key.Private != "" || len(key.Public) != 32 || key.Account != account || key.ExpiresAt.IsZero() != (i == 0) {
			t.Errorf("key %d of %s: %+v", i, account, key)
		}
	}
	return keys
}

func keyIDs(keys []domain.SigningKey) []string {
	ids := make([]string, len(keys))
	for i := range keys {
		ids[i] = keys[i].ID
	}
	return ids
}

func testFirstKey(t *testing.T, b *bench) {
	b.Webhook(t)
	if keys := b.keys(t, account); len(keys) != 0 {
		t.Fatalf("keys of an account without use: %v", keys)
	}
	w := b.Webhook(t, v1a)
	keys := b.keys(t, account)
	if len(keys) != 1 {
		t.Fatalf("keys after the first use: %v", keys)
	}
	// Whoever sends gets the private key, and only for a webhook that needs it.
	all, _, err := b.Webhooks(t.Context(), 0)
	if err != nil || len(all) != 2 {
		t.Fatalf("%d webhooks, %v", len(all), err)
	}
	for _, read := range all {
		if read.ID != w.ID {
			if read.SigningKeys != nil || read.Fault != "" {
				t.Errorf("a v1 webhook has keys: %+v", read)
			}
			continue
		}
		if len(read.SigningKeys) != 1 || read.Fault != "" {
			t.Fatalf("%+v", read)
		}
		private, err := signature.ParsePrivateKey(read.SigningKeys[0].Private.Reveal())
		if err != nil || !slices.Equal(private.Public(), keys[0].Public) {
			t.Errorf("the private key is not that of the public one: %v", err)
		}
		if text := fmt.Sprintf("%+v", read); strings.Contains(text, private.Reveal()) {
			t.Error("a private key prints")
		}
	}
	// A change to v1a is a first use, too; in an account that has nothing of this one's.
	other := b.Webhook(t, func(w *domain.Webhook) { w.Account = "other" })
	if _, _, err := b.UpdateWebhook(t.Context(), "other", other.ID, func(w *domain.Webhook) error { w.Signing = domain.SigningBoth; return nil }); err != nil {
		t.Fatal(err)
	}
	if foreign := b.keys(t, "other"); len(foreign) != 1 || foreign[0].ID == keys[0].ID {
		t.Errorf("keys of the other account: %v", foreign)
	}
}

func testFirstKeyConcurrent(t *testing.T, b *bench) {
	var all sync.WaitGroup
	for i := range 16 {
		all.Go(func() {
			if i%2 == 0 {
				if err := b.EnsureSigningKey(t.Context(), account); err != nil {
					t.Error(err)
				}
				return
			}
			_, _, err := b.CreateWebhook(t.Context(), domain.Webhook{
				Account: account, URL: "https://x.example", Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret(), Signing: domain.SigningBoth,
			}, nil)
			if err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if keys := b.keys(t, account); len(keys) != 1 {
		t.Errorf("%d keys", len(keys))
	}
}

func (b *bench) rotate(t *testing.T, overlap time.Duration) []domain.SigningKey {
	t.Helper()
	keys, _, err := b.RotateSigningKey(t.Context(), account, overlap)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(b.keys(t, account), keys); diff != "" {
		t.Errorf("keys (-read +answered):\n%s", diff)
	}
	return keys
}

func testRotation(t *testing.T, b *bench) {
	w := b.Webhook(t, v1a)
	first := b.keys(t, account)[0]
	keys := b.rotate(t, time.Hour)
	if len(keys) != 2 || keys[1].ID != first.ID || !keys[1].ExpiresAt.Equal(noon.Add(time.Hour)) {
		t.Fatalf("keys in the overlap: %+v", keys)
	}
	// Another rotation neither ends the overlap of the first key nor makes it longer.
	b.Clock.Advance(time.Minute)
	keys = b.rotate(t, 24*time.Hour)
	if len(keys) != 3 || !keys[2].ExpiresAt.Equal(noon.Add(time.Hour)) || !keys[1].ExpiresAt.Equal(noon.Add(24*time.Hour+time.Minute)) {
		t.Fatalf("keys in two overlaps: %+v", keys)
	}
	got, _, err := b.GetWebhook(t.Context(), account, w.ID)
	if err != nil || got.Fault != "" {
		t.Fatalf("%q, %v", got.Fault, err)
	}
	if diff := cmp.Diff(keyIDs(keys), keyIDs(got.SigningKeys)); diff != "" {
		t.Errorf("keys of the webhook (-account's +its):\n%s", diff)
	}
	b.Clock.Advance(time.Hour)
	if left := b.keys(t, account); len(left) != 2 || left[0].ID != keys[0].ID {
		t.Errorf("after the end of one: %+v", left)
	}
	for range 2 * domain.MaxSigningKeys {
		b.Clock.Advance(time.Millisecond)
		keys = b.rotate(t, 48*time.Hour)
	}
	if len(keys) != domain.MaxSigningKeys {
		t.Errorf("%d keys", len(keys))
	}
	if _, err := b.Maintain(t.Context(), b.Clock.Now().Add(96*time.Hour), 168*time.Hour); err != nil {
		t.Fatal(err)
	}
	if left := b.keys(t, account); len(left) != 1 {
		t.Errorf("%d keys are left after a purge", len(left))
	}
}

func testRotationConcurrent(t *testing.T, b *bench) {
	b.Webhook(t, v1a)
	first := b.keys(t, account)[0]
	var all sync.WaitGroup
	for range 3 {
		all.Go(func() {
			if _, _, err := b.RotateSigningKey(t.Context(), account, time.Hour); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	// The key that receivers know still signs, however often somebody pressed the button.
	if keys := b.keys(t, account); len(keys) != 4 || !slices.Contains(keyIDs(keys), first.ID) {
		t.Errorf("keys: %v", keys)
	}
}

func testRotationAtOnce(t *testing.T, b *bench) {
	b.Webhook(t, v1a)
	b.rotate(t, time.Hour)
	if keys := b.rotate(t, 0); len(keys) != 1 {
		t.Errorf("keys: %+v", keys)
	}
}

func testRotationVersions(t *testing.T, b *bench) {
	signed, plain := b.Webhook(t, v1a), b.Webhook(t)
	foreign := b.Webhook(t, v1a, func(w *domain.Webhook) { w.Account = "other" })
	_, version, err := b.RotateSigningKey(t.Context(), account, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	changed, reached, err := b.Webhooks(t.Context(), foreign.Version)
	if err != nil || reached != version || len(changed) != 1 || changed[0].ID != signed.ID || len(changed[0].SigningKeys) != 2 {
		t.Errorf("changed: %+v at %d, %v; plain is %s", changed, reached, err, plain.ID)
	}
	if !changed[0].UpdatedAt.Equal(signed.UpdatedAt) {
		t.Error("its owner has not changed the webhook")
	}
}

func testRotationAudit(t *testing.T, b *bench) {
	ctx := auditlog.WithCaller(t.Context(), pipelinetest.Caller())
	keys, _, err := b.RotateSigningKey(ctx, account, time.Hour)
	if err != nil {
		t.Fatal(err)
	}
	if got, want := b.Told(t, 0), "rotate-signing-keys signingKey:"+keys[0].ID; got != want {
		t.Errorf("told %s, want %s", got, want)
	}
}

// TestSealedSigningKeys looks beneath the store: a private key lies sealed, opens in no other row,
// is sealed anew by a rotation, and one that can't be read is a fault of its webhooks alone.
func TestSealedSigningKeys(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		older, newer := seal.Generate(), seal.Generate()
		parsed := func(text string) *seal.Keyring {
			keys, err := seal.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return keys
		}
		p, db := pipeline.New(d.Open(t, store.Options{Keys: parsed(older)})), d.Beneath(t)
		made := func(account string, signing domain.Signing) domain.Webhook {
			w, _, err := p.CreateWebhook(t.Context(), domain.Webhook{Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret(), Signing: signing}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return w
		}
		fault := func(p *pipeline.Pipeline, w domain.Webhook) string {
			t.Helper()
			got, _, err := p.GetWebhook(t.Context(), w.Account, w.ID)
			if err != nil {
				t.Fatal(err)
			}
			read, err := p.LiveWebhooks(t.Context(), []domain.WebhookID{w.ID})
			if err != nil || len(read) != 1 || read[0].Fault != got.Fault {
				t.Fatalf("%+v, %v", read, err)
			}
			return got.Fault
		}
		one, two, plain := made("default", domain.SigningV1A), made("other", domain.SigningBoth), made("default", domain.SigningV1)
		var sealed []byte
		if err := db.QueryRowContext(t.Context(), "SELECT private_key FROM signing_keys WHERE account = 'default'").Scan(&sealed); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(sealed), "whsk_") {
			t.Error("a private key lies in clear")
		}
		// Under another encryption key beside the old one all is read; without the old one it isn't.
		both := pipeline.New(d.Open(t, store.Options{Keys: parsed(newer + "," + older)}))
		alone := pipeline.New(d.Open(t, store.Options{Keys: parsed(newer)}))
		if fault(both, one) != "" || !strings.Contains(fault(alone, one), "can't be decrypted") {
			t.Error("another encryption key")
		}
		if _, _, err := both.RotateSigningKey(t.Context(), "default", time.Hour); err != nil {
			t.Fatal(err)
		}
		if keys, err := alone.SigningKeys(t.Context(), "default"); err != nil || len(keys) != 2 {
			t.Fatalf("%v, %v", keys, err)
		}
		rows, err := db.QueryContext(t.Context(), "SELECT id, private_key FROM signing_keys WHERE account = 'default'")
		if err != nil {
			t.Fatal(err)
		}
		defer rows.Close()
		for rows.Next() {
			var id string
			if err := rows.Scan(&id, &sealed); err != nil {
				t.Fatal(err)
			}
			if _, err := parsed(newer).Open(sealed, []byte("signing_keys|private_key|"+id+"|default")); err != nil {
				t.Errorf("a rotation has not sealed %s anew: %v", id, err)
			}
		}
		if err := rows.Err(); err != nil {
			t.Fatal(err)
		}
		// A key of another row does not open.
		if _, err := db.ExecContext(t.Context(), "UPDATE signing_keys SET private_key = $1 WHERE account = 'other'", sealed); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fault(both, two), "moved") || fault(both, one) != "" || fault(both, plain) != "" {
			t.Errorf("moved: %q, %q, %q", fault(both, two), fault(both, one), fault(both, plain))
		}
		// The way out is a rotation, or v1; neither needs the key.
		if _, _, err := both.RotateSigningKey(t.Context(), "other", time.Hour); err != nil || fault(both, two) != "" {
			t.Errorf("after a rotation: %q, %v", fault(both, two), err)
		}
		if _, err := db.ExecContext(t.Context(), "DELETE FROM signing_keys WHERE account = 'other'"); err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(fault(both, two), "missing") {
			t.Errorf("missing: %q", fault(both, two))
		}
		if _, _, err := both.UpdateWebhook(t.Context(), "other", two.ID, func(w *domain.Webhook) error { w.Signing = domain.SigningV1; return nil }); err != nil || fault(both, two) != "" {
			t.Errorf("back to v1: %q, %v", fault(both, two), err)
		}
	})
}
