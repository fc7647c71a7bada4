package access_test

import (
	"crypto/sha256"
	"errors"
	"strconv"
	"testing"
	"time"

	"waybill.dev/services/api/internal/store/access"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
)

// BenchmarkFindKey looks keys up among a million: some that there are, and some that
// there are not. A single run is of a few.
func BenchmarkFindKey(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, _ func() time.Duration) {
		s := access.New(db)
		keys := keyring{store: s}
		for name, first := range map[string]int{"hit": 0, "miss": -1 << 40} {
			b.Run(name, func(b *testing.B) {
				if b.N == 1 {
					keys.grow(b, 10_000)
				} else {
					keys.grow(b, 1_000_000)
				}
				b.ResetTimer()
				for i := range b.N {
					at := first + (i*7919)%keys.n
					_, _, err := s.FindKey(b.Context(), [][]byte{keyHash(at)})
					if (err == nil) != (first == 0) || err != nil && !errors.Is(err, domain.ErrNotFound) {
						b.Fatalf("key %d: %v", at, err)
					}
				}
			})
		}
	})
}

// keyring fills a store with keys, a thousand a consumer.
type keyring struct {
	store *access.Access
	n     int
}

func (k *keyring) grow(b *testing.B, to int) {
	b.Helper()
	if k.n == 0 {
		if _, err := k.store.CreateBucket(b.Context(), domain.Bucket{Account: domain.DefaultAccount, Name: "bucket"}); err != nil {
			b.Fatal(err)
		}
	}
	for k.n < to {
		keys := make([]domain.APIKey, 1000)
		for i := range keys {
			keys[i].Hash = keyHash(k.n)
			k.n++
		}
		c := domain.Consumer{Account: domain.DefaultAccount, Bucket: "bucket", Name: strconv.Itoa(k.n), Scopes: domain.Scopes()}
		if _, err := k.store.CreateConsumer(b.Context(), c, nil, keys); err != nil {
			b.Fatal(err)
		}
	}
}

func keyHash(i int) []byte {
	hash := sha256.Sum256([]byte(strconv.Itoa(i)))
	return hash[:]
}
