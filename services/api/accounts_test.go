package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestAccounts(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		first := r.do(http.MethodGet, "/v1/accounts", "").want(http.StatusOK).fields("data", "limit", "offset", "total")
		if diff := cmp.Diff([]string{"default"}, first.names()); diff != "" {
			t.Errorf("a new installation has (-want +got):\n%s", diff)
		}
		made := r.do(http.MethodPost, "/v1/accounts", `{"name":"second"}`).want(http.StatusCreated).fields("id", "name", "createdOn", "key")
		made.matches("id", `^acct_[0-9A-Za-z]{24}$`).matches("key", keyForm).matches("createdOn", timeForm)
		if made.header.Get("Location") == "" {
			t.Error("no Location")
		}
		r.do(http.MethodPost, "/v1/accounts", `{"name":"second"}`).want(http.StatusConflict)
		r.do(http.MethodPost, "/v1/accounts", `{"name":"default"}`).want(http.StatusConflict)
		all := r.do(http.MethodGet, "/v1/accounts", "").field("total", 2.0)
		if diff := cmp.Diff([]string{"default", "second"}, all.names()); diff != "" {
			t.Errorf("accounts (-want +got):\n%s", diff)
		}
		if strings.Contains(string(all.body), "wbk_") {
			t.Errorf("a key is shown: %s", all.body)
		}
		key := made.text("key")
		own := r.do(http.MethodGet, "/v1/accounts", "", as(key)).want(http.StatusOK).field("total", 1.0).field("limit", 1000.0)
		if diff := cmp.Diff([]string{"second"}, own.names()); diff != "" {
			t.Errorf("the second sees (-want +got):\n%s", diff)
		}
		r.do(http.MethodGet, "/v1/accounts?limit=1&offset=1", "", as(key)).want(http.StatusOK).field("data", []any{}).field("total", 1.0)
		r.do(http.MethodPost, "/v1/accounts", `{"name":"third"}`, as(key)).want(http.StatusForbidden)
		r.do(http.MethodPost, "/v1/accounts", `{"x":`, as(key)).want(http.StatusForbidden)

		// What does not exist is not there for the bootstrap key either.
		for _, path := range []string{"/key-buckets", "/key-buckets/admin", "/key-buckets/admin/consumers/admin/keys", "/projects", "/audit-logs"} {
			r.do(http.MethodGet, "/v1/accounts/none"+path, "").want(http.StatusNotFound)
		}
		r.do(http.MethodPost, "/v1/accounts/none/key-buckets", `{"name":"nowhere"}`).want(http.StatusNotFound)

		// The key that an account comes with does everything there, and is kept nowhere.
		mine := "/v1/accounts/second/key-buckets"
		r.do(http.MethodGet, mine, "", as(key)).want(http.StatusOK).field("total", 1.0)
		r.do(http.MethodGet, mine+"/admin", "", as(key)).want(http.StatusOK).field("isRetrievable", false)
		r.do(http.MethodGet, mine+"/admin/consumers/admin", "", as(key)).want(http.StatusOK).field("scopes", []any{"admin"})
		r.do(http.MethodGet, mine+"/admin/consumers/admin/keys?key-format=visible", "", as(key)).faults("?key-format")
		r.do(http.MethodPost, mine, `{"name":"their-own"}`, as(key)).want(http.StatusCreated)
		r.do(http.MethodPost, bucketsPath, `{"name":"their-own"}`).want(http.StatusCreated)
		r.do(http.MethodPost, "/v1/webhooks", plainWebhook, as(key)).want(http.StatusCreated)
		r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK)
	})
}

func TestWhoAmI(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	r.do(http.MethodGet, "/v1/who-am-i", "").want(http.StatusOK).fields("sub", "account", "scopes").field("sub", "bootstrap").field("account", "default")
	_, key := r.holder(r.bucket("who-bucket"), "somebody")
	r.do(http.MethodGet, "/v1/who-am-i", "", as(key)).want(http.StatusOK).fields("sub", "account", "scopes").field("sub", "who-bucket/somebody").field("account", "default")
	r.do(http.MethodGet, "/v1/who-am-i?x=1", "", as(key)).faults("?x")
}

