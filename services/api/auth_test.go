package api_test

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	api "waybill.dev/services/api"
	"waybill.dev/services/api/internal/kernel/auth"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/auditlog"
)

const whoAmI = "/v1/who-am-i"

// keyRing returns a ring of the keys, the one that encrypts first.
func keyRing(t *testing.T, keys ...string) *seal.Keyring {
	t.Helper()
	ring, err := seal.Parse(strings.Join(keys, ","))
	if err != nil {
		t.Fatal(err)
	}
	return ring
}

// madeKey returns a well-formed key that no database has.
func madeKey(t *testing.T) string {
	t.Helper()
	hasher, err := authenticator.NewHasher([][]byte{{1}})
	if err != nil {
		t.Fatal(err)
	}
	return hasher.NewKey().Key.Reveal()
}

// another starts what decides about keys in a second process on the same database and bus,
// with connections of its own and the routes above it. It has no relay: two of them would
// make the streams side by side, over which nats-server has a data race.
func (r *rig) another(ring *seal.Keyring) *rig {
	t := r.t
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	db, err := store.Open(t.Context(), store.Options{URL: r.database, Keys: ring, Logger: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	s := newTables(db)
	wire, err := bus.Connect(bus.Options{URL: r.nats.URL(), Name: "api", Logger: log, MACKeys: ring.Derive("bus")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(wire.Close)
	keys, err := auth.NewKeys(auth.Options{
		Store: s, Bus: wire, Logger: log, Bootstrap: adminKey, Peppers: ring.Derive("api keys"),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(api.KeyHandler(api.Options{Store: db, Bus: wire, Logger: log}, keys))
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- keys.Run(ctx) }()
	t.Cleanup(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
	})
	return &rig{t: t, nats: r.nats, keys: ring, database: r.database, store: s, bus: wire, url: server.URL, logs: r.logs, refused: r.refused}
}

// status asks something with the key and returns what it was answered with.
func (r *rig) status(key, path string) int {
	r.t.Helper()
	return r.do(http.MethodGet, path, "", as(key)).status
}

// opensWithin fails the test unless the key opens something, or nothing, soon. It is asked
// at least once.
func (r *rig) opensWithin(limit time.Duration, key string, want bool) {
	r.t.Helper()
	for started := time.Now(); ; {
		asked := time.Since(started)
		status := r.status(key, whoAmI)
		switch {
		case status != http.StatusOK && status != http.StatusUnauthorized:
			r.t.Fatalf("the key is answered with %d", status)
		case (status == http.StatusOK) == want:
			return
		case asked > limit:
			r.t.Fatalf("%s later the key is answered with %d; opens should be %v", asked, status, want)
		}
	}
}

// A bucket is deleted while its keys are in use: each request is allowed or refused, and
// once the deletion is answered, all are refused; a second process knows within a second.
func TestKeysOfADeletedBucket(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		second := r.another(r.keys)
		bucket := r.bucket("in-use")
		const callers = 16
		keys := make([]string, callers)
		for i := range keys {
			_, keys[i] = r.holder(bucket, fmt.Sprintf("caller-%d", i%4)+strings.Repeat("x", i/4), domain.ScopeWebhooksRead)
		}
		for _, key := range keys {
			second.do(http.MethodGet, whoAmI, "", as(key)).want(http.StatusOK)
		}
		var deleted atomic.Bool
		var allowed, refused atomic.Int64
		var all sync.WaitGroup
		for i, key := range keys {
			all.Go(func() {
				path := []string{whoAmI, "/v1/webhooks"}[i%2]
				for after := 0; after < 20; {
					late := deleted.Load()
					status := r.status(key, path)
					switch {
					case status == http.StatusOK && !late:
						allowed.Add(1)
					case status == http.StatusUnauthorized:
						refused.Add(1)
					default:
						t.Errorf("%s is answered with %d; the deletion was answered before: %v", path, status, late)
						return
					}
					if late {
						after++
					}
				}
			})
		}
		eventually(t, "the keys are in use", func() bool { return allowed.Load() > 10*callers })
		r.do(http.MethodDelete, bucket, "").want(http.StatusNoContent)
		deleted.Store(true)
		for _, key := range keys {
			second.opensWithin(time.Second, key, false)
		}
		all.Wait()
		t.Logf("%d requests were allowed, %d refused", allowed.Load(), refused.Load())
	})
}

// Each kind of change holds at once in the process that made it, within a second in another.
func TestChangesOfKeysHold(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		second := r.another(r.keys)
		bucket := r.bucket("changing")
		both := func(key string, want bool) {
			t.Helper()
			wanted := http.StatusUnauthorized
			if want {
				wanted = http.StatusOK
			}
			r.do(http.MethodGet, whoAmI, "", as(key)).want(wanted)
			second.opensWithin(time.Second, key, want)
		}
		keyID := func(consumer string) string {
			t.Helper()
			return r.do(http.MethodGet, consumer+"/keys", "").want(http.StatusOK).items("data")[0]["id"].(string)
		}

		consumer, key := r.holder(bucket, "one", domain.ScopeEventsRead)
		both(key, true)
		// A key that was tried before there was one of it.
		own := madeKey(t)
		both(own, false)
		r.do(http.MethodPost, consumer+"/keys", fmt.Sprintf(`{"key":%q}`, own)).want(http.StatusCreated)
		both(own, true)
		// Another scope.
		r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(http.StatusForbidden)
		r.do(http.MethodGet, "/v1/events", "", as(key)).want(http.StatusOK)
		r.do(http.MethodPatch, consumer, `{"scopes":["webhooks:read"]}`).want(http.StatusOK)
		r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(http.StatusOK)
		r.do(http.MethodGet, "/v1/events", "", as(key)).want(http.StatusForbidden)
		// An end, and none.
		at := consumer + "/keys/" + keyID(consumer)
		r.do(http.MethodPatch, at, `{"expiresOn":"2026-01-01T00:00:00Z"}`).want(http.StatusOK)
		both(key, false)
		r.do(http.MethodPatch, at, `{"expiresOn":"2999-01-01T00:00:00Z"}`).want(http.StatusOK)
		both(key, true)
		r.do(http.MethodDelete, at, "").want(http.StatusNoContent)
		both(key, false)
		both(own, true)
		r.do(http.MethodPost, consumer+"/roll-key", "").want(http.StatusNoContent)
		both(own, false)

		consumer, key = r.holder(bucket, "two")
		both(key, true)
		r.do(http.MethodDelete, consumer, "").want(http.StatusNoContent)
		both(key, false)
		_, key = r.holder(bucket, "three")
		both(key, true)
		r.do(http.MethodDelete, bucket, "").want(http.StatusNoContent)
		both(key, false)
		both(adminKey, true)
	})
}

