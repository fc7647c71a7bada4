package pipeline_test

import (
	"errors"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

func ring(t *testing.T) *seal.Keyring {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	return keys
}

func sealedWebhook(t *testing.T, p *pipeline.Pipeline, account string) domain.Webhook {
	t.Helper()
	w, _, err := p.CreateWebhook(t.Context(), domain.Webhook{
		Account: account, URL: "https://x.example", Active: true, Secret: domain.NewSecret(),
		Headers: []domain.Header{{Name: "X-Key", Value: "hush"}}, Auth: `{"type":"bearer","token":"hush"}`,
	}, nil)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// TestSealedValues looks beneath the store: secrets lie sealed, and open neither in another
// account nor without a key.
func TestSealedValues(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		p, db := pipeline.New(d.Open(t, store.Options{Keys: ring(t)})), d.Beneath(t)
		one, two := sealedWebhook(t, p, "default"), sealedWebhook(t, p, "default")
		var secret, headers, auth []byte
		err := db.QueryRowContext(t.Context(), "SELECT secret, headers, auth FROM webhooks WHERE id = $1", string(one.ID)).Scan(&secret, &headers, &auth)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(secret), one.Secret.Reveal()) || strings.Contains(string(headers), "hush") || len(auth) == 0 || strings.Contains(string(auth), "hush") {
			t.Error("a secret lies in clear")
		}
		if _, err := db.ExecContext(t.Context(), "UPDATE webhooks SET account = 'other' WHERE id = $1", string(two.ID)); err != nil {
			t.Fatal(err)
		}
		bare := pipeline.New(d.Open(t, store.Options{}))
		for doing, read := range map[string]func() (domain.Webhook, domain.Health, error){
			"in another account": func() (domain.Webhook, domain.Health, error) { return p.GetWebhook(t.Context(), "other", two.ID) },
			"without a key":      func() (domain.Webhook, domain.Health, error) { return bare.GetWebhook(t.Context(), "default", one.ID) },
		} {
			if w, _, err := read(); err != nil || w.Fault == "" || w.Secret != "" || w.Headers != nil || w.Auth != "" {
				t.Errorf("%s it opens: %v", doing, err)
			}
		}
		if _, _, err := bare.CreateWebhook(t.Context(), domain.Webhook{Account: "default", Secret: domain.NewSecret()}, nil); err == nil {
			t.Error("sealed without a key")
		}
	})
}

// A change of a webhook seals all that is secret under the first key. Until then the old key
// opens it. A deletion leaves nothing of it.
func TestSealedValuesUnderANewKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		before, after := seal.Generate(), seal.Generate()
		open := func(text string) *pipeline.Pipeline {
			keys, err := seal.Parse(text)
			if err != nil {
				t.Fatal(err)
			}
			return pipeline.New(d.Open(t, store.Options{Keys: keys}))
		}
		both, alone := open(after+","+before), open(after)
		w := sealedWebhook(t, open(before), "default")
		if got, _, err := both.GetWebhook(t.Context(), "default", w.ID); err != nil || got.Fault != "" || got.Auth != w.Auth {
			t.Errorf("with both keys: %v, %s", err, got.Fault)
		}
		if got, _, err := alone.GetWebhook(t.Context(), "default", w.ID); err != nil || got.Fault == "" {
			t.Errorf("before a change with the new key alone: %v", err)
		}
		if _, _, err := both.UpdateWebhook(t.Context(), "default", w.ID, func(*domain.Webhook) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if got, _, err := alone.GetWebhook(t.Context(), "default", w.ID); err != nil || got.Fault != "" || got.Auth != w.Auth || got.Secret != w.Secret {
			t.Errorf("after a change with the new key alone: %v, %s", err, got.Fault)
		}
		if err := alone.DeleteWebhook(t.Context(), "default", w.ID); err != nil {
			t.Fatal(err)
		}
		var left int
		err := d.Beneath(t).QueryRowContext(t.Context(), "SELECT count(*) FROM webhooks WHERE secret IS NOT NULL OR headers IS NOT NULL OR auth IS NOT NULL").Scan(&left)
		if err != nil || left != 0 {
			t.Errorf("%d rows have secrets after the deletion, %v", left, err)
		}
	})
}

// spoilt is a webhook that was changed beneath the store, and what was beside it.
type spoilt struct {
	how                string
	donor              domain.Webhook // whose sealed secret may have been put into it
	bad, good, strange domain.Webhook // strange is another account's
}

