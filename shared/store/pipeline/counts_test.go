package pipeline_test

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

// TestWebhookLimit fills an account beneath the store up to one below the limit.
func TestWebhookLimit(t *testing.T) {
	t.Parallel()
	d := storetest.SQLite().Fresh(t)
	s := pipeline.New(d.Open(t, store.Options{Keys: ring(t)}))
	first := sealedWebhook(t, s, "default")
	db := d.Beneath(t)
	_, err := db.ExecContext(t.Context(), fmt.Sprintf(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO webhooks (id, account, url, events, active, description, timeout_ms, max_in_flight, created_at,
			updated_at, version, activated_version, deleted)
		SELECT 'w' || i, account, url, events, active, description, timeout_ms, max_in_flight, created_at,
			updated_at, version, activated_version, 0 FROM webhooks, n`, domain.MaxWebhooks-2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE webhook_counts SET webhooks = webhooks + $1", domain.MaxWebhooks-2); err != nil {
		t.Fatal(err)
	}
	sealedWebhook(t, s, "default")
	_, _, err = s.CreateWebhook(t.Context(), domain.Webhook{Account: "default", Secret: domain.NewSecret()}, nil)
	if !errors.Is(err, domain.ErrLimit) {
		t.Errorf("one beyond the limit: %v", err)
	}
	sealedWebhook(t, s, "other")
	if err := s.DeleteWebhook(t.Context(), "default", first.ID); err != nil {
		t.Fatal(err)
	}
	sealedWebhook(t, s, "default")
}

// TestWebhooksAreCounted compares the counts that are kept with those that the migration
// makes of the webhooks that are there.
func TestWebhooksAreCounted(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		opened := d.Open(t, store.Options{})
		s, db := pipeline.New(opened), d.Beneath(t)
		create := func(account string) domain.WebhookID {
			w, _, err := s.CreateWebhook(t.Context(), domain.Webhook{Account: account}, nil)
			if err != nil {
				t.Fatal(err)
			}
			return w.ID
		}
		create("a")
		if err := s.DeleteWebhook(t.Context(), "a", create("a")); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			create("b")
		}
		const counts = "SELECT account || ' ' || webhooks FROM webhook_counts WHERE webhooks > 0 ORDER BY account"
		kept := storetest.Texts(t, db, counts)
		folder := "postgres"
		if opened.SQLite() {
			folder = "sqlite"
		}
		migration, err := os.ReadFile("../migrations/" + folder + "/0003_webhook_counts.sql")
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range []string{"DROP TABLE webhook_counts", string(migration)} {
			if _, err := db.ExecContext(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
		if diff := cmp.Diff([]string{"a 1", "b 3"}, kept); diff != "" {
			t.Errorf("kept (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(kept, storetest.Texts(t, db, counts)); diff != "" {
			t.Errorf("counted by the migration (-kept +migrated):\n%s", diff)
		}
	})
}