// What is changed while the bus is away is known elsewhere when it is back.
func TestChangeOfKeysWithoutBus(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		second := r.another(r.keys)
		bucket := r.bucket("quiet-bucket")
		_, key := r.holder(bucket, "one")
		r.nats.Stop()
		second.opensWithin(time.Second, key, true)
		r.do(http.MethodDelete, bucket, "").want(http.StatusNoContent)
		r.do(http.MethodGet, whoAmI, "", as(key)).want(http.StatusUnauthorized)
		r.nats.Start()
		eventually(t, "the bus is back", func() bool { return second.bus.Ready() == nil })
		second.opensWithin(time.Second, key, false)
	})
}

// A key ends at its second, though it was seen to be good just before.
func TestKeyExpires(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		bucket := r.bucket("ending-bucket")
		consumer, _ := r.holder(bucket, "one")
		end := time.Now().UTC().Truncate(time.Second).Add(3 * time.Second)
		key := r.do(http.MethodPost, consumer+"/keys", fmt.Sprintf(`{"expiresOn":%q}`, end.Format(time.RFC3339))).
			want(http.StatusCreated).text("key")
		for {
			before := time.Now()
			status := r.status(key, whoAmI)
			after := time.Now()
			if status == http.StatusOK && !before.Before(end) || status != http.StatusOK && after.Before(end) {
				t.Fatalf("%d from %s to %s after the end", status, before.Sub(end), after.Sub(end))
			}
			if status == http.StatusUnauthorized {
				return
			}
		}
	})
}

// When the encryption key was replaced, keys open on, and do so without the old one when
// they were used meanwhile.
func TestKeysOutliveThePepper(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		old, fresh := seal.Generate(), seal.Generate()
		first := r.another(keyRing(t, old))
		bucket := first.bucket("older-bucket")
		_, used := first.holder(bucket, "used")
		_, unused := first.holder(bucket, "unused")
		during := r.another(keyRing(t, fresh, old))
		during.do(http.MethodGet, whoAmI, "", as(used)).want(http.StatusOK)
		hasher, err := authenticator.NewHasher(keyRing(t, fresh).Derive("api keys"))
		if err != nil {
			t.Fatal(err)
		}
		hashed, err := hasher.Import(used)
		if err != nil {
			t.Fatal(err)
		}
		eventually(t, "the key that was used has a new hash", func() bool {
			_, _, err := r.store.FindKey(t.Context(), [][]byte{hashed.Hash})
			return err == nil
		})
		after := r.another(keyRing(t, fresh))
		after.do(http.MethodGet, whoAmI, "", as(used)).want(http.StatusOK)
		after.do(http.MethodGet, whoAmI, "", as(unused)).want(http.StatusUnauthorized)
	})
}

