package store_test

import (
	"database/sql"
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// TestUnreadableWebhookIsSetAside spoils one webhook beneath the store in every way, and
// reads on both databases what is beside it.
func TestUnreadableWebhookIsSetAside(t *testing.T) {
	t.Parallel()
	other, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	for name, database := range map[string]struct{ driver, url, dsn string }{
		"postgres": {"pgx", shared.database(t, true), ""},
		"sqlite":   {"sqlite", "sqlite:", filepath.Join(t.TempDir(), "waybill.db")},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			url, dsn := database.url+database.dsn, database.dsn
			if dsn == "" {
				dsn = url
			}
			keys, err := seal.Parse(seal.Generate())
			if err != nil {
				t.Fatal(err)
			}
			s := openStore(t, store.Options{URL: url, Keys: keys})
			if _, err := s.Migrate(t.Context()); err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(database.driver, dsn)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close()
			for change, value := range map[string]any{
				"UPDATE webhooks SET secret = $1 WHERE id = $2":          other.Seal([]byte(domain.NewSecret().Reveal()), nil),
				"UPDATE webhooks SET previous_secret = $1 WHERE id = $2": []byte("cut"),
				"UPDATE webhooks SET headers = $1 WHERE id = $2":         []byte{},
				"UPDATE webhooks SET retry_schedule = $1 WHERE id = $2":  "5,hush,7",
				"UPDATE webhooks SET max_in_flight = $1 WHERE id = $2":   -1,
				"UPDATE webhooks SET rate_per_second = $1 WHERE id = $2": -2.5,
			} {
				bad, good, strange := sealedWebhook(t, s, "default"), sealedWebhook(t, s, "default"), sealedWebhook(t, s, "other")
				if strings.Contains(change, "headers") {
					value = keys.Seal([]byte("{"), []byte("webhooks|headers|"+string(bad.ID)+"|default"))
				}
				if _, err := db.ExecContext(t.Context(), change, value, string(bad.ID)); err != nil {
					t.Fatal(err)
				}
				list, _, _, err := s.ListWebhooks(t.Context(), "default", 0, 0)
				faultOf := func(id domain.WebhookID) string {
					t.Helper()
					for _, w := range list {
						if w.ID == id {
							return w.Fault
						}
					}
					t.Errorf("%s: webhook %s is not listed", change, id)
					return ""
				}
				if err != nil || faultOf(bad.ID) == "" || faultOf(good.ID) != "" || strings.Contains(faultOf(bad.ID), "hush") {
					t.Errorf("%s: faults %q and %q, %v", change, faultOf(bad.ID), faultOf(good.ID), err)
				}
				if list, _, _, err = s.ListWebhooks(t.Context(), "other", 0, 0); err != nil || faultOf(strange.ID) != "" {
					t.Errorf("%s: another account sees a fault, %v", change, err)
				}
				if list, _, err = s.Webhooks(t.Context(), bad.Version-1); err != nil || faultOf(bad.ID) == "" || faultOf(strange.ID) != "" {
					t.Errorf("%s: what changed: faults %q and %q, %v", change, faultOf(bad.ID), faultOf(strange.ID), err)
				}
				_, _, err = s.UpdateWebhook(t.Context(), "default", bad.ID, func(*domain.Webhook) error { return nil })
				if !errors.Is(err, domain.ErrUnreadable) {
					t.Errorf("%s: an update, which would lose what can't be read: %v", change, err)
				}
				if err := s.DeleteWebhook(t.Context(), "default", bad.ID); err != nil {
					t.Errorf("%s: %v", change, err)
				}
			}
		})
	}
}
