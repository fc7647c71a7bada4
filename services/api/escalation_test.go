package api_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// ownKey makes a key that is well formed out of a text.
func ownKey(text string) string {
	sum := sha256.Sum256([]byte(text))
	body := hex.EncodeToString(sum[:16])
	return fmt.Sprintf("wbk_%s_%08x", body, crc32.ChecksumIEEE([]byte(body)))
}

// Whoever has less than a consumer can't change it, nor make, roll, delete or see its keys,
// in any way that the API has; nor give anybody what it has not.
func TestEscalation(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const get, post, patch, del = http.MethodGet, http.MethodPost, http.MethodPatch, http.MethodDelete
		bucket := r.bucket("rights-bucket")
		strong, strongKey := r.holder(bucket, "strong", domain.ScopeBucketsRead, domain.ScopeBucketsWrite, domain.ScopeWebhooksRead)
		admin, adminsKey := r.holder(bucket, "admin", domain.ScopeAdmin)
		weakBucket := r.bucket("weak-bucket")
		_, weak := r.holder(weakBucket, "weak", domain.ScopeBucketsRead, domain.ScopeBucketsWrite)
		equal, equalKey := r.holder(weakBucket, "equal", domain.ScopeBucketsRead)
		loose := r.bucket("loose-bucket")
		keyOf := func(consumer string) string {
			return r.do(get, consumer+"/keys", "").want(http.StatusOK).items("data")[0]["id"].(string)
		}
		before := string(r.do(get, bucket+"/consumers?include-api-keys=true&include-managers=true&key-format=visible", "").want(http.StatusOK).body)

		var forbidden []struct{ method, path, body string }
		add := func(method, path, body string) {
			forbidden = append(forbidden, struct{ method, path, body string }{method, path, body})
		}
		for _, consumer := range []string{strong, admin} {
			one := consumer + "/keys/" + keyOf(consumer)
			add(post, consumer+"/keys", ``)
			add(post, consumer+"/keys", fmt.Sprintf(`{"key":%q}`, ownKey("a key of the caller's own choosing")))
			add(patch, one, fmt.Sprintf(`{"key":%q}`, ownKey("a key of the caller's own choosing")))
			add(post, consumer+"/keys/$bulk", `[{},{}]`)
			add(post, consumer+"/roll-key", ``)
			add(post, consumer+"/roll-key", `{"expiresOn":"2099-01-01T00:00:00Z"}`)
			add(patch, one, `{"expiresOn":"2020-01-01T00:00:00Z"}`)
			add(patch, one, `{"description":"x"}`)
			add(patch, one, `{}`)
			add(del, one, ``)
			add(get, one+"?key-format=visible", ``)
			add(get, consumer+"/keys?key-format=visible", ``)
			add(get, consumer+"?include-api-keys=true&key-format=visible", ``)
			add(patch, consumer, `{"scopes":[]}`)
			add(patch, consumer, `{"scopes":["buckets:read"]}`)
			add(patch, consumer, `{"description":"x"}`)
			add(patch, consumer, `{"tags":{"a":"b"}}`)
			add(del, consumer, ``)
			add(post, consumer+"/managers", `{"email":"a@b.example","sub":"s"}`)
		}
		add(get, bucket+"/consumers?include-api-keys=true&key-format=visible", ``)
		add(get, bucket+"/consumers?include-api-keys=true&key-format=visible&limit=1&offset=1", ``)
		add(del, bucket, ``)
		for _, scope := range domain.Scopes() {
			if scope == domain.ScopeBucketsRead || scope == domain.ScopeBucketsWrite {
				continue
			}
			scopes := fmt.Sprintf(`"scopes":["buckets:read",%q]`, scope)
			add(post, loose+"/consumers", `{"name":"new-one",`+scopes+`}`)
			add(post, loose+"/consumers?with-api-key=true", `{"name":"new-one",`+scopes+`}`)
			add(post, loose+"/consumers", `{"name":"new-one","apiKeys":[{}],`+scopes+`}`)
			add(patch, equal, `{`+scopes+`}`)
			add(patch, weakBucket+"/consumers/weak", `{`+scopes+`}`)
		}
		add(post, "/v1/accounts", `{"name":"mine"}`)
		add(get, "/v1/accounts/default/audit-logs", ``)
		for _, f := range forbidden {
			a := r.do(f.method, f.path, f.body, as(weak))
			if a.status != http.StatusForbidden {
				t.Errorf("%s with %s: status %d: %s", a.call, f.body, a.status, a.body)
				continue
			}
			a.field("code", "FORBIDDEN").field("granted", []any{"buckets:read", "buckets:write"})
			if _, ok := a.object()["required"].([]any); !ok {
				t.Errorf("%s with %s: nothing says what it takes: %s", a.call, f.body, a.body)
			}
		}
		if after := string(r.do(get, bucket+"/consumers?include-api-keys=true&include-managers=true&key-format=visible", "").want(http.StatusOK).body); after != before {
			t.Errorf("something changed:\n%s\n%s", before, after)
		}
		for _, key := range []string{strongKey, adminsKey} {
			r.do(get, "/v1/webhooks", "", as(key)).want(http.StatusOK)
		}
		r.do(get, loose+"/consumers", "").field("total", 0.0)

		// What it may: read without the keys, and all of it where nobody has more.
		for _, path := range []string{
			bucket, bucket + "/consumers?include-api-keys=true", strong + "?include-api-keys=true&include-managers=true&key-format=none",
			strong + "/keys", strong + "/keys/" + keyOf(strong), strong + "/managers", admin + "/keys?key-format=masked", strong + "?key-format=visible",
			weakBucket + "/consumers?include-api-keys=true&key-format=visible", equal + "/keys/" + keyOf(equal) + "?key-format=visible",
		} {
			r.do(get, path, "", as(weak)).want(http.StatusOK)
		}
		r.do(patch, bucket, `{"description":"mine"}`, as(weak)).want(http.StatusOK)
		r.do(post, equal+"/roll-key", "", as(weak)).want(http.StatusNoContent)
		r.do(get, "/v1/who-am-i", "", as(equalKey)).want(http.StatusUnauthorized)
		r.do(patch, equal, `{"scopes":["buckets:write"]}`, as(weak)).want(http.StatusOK)
		r.do(post, loose+"/consumers?with-api-key=true", `{"name":"new-one","scopes":["buckets:write","buckets:read"]}`, as(weak)).want(http.StatusCreated)
		r.do(del, loose, "", as(weak)).want(http.StatusNoContent)

		// One that lost its rights can't take them back.
		_, falling := r.holder(bucket, "falling", domain.ScopeBucketsWrite, domain.ScopeEventsWrite)
		r.do(patch, bucket+"/consumers/falling", `{"scopes":["buckets:write"]}`, as(falling)).want(http.StatusOK)
		r.do(patch, bucket+"/consumers/falling", `{"scopes":["buckets:write","events:write"]}`, as(falling)).want(http.StatusForbidden)
		r.do(patch, bucket+"/consumers/falling", `{"scopes":[]}`, as(falling)).want(http.StatusOK)
		r.do(patch, bucket+"/consumers/falling", `{"scopes":["buckets:write"]}`, as(falling)).want(http.StatusForbidden)

		// An admin's key has all rights but those of the bootstrap key.
		r.do(get, admin+"/keys?key-format=visible", "", as(adminsKey)).want(http.StatusOK)
		r.do(post, strong+"/roll-key", "", as(adminsKey)).want(http.StatusNoContent)
		r.do(post, "/v1/accounts", `{"name":"mine"}`, as(adminsKey)).want(http.StatusForbidden)
		r.do(get, "/v1/accounts/default/audit-logs", "", as(adminsKey)).want(http.StatusOK)
	})
}