// TestUnreadableWebhookIsSetAside spoils webhooks beneath the store in every way, and
// reads on both databases what is beside them.
func TestUnreadableWebhookIsSetAside(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		d := kind.Fresh(t)
		keys := ring(t)
		p, db := pipeline.New(d.Open(t, store.Options{Keys: keys})), d.Beneath(t)
		donor := sealedWebhook(t, p, "default")
		var moved []byte // is another row's, or another column's
		if err := db.QueryRowContext(t.Context(), "SELECT secret FROM webhooks WHERE id = $1", string(donor.ID)).Scan(&moved); err != nil {
			t.Fatal(err)
		}
		for _, change := range []struct {
			column string
			value  func(domain.WebhookID) any
		}{
			{"secret", func(domain.WebhookID) any { return moved }},
			{"previous_secret", func(domain.WebhookID) any { return moved }},
			{"headers", func(domain.WebhookID) any { return moved }},
			{"auth", func(domain.WebhookID) any { return moved }},
			{"secret", func(domain.WebhookID) any { return ring(t).Seal([]byte(domain.NewSecret().Reveal()), nil) }},
			{"previous_secret", func(domain.WebhookID) any { return []byte("cut") }},
			{"headers", func(id domain.WebhookID) any {
				return keys.Seal([]byte("{"), []byte("webhooks|headers|"+string(id)+"|default"))
			}},
			{"retry_schedule", func(domain.WebhookID) any { return "5,hush,7" }},
			{"max_in_flight", func(domain.WebhookID) any { return -1 }},
			{"rate_per_second", func(domain.WebhookID) any { return -2.5 }},
		} {
			s := spoilt{change.column, donor, sealedWebhook(t, p, "default"), sealedWebhook(t, p, "default"), sealedWebhook(t, p, "other")}
			_, err := db.ExecContext(t.Context(), "UPDATE webhooks SET "+change.column+" = $1 WHERE id = $2", change.value(s.bad.ID), string(s.bad.ID))
			if err != nil {
				t.Fatal(err)
			}
			s.isSetAside(t, p)
		}
	})
}

func (s spoilt) isSetAside(t *testing.T, p *pipeline.Pipeline) {
	t.Helper()
	list, _, _, err := p.ListWebhooks(t.Context(), "default", 0, 0)
	bad, good := s.find(t, list, s.bad), s.find(t, list, s.good)
	if err != nil || bad.Fault == "" || good.Fault != "" {
		t.Errorf("%s: faults %q and %q, %v", s.how, bad.Fault, good.Fault, err)
	}
	if bad.Secret == s.donor.Secret || bad.PreviousSecret == s.donor.Secret {
		t.Errorf("%s: another webhook's secret opens", s.how)
	}
	if strings.Contains(bad.Fault, "hush") || strings.Contains(bad.Fault, s.donor.Secret.Reveal()) {
		t.Errorf("%s: the fault tells what is secret: %s", s.how, bad.Fault)
	}
	if list, _, _, err = p.ListWebhooks(t.Context(), "other", 0, 0); err != nil || s.find(t, list, s.strange).Fault != "" {
		t.Errorf("%s: another account sees a fault, %v", s.how, err)
	}
	if list, _, err = p.Webhooks(t.Context(), s.bad.Version-1); err != nil || s.find(t, list, s.bad).Fault == "" || s.find(t, list, s.strange).Fault != "" {
		t.Errorf("%s: what changed: %v", s.how, err)
	}
	_, _, err = p.UpdateWebhook(t.Context(), "default", s.bad.ID, func(*domain.Webhook) error { return nil })
	if !errors.Is(err, domain.ErrUnreadable) {
		t.Errorf("%s: an update, which would lose what can't be read: %v", s.how, err)
	}
	if err := p.DeleteWebhook(t.Context(), "default", s.bad.ID); err != nil {
		t.Errorf("%s: %v", s.how, err)
	}
}

// find returns a webhook as it is listed.
func (s spoilt) find(t *testing.T, list []domain.Webhook, w domain.Webhook) domain.Webhook {
	t.Helper()
	for _, listed := range list {
		if listed.ID == w.ID {
			return listed
		}
	}
	t.Errorf("%s: webhook %s is not listed", s.how, w.ID)
	return domain.Webhook{}
}