// While the database is away, keys that were seen just before open on; of the others it is
// said that nobody knows.
func TestKeysWithoutDatabase(t *testing.T) {
	t.Parallel()
	cluster, err := pgtest.Start(t.Context(), "", "fsync=off")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cluster.Stop() })
	r := newRig(t, cluster.URL("postgres"))
	_, known := r.holder(r.bucket("outage-bucket"), "one")
	r.do(http.MethodGet, whoAmI, "", as(known)).want(http.StatusOK)
	if err := cluster.Kill(); err != nil {
		t.Fatal(err)
	}
	r.do(http.MethodGet, whoAmI, "", as(known)).want(http.StatusOK)
	r.do(http.MethodGet, whoAmI, "").want(http.StatusOK)
	a := r.do(http.MethodGet, whoAmI, "", as(madeKey(t))).want(http.StatusServiceUnavailable)
	if a.header.Get("Retry-After") == "" {
		t.Errorf("no Retry-After: %v %s", a.header, a.body)
	}
	r.do(http.MethodGet, whoAmI, "", as(madeKey(t)[:40]+"00000")).want(http.StatusUnauthorized)
}

// A change that a known caller was refused is in the audit log; who is not known, and what
// is published, is not.
func TestRefusedChangesAreLogged(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		other := r.secondAccount("others")
		bucket := r.bucket("logged-bucket")
		_, key := r.holder(bucket, "reader", domain.ScopeWebhooksRead, domain.ScopeEventsWrite)
		hook := r.register(plainWebhook).text("id")
		agent := header("User-Agent", strings.Repeat("é", 200))
		refuse := func(status int, method, path, body, key string) {
			t.Helper()
			r.do(method, path, body, as(key), agent, header("X-Request-Id", "req-1"), header("X-Forwarded-For", "203.0.113.9")).want(status)
		}
		refuse(403, http.MethodPost, "/v1/webhooks", plainWebhook, key)
		refuse(403, http.MethodDelete, bucket+"/consumers/reader", "", key)
		refuse(404, http.MethodDelete, bucket, "", other)
		refuse(400, http.MethodPost, bucketsPath, `{"name":"x"}`, adminKey)
		refuse(409, http.MethodPost, bucketsPath, `{"name":"logged-bucket"}`, adminKey)
		refuse(400, http.MethodPost, "/v1/webhooks", `{"url":"https://user:secret@receiver.example/way?token=secret","events":["none"]}`, adminKey)
		refuse(404, http.MethodDelete, bucketsPath+"/"+key, "", adminKey)
		refuse(404, http.MethodPost, "/v1/accounts/nobody/key-buckets", `{"name":"x"}`, adminKey)
		refuse(409, http.MethodPost, "/v1/accounts/others/key-buckets", `{"name":"admin"}`, other)
		refuse(400, http.MethodPatch, "/v1/webhooks/"+hook, `{"x":1}`, adminKey)
		refuse(400, http.MethodPatch, bucketsPath+"/"+adminKey, `{"x":1}`, adminKey) // a slip of who calls
		// These are not to be found in it.
		refuse(401, http.MethodPost, "/v1/webhooks", plainWebhook, madeKey(t))
		refuse(400, http.MethodPost, "/v1/events", `{}`, key)
		refuse(404, http.MethodGet, bucketsPath+"/nothing", "", adminKey)

		type line struct{ Action, Sub, Type, Route, Error, Resources string }
		log := func(account string) (lines []line) {
			t.Helper()
			no := false
			entries, _, err := r.store.ListAudit(t.Context(), auditlog.AuditFilter{Account: account, Success: &no, Page: store.Page{Limit: 100}})
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range entries {
				var resources []string
				for _, thing := range e.Resources {
					resources = append(resources, thing.Type+" "+thing.ID+thing.Name)
				}
				lines = append(lines, line{e.Action, e.Caller.Sub, e.Caller.Type, e.Caller.Method + " " + e.Caller.Route, e.Error, strings.Join(resources, ", ")})
				c := e.Caller
				if c.RequestID != "req-1" || c.Address != "127.0.0.1" || c.UserAgent != strings.Repeat("é", 128) || (c.KeyID == "") != (c.Type == "bootstrap") {
					t.Errorf("caller is %+v", c)
				}
			}
			return lines
		}
		const buckets = "/v1/accounts/{accountName}/key-buckets"
		const reader = "logged-bucket/reader"
		want := []line{
			{"update-bucket", "bootstrap", "bootstrap", "PATCH " + buckets + "/{bucketName}", "INVALID_INPUT", ""},
			{"update-webhook", "bootstrap", "bootstrap", "PATCH /v1/webhooks/{id}", "INVALID_INPUT", "webhook " + hook},
			{"create-bucket", "bootstrap", "bootstrap", "POST " + buckets, "NOT_FOUND", ""},
			{"delete-bucket", "bootstrap", "bootstrap", "DELETE " + buckets + "/{bucketName}", "NOT_FOUND", ""},
			{"create-webhook", "bootstrap", "bootstrap", "POST /v1/webhooks", "INVALID_INPUT", "webhook receiver.example"},
			{"create-bucket", "bootstrap", "bootstrap", "POST " + buckets, "CONFLICT", "bucket logged-bucket"},
			{"create-bucket", "bootstrap", "bootstrap", "POST " + buckets, "INVALID_INPUT", "bucket x"},
			{"delete-consumer", reader, "key", "DELETE " + buckets + "/{bucketName}/consumers/{consumerName}", "FORBIDDEN", "bucket logged-bucket, consumer reader"},
			{"create-webhook", reader, "key", "POST /v1/webhooks", "FORBIDDEN", ""},
		}
		if diff := cmp.Diff(want, log("default")); diff != "" {
			t.Errorf("log of default (-want +got):\n%s", diff)
		}
		want = []line{
			{"create-bucket", "admin/admin", "key", "POST " + buckets, "CONFLICT", "bucket admin"},
			{"delete-bucket", "admin/admin", "key", "DELETE " + buckets + "/{bucketName}", "NOT_FOUND", ""},
		}
		if diff := cmp.Diff(want, log("others")); diff != "" {
			t.Errorf("log of others (-want +got):\n%s", diff)
		}
	})
}

