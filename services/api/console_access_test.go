package api_test

import (
	"html"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/auditlog"
)

var shownKey = regexp.MustCompile(`wbk_[0-9A-Za-z]{32}_[0-9a-f]{8}`)

// key returns the one key that a page shows in full.
func (p shown) key(t *testing.T) string {
	t.Helper()
	found := shownKey.FindAllString(p.body, -1)
	for _, k := range found {
		if k != found[0] {
			t.Fatalf("the page shows several keys: %q", found)
		}
	}
	if len(found) == 0 {
		t.Fatalf("the page shows no key:\n%.3000s", p.body)
	}
	return found[0]
}

// without checks that no key stands anywhere in what a browser gets.
func (p shown) without(t *testing.T, keys ...string) shown {
	t.Helper()
	for _, k := range keys {
		if k != "" && (strings.Contains(p.body, k) || strings.Contains(p.header.Get("Location")+p.header.Get("Set-Cookie"), k)) {
			t.Errorf("a key is shown again:\n%.2000s", p.body)
		}
	}
	return p
}

// A key is made, used, shown once, given an end and revoked, all by forms; whoever signed in with
// it is signed out then.
func TestConsoleAccess(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		const buckets = "/console/access/buckets"
		b := r.browser().signIn(adminKey)
		b.get("/console/access").want(t, http.StatusOK, "").has(t, "Access", "New bucket")
		b.post("/console/access/new-bucket", "name", "No", "description", "kept").want(t, http.StatusBadRequest, "").has(t, "must match", `value="kept"`)
		b.post("/console/access/new-bucket", "name", "shops", "description", "of partners", "tags", "team=web\nempty").want(t, http.StatusSeeOther, buckets+"/shops")
		b.post("/console/access/new-bucket", "name", "shops").want(t, http.StatusConflict, "").has(t, "already")
		b.get(buckets+"/shops").want(t, http.StatusOK, "").has(t, "of partners", "team=web", "No consumers yet")

		at := buckets + "/shops/consumers/acme"
		b.post(buckets+"/shops/new-consumer", "name", "acme", "metadata", "{").want(t, http.StatusBadRequest, "").has(t, "must be JSON")
		form := url.Values{"name": {"acme"}, "scopes": {"buckets:read", "events:read"}, "metadata": {`{"a":1}`}, "withKey": {"true"}, "ends": {"24h"}}
		made := b.do(http.MethodPost, buckets+"/shops/new-consumer", form).want(t, http.StatusOK, "").has(t, "Copy the key now", "ends ")
		first := made.key(t)
		if made.header.Get("Cache-Control") != "no-store" {
			t.Error("the page with the key may be kept")
		}
		r.send(http.MethodGet, "/v1/events", "", as(first)).want(http.StatusOK)
		b.get(at).want(t, http.StatusOK, "").without(t, first).has(t, "****"+first[len(first)-8:], "events:read", "Roll the keys")
		b.get(buckets+"/shops").without(t, first).has(t, "acme", `title="events:read"`)

		// The key's own session sees itself, and changes nothing that it may not.
		own := r.browser().signIn(first)
		own.get(at).want(t, http.StatusOK, "").has(t, "yours")
		own.get(at+"/edit").want(t, http.StatusOK, "").has(t, "buckets:write", "No right to do this")
		own.post(at+"/edit", "scopes", "admin").want(t, http.StatusForbidden, "")

		// Scopes that are taken away are gone at once.
		b.do(http.MethodPost, at+"/edit", url.Values{"scopes": {"buckets:read"}}).want(t, http.StatusSeeOther, at)
		r.send(http.MethodGet, "/v1/events", "", as(first)).want(http.StatusForbidden)

		b.get(at+"/new-key").want(t, http.StatusOK, "")
		b.post(at+"/new-key", "ends", "at", "expiresOn", "soon").want(t, http.StatusBadRequest, "").has(t, `id="f-expiresOn-fault"`)
		b.post(at+"/new-key", "count", "0").want(t, http.StatusBadRequest, "").has(t, "from 1 to 100")
		second := b.post(at+"/new-key", "description", "<b>second</b>", "ends", "at", "expiresOn", "2099-01-02T03:04").want(t, http.StatusOK, "").has(t, "2099-01-02 03:04").key(t)
		if several := b.post(at+"/new-key", "count", "3").want(t, http.StatusOK, ""); len(shownKey.FindAllString(several.body, -1)) < 3 {
			t.Errorf("three keys were wanted:\n%s", several.body)
		}
		id := r.do(http.MethodGet, "/v1/accounts/default/key-buckets/shops/consumers/acme/keys", "").want(http.StatusOK).items("data")[0]["id"].(string)
		b.post(at+"/keys/"+id, "description", "changed", "ends", "at", "expiresOn", "x").want(t, http.StatusBadRequest, "").has(t, `value="changed"`)
		b.post(at+"/keys/"+id, "description", "changed").want(t, http.StatusSeeOther, at+"/keys/"+id)
		b.get(at+"/keys/"+id).want(t, http.StatusOK, "").without(t, first).has(t, "changed", "Revoke the key")

		// Rolled, in a bucket that keeps no keys: the new one is shown, the old one ends.
		third := b.post(at+"/roll", "ends", "").want(t, http.StatusOK, "").without(t, first, second).key(t)
		r.send(http.MethodGet, "/v1/who-am-i", "", as(second)).want(http.StatusUnauthorized)
		r.send(http.MethodGet, "/v1/who-am-i", "", as(third)).want(http.StatusOK)
		own.get(at).want(t, http.StatusSeeOther, signedOut+"?next="+url.QueryEscape(at))

		own = r.browser().signIn(third)
		page := own.get(at).want(t, http.StatusOK, "")
		mine := regexp.MustCompile(at + `/keys/([^"/]+)"><code>\*{4}` + third[len(third)-8:]).FindStringSubmatch(page.body)
		if mine == nil {
			t.Fatalf("the page has not the new key:\n%s", page.body)
		}
		b.get(at+"/keys/"+mine[1]+"/delete").want(t, http.StatusOK, "").has(t, "Revoke the key", "****")
		b.post(at+"/keys/"+mine[1]+"/delete").want(t, http.StatusSeeOther, at)
		r.send(http.MethodGet, "/v1/who-am-i", "", as(third)).want(http.StatusUnauthorized)
		own.get("/console").want(t, http.StatusSeeOther, signedOut)

		b.post(at+"/new-manager", "email", "no", "sub", "s").want(t, http.StatusBadRequest, "").has(t, "email address")
		b.post(at+"/new-manager", "email", "ada@example.com", "sub", "s").want(t, http.StatusSeeOther, at)
		manager := regexp.MustCompile(at + `/managers/([^"/]+)/delete`).FindStringSubmatch(b.get(at).has(t, "ada@example.com").body)
		b.get(buckets+"/shops?manager-email=ada@example.com").has(t, "acme")
		b.get(buckets+"/shops?manager-email=b@example.com").has(t, "No consumer matches")
		b.post(at+"/managers/"+manager[1]+"/delete").want(t, http.StatusSeeOther, at)

		b.get(buckets+"/shops/delete").want(t, http.StatusOK, "").has(t, "Delete bucket shops?", "Delete the bucket")
		b.post(at+"/delete").want(t, http.StatusSeeOther, buckets+"/shops")
		b.post(buckets+"/shops/edit", "description", "other").want(t, http.StatusSeeOther, buckets+"/shops")
		b.get(buckets+"/shops").has(t, "other")
		b.post(buckets+"/shops/delete").want(t, http.StatusSeeOther, "/console/access")
		b.get(buckets+"/shops").want(t, http.StatusNotFound, "")

		log := b.get("/console/audit?action=delete-key").want(t, http.StatusOK, "").has(t, "delete key", "bootstrap", "127.0.0.1", "done").without(t, first, second, third)
		if strings.Contains(log.body, "create bucket</a>") {
			t.Error("the filter is not kept to")
		}
		for _, action := range auditlog.Actions() {
			log.has(t, `<option value="`+action+`">`)
		}
		b.get("/console/audit?actor=nobody").want(t, http.StatusOK, "").has(t, "No change fits the filter")
		b.get("/console/audit?success=maybe").want(t, http.StatusBadRequest, "")
		for _, k := range []string{first, second, third} {
			if strings.Contains(r.logs.String(), k) {
				t.Error("a key is in the log")
			}
		}
	})
}

