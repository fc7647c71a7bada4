package keyholders_test

import (
	"errors"
	"os"
	"slices"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/keyholders"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// A key is found by any of several hashes, the first of which counts. What the api writes is
// tested with its tables.
func TestFindKey(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		database := kind.Fresh(t)
		db := database.Open(t, store.Options{})
		holders, beneath, at := keyholders.New(db), database.Beneath(t), db.Moment(storetest.Noon())
		insert := func(statement string, values ...any) {
			t.Helper()
			if _, err := beneath.ExecContext(t.Context(), statement, append([]any{at}, values...)...); err != nil {
				t.Fatal(err)
			}
		}
		insert("INSERT INTO accounts (id, name, created_at) VALUES ('acc_1', 'acme', $1)")
		insert("INSERT INTO key_buckets (id, account, name, description, tags, retrievable, created_at, updated_at) VALUES ('bckt_1', 'acme', 'shop-production', '', '{}', $2, $1, $1)", false)
		insert("INSERT INTO key_consumers (id, bucket_id, name, description, tags, metadata, scopes, created_at, updated_at) VALUES ('csmr_1', 'bckt_1', 'bakery', '', '{}', '', 'events:read,mcp:use', $1, $1)")
		for id, hash := range map[string]string{"key_1": "one", "key_2": "two"} {
			insert("INSERT INTO api_keys (id, consumer_id, description, suffix, hash, created_at, updated_at) VALUES ($2, 'csmr_1', '', '', $3, $1, $1)", id, []byte(hash))
		}
		holder, which, err := holders.FindKey(t.Context(), [][]byte{[]byte("none"), []byte("two"), []byte("one")})
		if err != nil || which != 1 || holder.KeyID != "key_2" || holder.Account != "acme" || holder.Bucket != "shop-production" || holder.Consumer != "bakery" ||
			!slices.Equal(holder.Scopes, []domain.Scope{domain.ScopeEventsRead, domain.ScopeMCP}) || !holder.ExpiresOn.IsZero() {
			t.Errorf("found %+v by hash %d, %v", holder, which, err)
		}
		for name, hashes := range map[string][][]byte{"none": nil, "unknown": {[]byte("none")}} {
			if _, _, err := holders.FindKey(t.Context(), hashes); !errors.Is(err, domain.ErrNotFound) {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}