// Who is refused learns which scopes the operation takes, and which the key has.
func TestRefusedScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("scopes-bucket")
	_, reader := r.holder(bucket, "reader", domain.ScopeEventsRead)
	_, none := r.holder(bucket, "none")
	_, admin := r.holder(bucket, "admin", domain.ScopeAdmin)
	for _, c := range []struct {
		key, method, path string
		required, granted []any
		says              string
	}{
		{reader, http.MethodPost, "/v1/webhooks", []any{"webhooks:write"}, []any{"events:read"}, "It takes webhooks:write; the key has events:read."},
		{none, http.MethodGet, "/v1/webhooks", []any{"webhooks:read"}, []any{}, "It takes webhooks:read; the key has no scope."},
		{reader, http.MethodPost, "/v1/webhooks/0190c0f0-0000-7000-8000-000000000000/filter/test", []any{"webhooks:read", "events:read"}, []any{"events:read"}, "It takes webhooks:read and events:read;"},
		{reader, http.MethodGet, "/v1/accounts/default/projects/shop", []any{"buckets:read", "gateway:read"}, []any{"events:read"}, " or "},
		{admin, http.MethodPost, "/v1/accounts", []any{}, []any{"admin"}, "the bootstrap key"},
	} {
		a := r.do(c.method, c.path, `{"name":"mine"}`, as(c.key)).want(http.StatusForbidden)
		said := a.object()
		if detail := a.text("detail"); !cmp.Equal(said["required"], any(c.required)) || !cmp.Equal(said["granted"], any(c.granted)) || !strings.Contains(detail, c.says) {
			t.Errorf("%s: %s", a.call, a.body)
		}
	}
	r.do(http.MethodGet, "/v1/who-am-i", "", as(reader)).want(http.StatusOK).field("scopes", []any{"events:read"})
	r.do(http.MethodGet, "/v1/who-am-i", "", as(none)).want(http.StatusOK).field("scopes", []any{})
	r.do(http.MethodGet, "/v1/who-am-i", "").want(http.StatusOK).field("scopes", []any{"admin"})
}
