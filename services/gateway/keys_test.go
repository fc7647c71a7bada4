package gateway_test

import (
	"archive/zip"
	"bytes"
	"io"
	"log/slog"
	"net/http"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/store/deployments/deploymentstest"
)

const (
	keyed = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/":{"get":{"operationId":"o","x-gateway-route":{"policies":{"inbound":["key"]},
		"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}}}}`
	keyPolicies = `{"policies":[{"policyType":"api-key-inbound","name":"key","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{}}}]}`
)

// keysOf adds a consumer with a key to buckets of accounts, and returns the keys.
func (r *rig) keysOf(buckets ...[2]string) []string {
	r.t.Helper()
	hasher, err := authenticator.NewHasher(r.keys.Derive(authenticator.Purpose))
	if err != nil {
		r.t.Fatal(err)
	}
	writing, _ := r.db.Handles()
	now := r.db.Moment(r.db.Now())
	var keys []string
	for _, b := range buckets {
		key, id := hasher.NewKey(), b[0]+"-"+b[1]
		for _, statement := range []struct {
			text string
			args []any
		}{
			{"INSERT INTO accounts (id, name, created_at) VALUES ($1, $1, $2) ON CONFLICT DO NOTHING", []any{b[0], now}},
			{"INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ($1, $2, $3, '', '{}', false, $4, $4)", []any{id, b[0], b[1], now}},
			{"INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES ($1, $1, 'bakery', '', '{}', '', '', $2, $2)", []any{id, now}},
			{"INSERT INTO api_keys (id, consumer_id, description, suffix, hash, created_at, updated_at) VALUES ($1, $1, '', $2, $3, $4, $4)", []any{id, key.Suffix, key.Hash, now}},
		} {
			if _, err := writing.ExecContext(r.t.Context(), statement.text, statement.args...); err != nil {
				r.t.Fatal(err)
			}
		}
		keys = append(keys, key.Key.Reveal())
	}
	return keys
}

// A gateway finds out whose key it is by the database alone, and forgets a key as soon as the
// bus says that keys have changed.
func TestKeys(t *testing.T) {
	t.Parallel()
	r := newRig(t, nil)
	r.run()
	keys := r.keysOf([2]string{"default", "shop-production"}, [2]string{"default", "shop-preview"}, [2]string{"acme", "shop-production"})
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range map[string]string{"routes.oas.json": keyed, "policies.json": keyPolicies} {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	shop := deploymentstest.Deployment{Account: "default", Project: "shop", Branch: "main", Format: "zip", Archive: b.Bytes()}
	shop.Activate(t, r.db)
	api, err := bus.Connect(bus.Options{URL: r.nats.URL(), Name: "api", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(api.Close)
	api.Announce(bus.SubjectGateway, nil)
	ask := func(key string) int {
		return r.ask(http.MethodGet, shop.Name()+".gateway.localhost:8082", "/", "Authorization", "Bearer "+key).Code
	}
	gatewaytest.Within(t, 20*time.Second, "its own key opens it", func() bool { return ask(keys[0]) == http.StatusOK })
	for _, key := range []string{keys[1], keys[2], "wbk_0123456789abcdefghijklmnopqrstuv_782bbe53", ""} {
		if got := ask(key); got != http.StatusUnauthorized {
			t.Errorf("%q: %d", key, got)
		}
	}
	writing, _ := r.db.Handles()
	if _, err := writing.ExecContext(t.Context(), "DELETE FROM api_keys WHERE id = 'default-shop-production'"); err != nil {
		t.Fatal(err)
	}
	if got := ask(keys[0]); got != http.StatusOK {
		t.Errorf("before the news: %d", got)
	}
	api.Announce(bus.SubjectKeys, []byte("the api"))
	gatewaytest.Within(t, 20*time.Second, "the key is forgotten", func() bool { return ask(keys[0]) == http.StatusUnauthorized })
}