// Where keys can be shown again, the page of a roll shows the new one all the same.
func TestConsoleAccessRetrievable(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	_, old := r.holder(r.bucket("kept-keys"), "acme", domain.ScopeEventsRead)
	fresh := b.post("/console/access/buckets/kept-keys/consumers/acme/roll", "ends", "1h").want(t, http.StatusOK, "").without(t, old).key(t)
	r.send(http.MethodGet, "/v1/events", "", as(fresh)).want(http.StatusOK)
	b.get("/console/access/buckets/kept-keys/consumers/acme").without(t, old, fresh)
}

// Only the bootstrap key makes accounts; another account's console shows its own alone.
func TestConsoleAccounts(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	b := r.browser().signIn(adminKey)
	r.bucket("of-default")
	theirs := b.post("/console/access/accounts", "name", "north").want(t, http.StatusOK, "").key(t)
	b.post("/console/access/accounts", "name", "north").want(t, http.StatusConflict, "").has(t, "already")
	b.get("/console/access/accounts").want(t, http.StatusOK, "").without(t, theirs).has(t, "north", "Make an admin key")
	b.get("/console/access/admin-key?account=north").want(t, http.StatusOK, "").has(t, "Make an admin key of north?")
	another := b.post("/console/access/admin-key", "account", "north").want(t, http.StatusOK, "").key(t)

	other := r.browser().signIn(another)
	p := other.get("/console/access").want(t, http.StatusOK, "")
	if strings.Contains(p.body, "of-default") {
		t.Error("the page shows another account's bucket")
	}
	other.get("/console/access/buckets/of-default").want(t, http.StatusNotFound, "")
	p = other.get("/console/access/accounts").want(t, http.StatusOK, "")
	if strings.Contains(html.UnescapeString(p.body), "New account") || strings.Contains(p.body, ">default<") {
		t.Errorf("the page shows other accounts:\n%s", p.body)
	}
	other.post("/console/access/accounts", "name", "south").want(t, http.StatusForbidden, "")
	other.post("/console/access/admin-key", "account", "default").want(t, http.StatusNotFound, "")

	b.post("/console/access/projects", "name", "No!").want(t, http.StatusBadRequest, "").has(t, "must match")
	b.post("/console/access/projects", "name", "parcels").want(t, http.StatusSeeOther, "/console/access/projects")
	b.get("/console/access/projects").has(t, "/console/access/buckets/parcels-production")
	b.get("/console/access").has(t, "parcels-preview")
}
