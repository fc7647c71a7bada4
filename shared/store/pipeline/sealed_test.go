package store_test

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	_ "github.com/jackc/pgx/v5/stdlib" // the driver "pgx", to look beneath the store
	_ "modernc.org/sqlite"             // the driver "sqlite"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// TestSealedValues looks beneath the store: secrets lie sealed, and a sealed value that
// is moved to another row or column does not open.
func TestSealedValues(t *testing.T) {
	t.Parallel()
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
			one, two := sealedWebhook(t, s, "default"), sealedWebhook(t, s, "default")
			var secret, headers []byte
			err = db.QueryRowContext(t.Context(), "SELECT secret, headers FROM webhooks WHERE id = $1", string(one.ID)).Scan(&secret, &headers)
			if err != nil {
				t.Fatal(err)
			}
			if strings.Contains(string(secret), one.Secret.Reveal()) || strings.Contains(string(headers), "hush") {
				t.Error("a secret lies in clear")
			}
			for _, change := range []string{
				"UPDATE webhooks SET secret = $1 WHERE id = $2",
				"UPDATE webhooks SET previous_secret = $1 WHERE id = $2",
				"UPDATE webhooks SET headers = $1 WHERE id = $2",
			} {
				swapped := sealedWebhook(t, s, "default")
				if _, err := db.ExecContext(t.Context(), change, secret, string(swapped.ID)); err != nil {
					t.Fatal(err)
				}
				switch read, _, err := s.GetWebhook(t.Context(), "default", swapped.ID); {
				case err != nil:
					t.Error(err)
				case read.Fault == "" || read.Secret == one.Secret || read.PreviousSecret == one.Secret:
					t.Errorf("%s: another row's secret opens", change)
				case strings.Contains(read.Fault, one.Secret.Reveal()):
					t.Errorf("the fault tells the secret: %s", read.Fault)
				}
			}
			if _, err := db.ExecContext(t.Context(), "UPDATE webhooks SET account = 'other' WHERE id = $1", string(two.ID)); err != nil {
				t.Fatal(err)
			}
			if moved, _, err := s.GetWebhook(t.Context(), "other", two.ID); err != nil || moved.Fault == "" || moved.Secret != "" || moved.Headers != nil {
				t.Errorf("a webhook that was moved to another account opens: %v", err)
			}
			bare := openStore(t, store.Options{URL: url})
			if sealed, _, err := bare.GetWebhook(t.Context(), "default", one.ID); err != nil || sealed.Fault == "" || sealed.Secret != "" || sealed.Headers != nil {
				t.Errorf("opened without a key: %v", err)
			}
			if _, _, err := bare.CreateWebhook(t.Context(), domain.Webhook{Account: "default", Secret: domain.NewSecret()}, nil); err == nil {
				t.Error("sealed without a key")
			}
		})
	}
}

func sealedWebhook(t *testing.T, s *store.Store, account string) domain.Webhook {
	t.Helper()
	w, _, err := s.CreateWebhook(t.Context(), domain.Webhook{
		Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret(),
		Headers: []domain.Header{{Name: "X-Key", Value: "hush"}},
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestWebhookLimit fills an account beneath the store up to one below the limit.
func TestWebhookLimit(t *testing.T) {
	t.Parallel()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "waybill.db")
	s := openStore(t, store.Options{URL: "sqlite:" + path, Keys: keys})
	if _, err := s.Migrate(t.Context()); err != nil {
		t.Fatal(err)
	}
	first := sealedWebhook(t, s, "default")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	_, err = db.ExecContext(t.Context(), fmt.Sprintf(`
		WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < %d)
		INSERT INTO webhooks (id, account, url, events, active, description, timeout_ms, max_in_flight, created_at,
			updated_at, version, activated_version, deleted)
		SELECT 'w' || i, account, url, events, active, description, timeout_ms, max_in_flight, created_at,
			updated_at, version, activated_version, 0 FROM webhooks, n`, domain.MaxWebhooks-2))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := db.ExecContext(t.Context(), "UPDATE webhook_counts SET webhooks = webhooks + ?", domain.MaxWebhooks-2); err != nil {
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

// TestOpen names what is wrong with a URL without repeating it.
func TestOpen(t *testing.T) {
	t.Parallel()
	for _, url := range []string{"", "mysql://root:hush@x", "sqlite:", "sqlite::memory:", "postgres://x:hush@h:notaport/db", "sqlite:/nonexistent/hush-less/x.db"} {
		s, err := store.Open(t.Context(), store.Options{URL: url})
		if err == nil {
			t.Errorf("%q opened", url)
			_ = s.Close()
			continue
		}
		if strings.Contains(err.Error(), ":hush@") {
			t.Errorf("the error tells the password: %v", err)
		}
	}
}
