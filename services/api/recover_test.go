package api_test

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
)

// An account that has lost its admin key gets another one from whoever holds the bootstrap
// key, and from nobody else, whatever is left of its bucket admin.
func TestAdminKeyOfAccount(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		lost, stranger := r.secondAccount("lost"), r.secondAccount("stranger")
		const path = "/v1/accounts/lost/admin-keys"
		_, ownAdmin := r.holder(r.bucket("own-admins"), "admin", domain.ScopeAdmin)
		recovered := func(body string) string {
			t.Helper()
			return r.insist(http.MethodPost, path, body).want(http.StatusCreated).fields("key").matches("key", `^wbk_[0-9A-Za-z]{32}_[0-9a-f]{8}$`).text("key")
		}
		manages := func(key string) {
			t.Helper()
			r.do(http.MethodGet, "/v1/who-am-i", "", as(key)).want(http.StatusOK).field("account", "lost")
			r.do(http.MethodGet, "/v1/accounts/lost/audit-logs", "", as(key)).want(http.StatusOK)
		}
		manages(recovered(""))
		r.do(http.MethodDelete, "/v1/accounts/lost/key-buckets/admin", "", as(lost)).want(http.StatusNoContent)
		r.do(http.MethodGet, "/v1/who-am-i", "", as(lost)).want(http.StatusUnauthorized)
		second := recovered("{}")
		manages(second)
		r.do(http.MethodGet, "/v1/accounts/lost/key-buckets/admin", "", as(second)).want(http.StatusOK).field("isRetrievable", false)

		// A consumer whose scopes were taken away gives nobody who has a key of it new ones.
		weak := r.do(http.MethodPost, "/v1/accounts/lost/key-buckets/admin/consumers/admin/keys", "{}", as(second)).want(http.StatusCreated).text("key")
		r.do(http.MethodPatch, "/v1/accounts/lost/key-buckets/admin/consumers/admin", `{"scopes":["events:read"]}`, as(second)).want(http.StatusOK)
		third := recovered("")
		manages(third)
		r.do(http.MethodGet, "/v1/accounts/lost/audit-logs", "", as(weak)).want(http.StatusForbidden)
		manages(recovered(""))
		consumers := r.do(http.MethodGet, "/v1/accounts/lost/key-buckets/admin/consumers", "", as(third)).want(http.StatusOK).names()
		if diff := cmp.Diff([]string{"admin", "admin-2"}, consumers); diff != "" {
			t.Errorf("consumers (-want +got):\n%s", diff)
		}

		// Nobody else may, not even an admin of the bootstrap key's own account.
		r.do(http.MethodPost, path, "", as(third)).want(http.StatusForbidden)
		for _, key := range []string{stranger, ownAdmin} {
			r.do(http.MethodPost, path, "", as(key)).want(http.StatusNotFound)
		}
		r.do(http.MethodPost, "/v1/accounts/default/admin-keys", "", as(ownAdmin)).want(http.StatusForbidden)
		r.do(http.MethodPost, "/v1/accounts/none/admin-keys", "").want(http.StatusNotFound)
		r.do(http.MethodPost, path, `{"key":"x"}`).faults("/key")
		r.do(http.MethodPost, path+"?x=1", "").faults("?x")

		// Both accounts are told; the one that helped, of nothing inside the other.
		entries := func(account, key string) (list []string) {
			t.Helper()
			for _, e := range r.do(http.MethodGet, "/v1/accounts/"+account+"/audit-logs?action=create-admin-key&success=true", "", as(key)).want(http.StatusOK).items("data") {
				var things []string
				for _, thing := range e["resources"].([]any) {
					things = append(things, thing.(map[string]any)["type"].(string))
				}
				list = append(list, e["actor"].(map[string]any)["sub"].(string)+" "+strings.Join(things, ","))
			}
			return list
		}
		if diff := cmp.Diff(slices.Repeat([]string{"bootstrap account"}, 4), entries("default", adminKey)); diff != "" {
			t.Errorf("log of default (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(slices.Repeat([]string{"bootstrap bucket,consumer,key"}, 4), entries("lost", third)); diff != "" {
			t.Errorf("log of lost (-want +got):\n%s", diff)
		}
		// Of its own account the bootstrap key makes one, too: one entry.
		r.do(http.MethodPost, "/v1/accounts/default/admin-keys", "").want(http.StatusCreated)
		if got := entries("default", adminKey); len(got) != 5 {
			t.Errorf("log of default: %q", got)
		}
	})
}

// Where an answer says that something was made, it is.
func TestLocationsLead(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, _ := r.holder(r.bucket("located"), "consumer")
		for path, body := range map[string]string{
			"/v1/accounts": `{"name":"located"}`, "/v1/projects": `{"name":"located"}`, consumer + "/managers": `{"email":"a@b.example","sub":"s"}`,
			bucketsPath: `{"name":"located-too"}`, bucketsPath + "/located/consumers": `{"name":"another"}`, consumer + "/keys": `{}`, "/v1/webhooks": plainWebhook,
		} {
			made := r.insist(http.MethodPost, path, body).want(http.StatusCreated)
			shown := r.do(http.MethodGet, made.header.Get("Location"), "").want(http.StatusOK).object()
			want := made.object()
			for _, once := range []string{"key", "secret"} {
				delete(want, once)
				delete(shown, once) // of a key, masked
			}
			if diff := cmp.Diff(want, shown); diff != "" {
				t.Errorf("%s: what was made is shown otherwise (-made +got):\n%s", path, diff)
			}
		}
		second := r.secondAccount("second")
		r.do(http.MethodGet, "/v1/accounts/second", "", as(second)).want(http.StatusOK).field("name", "second")
		r.do(http.MethodGet, "/v1/accounts/second", "").want(http.StatusOK)
		r.do(http.MethodGet, "/v1/accounts/located", "", as(second)).want(http.StatusNotFound)
		for _, path := range []string{"/v1/accounts/none", "/v1/accounts/default/projects/none", consumer + "/managers/eusr_000000000000000000000000", "/v1/accounts/second/projects/located", "/v1/accounts/%00", "/v1/accounts/default/projects/%ff"} {
			r.do(http.MethodGet, path, "").want(http.StatusNotFound)
		}
		r.do(http.MethodGet, consumer+"/managers/"+"eusr_000000000000000000000000?tag.a=b", "").want(http.StatusNotFound)
		r.do(http.MethodGet, "/v1/accounts/default?x=1", "").faults("?x")
	})
}
