package api_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"testing"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// many is how many keys a large installation has; fewer when the benchmarks only have to
// show that they work.
func many() int {
	if flag.Lookup("test.benchtime").Value.String() == "1x" {
		return 2_000
	}
	return 1_000_000
}

// bench is a database with keys, and what asks it for them.
type bench struct {
	store  tables
	keys   *auth.Keys
	api    http.Handler
	made   int
	ten    []string // the first keys
	sample []string // of all, evenly
}

func newBench(b *testing.B, database string) *bench {
	b.Helper()
	ring, err := seal.Parse(seal.Generate())
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(b.Context(), store.Options{URL: database, Keys: ring, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	wire, err := bus.Connect(bus.Options{URL: bustest.Start(b).URL(), Name: "api", Logger: log, MACKeys: ring.Derive("bus")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(wire.Close)
	service, err := api.New(api.Options{Store: db, Bus: wire, Logger: log, AdminKey: adminKey, Keyring: ring, Egress: &egress.Policy{}})
	if err != nil {
		b.Fatal(err)
	}
	s := newTables(db)
	keys, err := auth.NewKeys(auth.Options{Store: s, Bus: wire, Logger: log, Bootstrap: adminKey, Peppers: ring.Derive("api keys")})
	if err != nil {
		b.Fatal(err)
	}
	return &bench{store: s, keys: keys, api: service.Handler()}
}

// grow makes keys until there are n, a thousand consumers with as many each at most.
func (x *bench) grow(b *testing.B, n int) {
	b.Helper()
	must := func(err error) {
		if err != nil && !errors.Is(err, domain.ErrConflict) {
			b.Helper()
			b.Fatal(err)
		}
	}
	_, err := x.store.CreateBucket(b.Context(), domain.Bucket{Account: domain.DefaultAccount, Name: "bench"})
	must(err)
	for x.made < n {
		some := make([]domain.APIKey, min(1000, n-x.made))
		for i := range some {
			some[i] = x.keys.NewKey()
		}
		consumer := domain.Consumer{Account: domain.DefaultAccount, Bucket: "bench", Name: fmt.Sprint("c-", x.made), Scopes: []domain.Scope{domain.ScopeEventsRead}}
		_, err := x.store.CreateConsumer(b.Context(), consumer, nil, some)
		must(err)
		if x.made == 0 {
			for _, key := range some {
				x.ten = append(x.ten, key.Key.Reveal())
			}
		}
		x.made += len(some)
		x.sample = append(x.sample, some[len(some)/2].Key.Reveal())
	}
}

// BenchmarkAuthenticated is what a request with a key costs where there are ten keys and
// where there are a million: with the same ten, which are known then, in the whole handler;
// and the authenticator alone, for a key that is looked up, and for one that nobody has.
func BenchmarkAuthenticated(b *testing.B) {
	for _, database := range []string{"postgres", "sqlite"} {
		b.Run(database, func(b *testing.B) {
			url := "sqlite:" + filepath.Join(b.TempDir(), "waybill.db")
			if database == "postgres" {
				cluster, err := pgtest.Start(b.Context(), "")
				if err != nil {
					b.Fatal(err)
				}
				b.Cleanup(func() { _ = cluster.Stop() })
				url = cluster.URL("postgres")
			}
			x := newBench(b, url)
			for _, n := range []int{10, many()} {
				x.grow(b, n)
				b.Run(fmt.Sprintf("known/%d", n), x.known)
				b.Run(fmt.Sprintf("looked-up/%d", n), x.lookedUp)
				b.Run(fmt.Sprintf("missing/%d", n), x.missing)
			}
		})
	}
}

func (x *bench) known(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		request := httptest.NewRequest(http.MethodGet, whoAmI, http.NoBody)
		request.Header.Set("X-API-Key", x.ten[i%len(x.ten)])
		recorder := httptest.NewRecorder()
		x.api.ServeHTTP(recorder, request)
		if recorder.Code != http.StatusOK {
			b.Fatal(recorder.Code, recorder.Body)
		}
	}
}

func (x *bench) lookedUp(b *testing.B) {
	for i := 0; b.Loop(); i++ {
		x.keys.InvalidateKeys(b.Context())
		if _, err := x.keys.Authenticate(context.Background(), x.sample[i%len(x.sample)]); err != nil {
			b.Fatal(err)
		}
	}
}

func (x *bench) missing(b *testing.B) {
	for b.Loop() {
		if _, err := x.keys.Authenticate(context.Background(), x.keys.NewKey().Key.Reveal()); !errors.Is(err, apikey.ErrUnauthenticated) {
			b.Fatal(err)
		}
	}
}