// The limit is each account's own, and a batch counts by its events.
func TestRateLimitOfAccounts(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	r.limit = 1
	r.start()
	other := r.secondAccount("others")
	batch := make([]string, 60)
	for i := range batch {
		batch[i] = event(fmt.Sprint("e", i))
	}
	// A batch that can never pass is not lent to: whoever is after it finds the limit as it was.
	a := r.do(http.MethodPost, "/v1/events", "["+strings.Join(batch, ",")+"]").want(http.StatusTooManyRequests).field("code", "RATE_LIMITED")
	if a.header.Get("RateLimit-Limit") != "1" || a.header.Get("Retry-After") != "1" || !strings.Contains(string(a.body), "at most 1 ") {
		t.Errorf("answer is %v %s", a.header, a.body)
	}
	eventually(t, "an event passes", func() bool {
		a = r.do(http.MethodPost, "/v1/events", event("alone"))
		return a.status == http.StatusAccepted
	})
	if a.header.Get("RateLimit-Limit") != "1" || a.header.Get("RateLimit-Remaining") != "0" || a.header.Get("RateLimit-Reset") != "1" {
		t.Errorf("header is %v", a.header)
	}
	// Events take nothing from what manages keys, nor from another account.
	eventually(t, "the account is still managed", func() bool {
		return r.do(http.MethodGet, "/v1/webhooks", "").status == http.StatusOK
	})
	a = r.do(http.MethodGet, "/v1/webhooks", "", as(other)).want(http.StatusOK)
	if a.header.Get("RateLimit-Remaining") != "0" || a.header.Get("RateLimit-Reset") != "1" {
		t.Errorf("the other account's header is %v", a.header)
	}
	a = r.do(http.MethodGet, "/v1/webhooks", "", as("nobody's")).want(http.StatusUnauthorized)
	if a.header.Get("RateLimit-Limit") != "" {
		t.Errorf("who is not known is told of a limit: %v", a.header)
	}
}

// A flood of refused writes is one entry, which counts, whatever else is done meanwhile.
func TestRefusalsAreCounted(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		_, key := r.holder(r.bucket("refused-bucket"), "reader", domain.ScopeWebhooksRead)
		const refusals = 300
		started := time.Now()
		for range refusals {
			r.do(http.MethodPost, "/v1/webhooks", plainWebhook, as(key)).want(http.StatusForbidden)
		}
		minutes := int(time.Since(started)/time.Minute) + 2 // it may begin late in one
		eventually(t, "all of them are counted", func() bool {
			entries := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=create-webhook&success=false", "").want(http.StatusOK).items("data")
			sum := 0
			for _, e := range entries {
				sum += int(e["count"].(float64))
			}
			// If the database answers too late, the first refusal of a minute counts twice.
			return sum >= refusals && sum <= refusals+len(entries) && len(entries) <= minutes
		})
		for _, e := range r.do(http.MethodGet, "/v1/accounts/default/audit-logs?success=true", "").want(http.StatusOK).items("data") {
			if e["count"] != 1.0 {
				t.Errorf("a change that was made counts %v", e["count"])
			}
		}
	})
}