// A project comes with its three buckets, or not at all.
func TestProjects(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		made := r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated).fields("id", "name", "accountName", "createdOn", "productionBranch")
		made.field("name", "shop").field("accountName", "default").matches("id", `^prj_[0-9A-Za-z]{24}$`)
		if got := made.header.Get("Location"); got != "/v1/accounts/default/projects/shop" {
			t.Errorf("Location is %q", got)
		}
		buckets := []string{"shop-production", "shop-preview", "shop-working-copy"}
		list := r.do(http.MethodGet, bucketsPath, "").want(http.StatusOK)
		if diff := cmp.Diff(buckets, list.names()); diff != "" {
			t.Errorf("buckets (-want +got):\n%s", diff)
		}
		for _, bucket := range list.items("data") {
			if bucket["isRetrievable"] != true {
				t.Errorf("%s is not retrievable", bucket["name"])
			}
		}
		r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusConflict)
		r.bucket("half-preview")
		r.do(http.MethodPost, "/v1/projects", `{"name":"half"}`).want(http.StatusConflict)
		r.do(http.MethodGet, bucketsPath+"/half-production", "").want(http.StatusNotFound)
		projects := r.do(http.MethodGet, "/v1/accounts/default/projects", "").want(http.StatusOK).fields("data", "limit", "offset", "total").field("total", 1.0)
		if diff := cmp.Diff(made.object(), projects.items("data")[0]); diff != "" {
			t.Errorf("a list shows it otherwise (-made +got):\n%s", diff)
		}
		r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`, as(r.secondAccount("second"))).want(http.StatusCreated).field("accountName", "second")
	})
}

// A project says which branch is production, and a change of that is in the audit log.
func TestProductionBranch(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const path = "/v1/accounts/default/projects/shop"
		made := r.do(http.MethodPost, "/v1/projects", `{"name":"shop"}`).want(http.StatusCreated).field("productionBranch", "main")
		changed := r.do(http.MethodPatch, path, `{"productionBranch":"release/2026.1"}`).want(http.StatusOK).field("productionBranch", "release/2026.1").field("id", made.text("id"))
		for _, same := range []answer{r.do(http.MethodGet, path, ""), r.do(http.MethodPatch, path, `{}`)} {
			if diff := cmp.Diff(changed.object(), same.want(http.StatusOK).object()); diff != "" {
				t.Errorf("%s (-changed +got):\n%s", same.call, diff)
			}
		}
		entry := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?action=update-project&limit=1", "").want(http.StatusOK).items("data")[0]
		if diff := cmp.Diff([]any{map[string]any{"type": "project", "id": made.text("id"), "metadata": map[string]any{"name": "shop"}}}, entry["resources"]); diff != "" {
			t.Errorf("the audit log tells of (-want +got):\n%s", diff)
		}
		for _, branch := range []string{"", "-a", "/a", ".a", "~preview", "a b", "a\\u0000", "é", "working-copy", strings.Repeat("x", 101)} {
			r.do(http.MethodPatch, path, `{"productionBranch":"`+branch+`"}`).faults("/productionBranch")
		}
		r.do(http.MethodPatch, path, `{"productionBranch":null,"name":"x"}`).faults("/name", "/productionBranch")
		r.do(http.MethodPatch, path+"?x=1", `{}`).faults("?x")
		r.do(http.MethodGet, path, "").want(http.StatusOK).field("productionBranch", "release/2026.1")
		r.do(http.MethodPatch, "/v1/accounts/default/projects/none", `{}`).want(http.StatusNotFound).field("detail", "There is no such project.")
	})
}

func TestAuditLog(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const path = "/v1/accounts/default/audit-logs"
		before := apiTime(time.Now().Add(-time.Second))
		bucket := r.bucket("audit-bucket")
		consumer, key := r.holder(bucket, "writer", "buckets:write")
		r.do(http.MethodPatch, bucket, `{"description":"x"}`, as(key), header("X-Request-Id", "one-request"), header("User-Agent", "tester/1")).want(http.StatusOK)
		r.do(http.MethodPatch, consumer, `{"scopes":["admin"]}`, as(key)).want(http.StatusForbidden)
		get := func(query string) answer {
			return r.do(http.MethodGet, path+query, "").want(http.StatusOK).fields("data", "pagination")
		}
		all := get("").items("data")
		actions := []string{}
		for _, entry := range all {
			actions = append(actions, fmt.Sprint(entry["action"], " ", entry["success"]))
		}
		if diff := cmp.Diff([]string{"update-consumer false", "update-bucket true", "create-consumer true", "create-bucket true"}, actions); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		want := map[string]any{
			"action": "update-bucket", "metadata": nil, "requestId": "one-request", "success": true, "error": nil, "count": 1.0,
			"actor": map[string]any{
				"sub": "audit-bucket/writer", "email": nil, "type": "key", "connection": nil, "actingAs": nil,
				"metadata": all[1]["actor"].(map[string]any)["metadata"],
			},
			"resources": []any{map[string]any{"type": "bucket", "id": r.do(http.MethodGet, bucket, "").text("id"), "metadata": map[string]any{"name": "audit-bucket"}}},
			"context": map[string]any{
				"ipAddress": "127.0.0.1", "userAgent": "tester/1", "country": nil, "region": nil, "city": nil, "postalCode": nil, "metroCode": nil, "asOrg": nil,
			},
			"route":     map[string]any{"source": nil, "method": "PATCH", "url": "/v1/accounts/{accountName}/key-buckets/{bucketName}"},
			"timestamp": all[1]["timestamp"],
		}
		if diff := cmp.Diff(want, all[1]); diff != "" {
			t.Errorf("an entry (-want +got):\n%s", diff)
		}
		if all[0]["error"] != "FORBIDDEN" {
			t.Errorf("a refusal's error is %v", all[0]["error"])
		}
		get("").field("pagination", map[string]any{"limit": 20.0, "offset": 0.0, "total": 4.0, "hasMore": false})
		get("?limit=3").field("pagination", map[string]any{"limit": 3.0, "offset": 0.0, "total": 4.0, "hasMore": true})
		get("?limit=3&offset=3").field("pagination", map[string]any{"limit": 3.0, "offset": 3.0, "total": 4.0, "hasMore": false})
		get("?offset=10").field("data", []any{}).field("pagination", map[string]any{"limit": 20.0, "offset": 10.0, "total": 4.0, "hasMore": false})
		for query, want := range map[string]int{
			"?action=update-bucket": 1, "?action=none": 0, "?actor=bootstrap": 2, "?actor=audit-bucket%2Fwriter": 2, "?success=true": 3, "?success=false": 1,
			"?startDate=" + before: 4, "?endDate=" + before: 0, "?startDate=2090-01-01T00:00:00Z": 0, "?actor=bootstrap&action=update-bucket": 0,
			"?startDate=2020-01-01T00:00:00Z&endDate=2020-01-31T00:00:00Z": 0, "?limit=100": 4, "?limit=1": 1,
		} {
			if got := len(get(query).items("data")); got != want {
				t.Errorf("%s: %d entries, want %d", query, got, want)
			}
		}
		for query, want := range map[string][]string{
			"?limit=0": {"?limit"}, "?limit=101": {"?limit"}, "?limit=-1": {"?limit"}, "?offset=-1": {"?offset"}, "?offset=4294967296": {"?offset"},
			"?success=yes": {"?success"}, "?success=": {"?success"}, "?startDate=yesterday&endDate=2020-01-31": {"?endDate", "?startDate"},
			"?startDate=2020-01-01T00:00:00Z&endDate=2020-01-31T00:00:00.001Z": {"?endDate"},
			"?startDate=2020-01-01T00:00:00Z&endDate=2020-01-01T00:00:00Z":     {"?startDate"},
			"?startDate=2020-01-02T00:00:00Z&endDate=2020-01-01T00:00:00Z":     {"?startDate"},
			"?cursor=x&tag.a=b": {"?cursor", "?tag.a"}, "?action=a&action=b": {"?action"},
		} {
			r.do(http.MethodGet, path+query, "").faults(want...)
		}
		if strings.Contains(string(get("?limit=100").body), "wbk_") {
			t.Error("a key is in the log")
		}
		r.do(http.MethodGet, path, "", as(key)).want(http.StatusForbidden)
	})
}
