package api_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/google/go-cmp/cmp"
)

func TestConsumers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		bucket := r.bucket("consumers-bucket")
		path := bucket + "/consumers"
		all := []string{"id", "name", "createdOn", "updatedOn", "description", "tags", "metadata", "scopes"}

		bare := r.do(http.MethodPost, path, `{"name":"c"}`).want(http.StatusCreated).fields(all...).matches("id", `^csmr_[0-9A-Za-z]{24}$`)
		bare.field("tags", map[string]any{}).field("metadata", map[string]any{}).field("scopes", []any{}).field("description", "")
		if got := bare.header.Get("Location"); got != path+"/c" {
			t.Errorf("Location is %q", got)
		}
		r.do(http.MethodPost, path, `{"name":"c"}`).want(http.StatusConflict)
		r.do(http.MethodPost, r.bucket("other-bucket")+"/consumers", `{"name":"c"}`).want(http.StatusCreated)
		r.do(http.MethodPost, bucketsPath+"/none-such/consumers", `{"name":"c"}`).want(http.StatusNotFound)

		full := r.do(http.MethodPost, path+"?with-api-key=true", `{"name":"full","description":"d","tags":{"org":"7"},
			"metadata":{"plan":"gold","n":0.1000,"big":12345678901234567890,"nested":{"a":[1,null]}},"scopes":["events:write","webhooks:read"],
			"managers":["a@b.example",{"email":"c@d.example","sub":"auth|1"}],"apiKeys":[{"description":"given","expiresOn":"2099-01-01T00:00:00+01:00"}]}`).
			want(http.StatusCreated).fields(append(all, "apiKeys", "managers")...)
		full.field("scopes", []any{"events:write", "webhooks:read"}).field("tags", map[string]any{"org": "7"})
		if !strings.Contains(string(full.body), `"n":0.1000,"big":12345678901234567890`) {
			t.Errorf("metadata is not as it was sent: %s", full.body)
		}
		keys := full.items("apiKeys")
		if len(keys) != 2 || keys[0]["description"] != "given" || keys[0]["expiresOn"] != "2098-12-31T23:00:00.000Z" || keys[1]["expiresOn"] != nil {
			t.Errorf("keys are %v", keys)
		}
		for _, key := range keys {
			r.do(http.MethodGet, "/v1/webhooks", "", as(key["key"].(string))).want(http.StatusOK)
			r.do(http.MethodGet, "/v1/events", "", as(key["key"].(string))).want(http.StatusForbidden)
		}
		managers := full.items("managers")
		if len(managers) != 2 || managers[0]["email"] != "a@b.example" || managers[1]["sub"] != "auth|1" {
			t.Errorf("managers are %v", managers)
		}
		r.do(http.MethodPost, path+"?with-api-key=false", `{"name":"without"}`).want(http.StatusCreated).fields(all...)

		get := func(query string) answer { return r.do(http.MethodGet, path+"/full"+query, "") }
		get("").want(http.StatusOK).fields(all...)
		get("?include-api-keys=false&include-managers=false&include-manager-invites=true").want(http.StatusOK).fields(all...)
		if diff := cmp.Diff(full.items("managers"), get("?include-managers=true").want(http.StatusOK).fields(append(all, "managers")...).items("managers")); diff != "" {
			t.Errorf("managers (-made +got):\n%s", diff)
		}
		for query, want := range map[string]func(string) any{
			"":                    func(key string) any { return "****" + key[len(key)-8:] },
			"&key-format=masked":  func(key string) any { return "****" + key[len(key)-8:] },
			"&key-format=visible": func(key string) any { return key },
			"&key-format=none":    func(string) any { return nil },
		} {
			seen := get("?include-api-keys=true" + query).want(http.StatusOK).fields(append(all, "apiKeys")...).items("apiKeys")
			for i, key := range seen {
				if diff := cmp.Diff(want(keys[i]["key"].(string)), key["key"]); diff != "" {
					t.Errorf("%s (-want +got):\n%s", query, diff)
				}
			}
		}
		get("?include-api-keys=yes&include-managers=1&include-manager-invites=&key-format=full&tag.a=b&x=1").
			faults("?include-api-keys", "?include-manager-invites", "?include-managers", "?key-format", "?x")
		get("?tag.org=7").want(http.StatusOK)
		get("?tag.org=8").want(http.StatusNotFound)

		list := func(query string) answer {
			return r.do(http.MethodGet, path+query, "").want(http.StatusOK).fields("data", "limit", "offset", "total")
		}
		for query, want := range map[string][]string{
			"": {"c", "full", "without"}, "?tag.org=7": {"full"}, "?tag.org=8": {}, "?manager-email=c@d.example": {"full"},
			"?manager-email=x@d.example": {}, "?tag.org=7&manager-email=a%40b.example": {"full"}, "?limit=1&offset=1": {"full"},
		} {
			if diff := cmp.Diff(want, list(query).names()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", query, diff)
			}
		}
		one := list("?tag.org=7&include-api-keys=true&include-managers=true&key-format=visible").items("data")[0]
		if diff := cmp.Diff(full.object(), one); diff != "" {
			t.Errorf("a list shows it otherwise (-made +got):\n%s", diff)
		}
		r.do(http.MethodGet, path+"?include-api-keys=TRUE&key-format=", "").faults("?include-api-keys", "?key-format")
		r.do(http.MethodGet, bucketsPath+"/none-such/consumers", "").want(http.StatusNotFound)

		patch := func(body string) answer {
			return r.do(http.MethodPatch, path+"/full", body).want(http.StatusOK).fields(all...)
		}
		patch(`{}`).field("description", "d").field("tags", map[string]any{"org": "7"})
		patch(`{"description":"e","metadata":{"x":1}}`).field("description", "e").field("metadata", map[string]any{"x": 1.0}).field("scopes", []any{"events:write", "webhooks:read"})
		patch(`{"tags":{},"metadata":{}}`).field("tags", map[string]any{}).field("metadata", map[string]any{})
		patch(`{"scopes":["events:read"]}`).field("scopes", []any{"events:read"})
		r.do(http.MethodGet, "/v1/events", "", as(keys[0]["key"].(string))).want(http.StatusOK)
		r.do(http.MethodGet, "/v1/webhooks", "", as(keys[0]["key"].(string))).want(http.StatusForbidden)
		r.do(http.MethodPatch, path+"/full?tag.org=7", `{"description":"lost"}`).want(http.StatusNotFound)
		r.do(http.MethodPatch, path+"/none-such", `{}`).want(http.StatusNotFound)

		r.do(http.MethodDelete, path+"/full?tag.org=7", "").want(http.StatusNotFound)
		r.do(http.MethodDelete, path+"/full", "").want(http.StatusNoContent)
		r.do(http.MethodGet, "/v1/events", "", as(keys[0]["key"].(string))).want(http.StatusUnauthorized)
		for _, p := range []string{"", "/keys", "/managers", "/keys/" + keys[0]["id"].(string)} {
			r.do(http.MethodGet, path+"/full"+p, "").want(http.StatusNotFound)
		}
		r.do(http.MethodDelete, path+"/full", "").want(http.StatusNotFound)
	})
}

func TestManagers(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, _ := r.holder(r.bucket("managers-bucket"), "c")
		path := consumer + "/managers"
		made := r.do(http.MethodPost, path, `{"email":"a@b.example","sub":"auth|1"}`).want(http.StatusCreated).fields("id", "createdOn", "email", "sub", "acceptedOn").field("acceptedOn", nil)
		made.matches("id", `^eusr_[0-9A-Za-z]{24}$`).matches("createdOn", timeForm).field("email", "a@b.example").field("sub", "auth|1")
		if got := made.header.Get("Location"); got != path+"/"+made.text("id") {
			t.Errorf("Location is %q", got)
		}
		r.do(http.MethodPost, path, `{"email":"a@b.example","sub":"auth|1"}`).want(http.StatusConflict).field("code", "CONFLICT")
		r.do(http.MethodPost, path, `{"email":"a@b.example","sub":"auth|2"}`).want(http.StatusCreated)
		if diff := cmp.Diff(made.object(), r.do(http.MethodGet, path, "").want(http.StatusOK).field("total", 2.0).items("data")[0]); diff != "" {
			t.Errorf("a list shows it otherwise (-made +got):\n%s", diff)
		}
		for _, email := range []string{"", "a", "a@", "@b", "a b@c.example", "<a@b.example>", "a@b.example, c@d.example", "a@b.example ", strings.Repeat("a", 300) + "@b.example"} {
			r.do(http.MethodPost, path, fmt.Sprintf(`{"email":%q,"sub":"s"}`, email)).faults("/email")
		}
		r.do(http.MethodDelete, path+"/eusr_000000000000000000000000", "").want(http.StatusNotFound)
		r.do(http.MethodDelete, path+"/"+made.text("id"), "").want(http.StatusNoContent)
		r.do(http.MethodDelete, path+"/"+made.text("id"), "").want(http.StatusNotFound)
		r.do(http.MethodGet, path, "").field("total", 1.0)
		r.do(http.MethodPatch, path+"/"+made.text("id"), "{}").want(http.StatusMethodNotAllowed)
		r.do(http.MethodPost, consumer+"x/managers", `{"email":"a@b.example","sub":"s"}`).want(http.StatusNotFound)
	})
}

func TestKeys(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, _ := r.holder(r.bucket("keys-bucket"), "c", "webhooks:read")
		path := consumer + "/keys"
		opens := func(key string, status int) { r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(status) }
		for _, body := range []string{"", "{}"} {
			made := r.do(http.MethodPost, path, body).want(http.StatusCreated).fields("id", "createdOn", "updatedOn", "description", "key")
			made.matches("id", `^key_[0-9A-Za-z]{24}$`).matches("key", keyForm)
			opens(made.text("key"), http.StatusOK)
			if got := made.header.Get("Location"); got != path+"/"+made.text("id") {
				t.Errorf("Location is %q", got)
			}
		}
		made := r.do(http.MethodPost, path, `{"description":"d","expiresOn":"2099-01-01T00:00:00Z"}`).want(http.StatusCreated)
		made.fields("id", "createdOn", "updatedOn", "description", "expiresOn", "key").field("expiresOn", "2099-01-01T00:00:00.000Z").field("description", "d")
		key, one := made.text("key"), path+"/"+made.text("id")
		masked := "****" + key[len(key)-8:]
		get := func(query string) answer { return r.do(http.MethodGet, one+query, "").want(http.StatusOK) }
		get("").field("key", masked).field("expiresOn", "2099-01-01T00:00:00.000Z")
		get("?key-format=masked").field("key", masked)
		get("?key-format=visible").field("key", key)
		get("?key-format=none").fields("id", "createdOn", "updatedOn", "description", "expiresOn")
		for _, format := range []string{"", "full", "MASKED", "visible&key-format=visible"} {
			r.do(http.MethodGet, one+"?key-format="+format, "").faults("?key-format")
			r.do(http.MethodGet, path+"?key-format="+format, "").faults("?key-format")
		}
		for format, want := range map[string]any{"masked": masked, "visible": key, "none": nil} {
			list := r.do(http.MethodGet, path+"?key-format="+format, "").want(http.StatusOK).field("total", 4.0).items("data")
			if diff := cmp.Diff(want, list[3]["key"]); diff != "" {
				t.Errorf("%s in a list (-want +got):\n%s", format, diff)
			}
		}

		patch := func(body string) answer { return r.do(http.MethodPatch, one, body).want(http.StatusOK) }
		patch(`{"description":"e"}`).field("description", "e").field("expiresOn", "2099-01-01T00:00:00.000Z").field("key", masked)
		patch(`{"expiresOn":"2020-01-01T00:00:00Z"}`).field("expiresOn", "2020-01-01T00:00:00.000Z").field("description", "e")
		opens(key, http.StatusUnauthorized)
		patch(`{"expiresOn":"2098-01-01T00:00:00Z"}`)
		opens(key, http.StatusOK)
		r.do(http.MethodPatch, path+"/key_000000000000000000000000", `{}`).want(http.StatusNotFound)

		r.do(http.MethodDelete, one, "").want(http.StatusNoContent)
		opens(key, http.StatusUnauthorized)
		r.do(http.MethodGet, one, "").want(http.StatusNotFound)
		r.do(http.MethodDelete, one, "").want(http.StatusNotFound)
		r.do(http.MethodGet, path+"/$bulk", "").want(http.StatusNotFound)

		// A key of one's own: it is taken as it is, once, and again when it is gone.
		back := r.do(http.MethodPost, path, fmt.Sprintf(`{"key":%q}`, key)).want(http.StatusCreated).field("key", key)
		opens(key, http.StatusOK)
		r.do(http.MethodPost, path, fmt.Sprintf(`{"key":%q}`, key)).want(http.StatusConflict).field("code", "CONFLICT")
		r.do(http.MethodPost, path+"/$bulk", fmt.Sprintf(`[{},{"key":%q}]`, key)).want(http.StatusConflict)
		r.do(http.MethodPost, consumer+"x/keys", "{}").want(http.StatusNotFound)
		r.do(http.MethodGet, path, "").field("total", 4.0)
		other := r.do(http.MethodPost, path, "").want(http.StatusCreated)
		r.do(http.MethodDelete, path+"/"+other.text("id"), "").want(http.StatusNoContent)
		r.do(http.MethodPatch, path+"/"+back.text("id"), fmt.Sprintf(`{"key":%q}`, other.text("key"))).want(http.StatusOK)
		opens(key, http.StatusUnauthorized)
		opens(other.text("key"), http.StatusOK)

		bulk := r.do(http.MethodPost, path+"/$bulk", `[{},{"description":"second"},{"expiresOn":"2020-01-01T00:00:00Z"}]`).want(http.StatusCreated)
		bulk.fields("data", "limit", "offset", "total").field("total", 3.0)
		if got := bulk.header.Get("Location"); got != path {
			t.Errorf("Location is %q", got)
		}
		for i, status := range []int{200, 200, 401} {
			opens(bulk.items("data")[i]["key"].(string), status)
		}
		r.do(http.MethodPost, path+"/$bulk?tag.a=b", `[{}]`).want(http.StatusNotFound)
	})
}

// The keys of a fleet are moved in as they are.
func TestKeysBroughtAlong(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, _ := r.holder(r.bucket("fleet-bucket"), "c", "webhooks:read")
		path, stranger := consumer+"/keys", r.secondAccount("globex")
		opens := func(key string, status int) {
			t.Helper()
			r.insist(http.MethodGet, "/v1/webhooks", "", as(key)).want(status)
			r.insist(http.MethodGet, "/v1/webhooks", "", without("Authorization"), header("X-API-Key", key)).want(status)
		}
		for _, key := range []string{"zpka_0123456789abcdef0123456789abcdef_782bbe53", strings.Repeat("x", 32), `!"#$%&'()*+,-./:;<=>?@[\]^_` + "`{|}~" + strings.Repeat("y", 224)} {
			opens(key, http.StatusUnauthorized)
			body, err := json.Marshal(map[string]string{"key": key})
			if err != nil {
				t.Fatal(err)
			}
			made := r.insist(http.MethodPost, path, string(body)).want(http.StatusCreated).field("key", key)
			opens(key, http.StatusOK)
			opens(key[:len(key)-1]+"0", http.StatusUnauthorized)
			one := path + "/" + made.text("id")
			r.insist(http.MethodGet, one, "").want(http.StatusOK).field("key", "****"+key[len(key)-8:])
			r.insist(http.MethodGet, one+"?key-format=visible", "").want(http.StatusOK).field("key", key)
			r.insist(http.MethodGet, one, "", as(stranger)).want(http.StatusNotFound)
			r.insist(http.MethodPost, path, string(body)).want(http.StatusConflict)
			r.insist(http.MethodDelete, one, "").want(http.StatusNoContent)
			opens(key, http.StatusUnauthorized)
		}
		for _, key := range []string{strings.Repeat("x", 31), strings.Repeat("x", 257), strings.Repeat("é", 16), strings.Repeat("x ", 20), "wbk_0123456789abcdefghijklmnopqrstuv_782bbe54"} {
			r.insist(http.MethodPost, path, fmt.Sprintf(`{"key":%q}`, key)).faults("/key")
		}
		if strings.Contains(r.logs.String(), strings.Repeat("x", 32)) {
			t.Error("a key is in the log")
		}
	})
}

// Rolling makes one key without an end, and ends those that live longer.
func TestRollKeys(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		consumer, _ := r.holder(r.bucket("roll-bucket"), "c", "webhooks:read")
		r.do(http.MethodPost, consumer+"/keys/$bulk", `[{"expiresOn":"2090-01-01T00:00:00Z"},{"expiresOn":"2030-01-01T00:00:00Z"},{"expiresOn":"2020-01-01T00:00:00Z"}]`).want(http.StatusCreated)
		ends := func() []any {
			var list []any
			for _, key := range r.do(http.MethodGet, consumer+"/keys", "").want(http.StatusOK).items("data") {
				list = append(list, key["expiresOn"])
			}
			return list
		}
		rolled := r.do(http.MethodPost, consumer+"/roll-key", `{"expiresOn":"2040-01-01T00:00:00Z"}`).want(http.StatusNoContent)
		if len(rolled.body) != 0 {
			t.Errorf("a body: %s", rolled.body)
		}
		want := []any{"2040-01-01T00:00:00.000Z", "2040-01-01T00:00:00.000Z", "2030-01-01T00:00:00.000Z", "2020-01-01T00:00:00.000Z", nil}
		if diff := cmp.Diff(want, ends()); diff != "" {
			t.Errorf("ends (-want +got):\n%s", diff)
		}
		fresh := r.do(http.MethodGet, consumer+"/keys?key-format=visible&offset=4", "").items("data")[0]["key"].(string)
		r.do(http.MethodGet, "/v1/webhooks", "", as(fresh)).want(http.StatusOK)

		for _, body := range []string{"", "{}", `{"expiresOn":"2020-06-01T00:00:00Z"}`} {
			r.do(http.MethodPost, consumer+"/roll-key", body).want(http.StatusNoContent)
			r.do(http.MethodGet, "/v1/webhooks", "", as(fresh)).want(http.StatusUnauthorized)
			list := r.do(http.MethodGet, consumer+"/keys?key-format=visible", "").items("data")
			live := 0
			for _, key := range list {
				if end, ok := key["expiresOn"].(string); !ok || end > apiTime(time.Now()) {
					live++
				}
			}
			if live != 1 {
				t.Errorf("%d keys live after a roll with %q", live, body)
			}
			fresh = list[len(list)-1]["key"].(string)
			r.do(http.MethodGet, "/v1/webhooks", "", as(fresh)).want(http.StatusOK)
		}
		r.do(http.MethodPost, consumer+"/roll-key?tag.a=b", "").want(http.StatusNotFound)
		r.do(http.MethodPost, consumer+"x/roll-key", "").want(http.StatusNotFound)
	})
}

// What is not retrievable is shown when it is made, and never again.
func TestNotRetrievable(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(_ *testing.T, r *rig) {
		bucket := r.bucket("sealed-bucket", `,"isRetrievable":false`)
		consumer, key := r.holder(bucket, "c", "webhooks:read")
		made := r.do(http.MethodPost, consumer+"/keys", "").want(http.StatusCreated).matches("key", keyForm)
		r.do(http.MethodPost, consumer+"/keys/$bulk", `[{},{}]`).want(http.StatusCreated)
		for _, path := range []string{
			bucket + "/consumers?key-format=visible&include-api-keys=true", bucket + "/consumers?key-format=visible",
			consumer + "?key-format=visible&include-api-keys=true", consumer + "/keys?key-format=visible",
			consumer + "/keys/" + made.text("id") + "?key-format=visible",
		} {
			r.do(http.MethodGet, path, "").faults("?key-format")
		}
		r.do(http.MethodGet, consumer+"/keys/"+made.text("id"), "").want(http.StatusOK).field("key", "****"+made.text("key")[len(made.text("key"))-8:])
		r.do(http.MethodGet, consumer+"?include-api-keys=true&key-format=none", "").want(http.StatusOK)
		rolled := r.do(http.MethodPost, consumer+"/roll-key", "").want(http.StatusOK).matches("key", keyForm)
		rolled.fields("id", "createdOn", "updatedOn", "description", "key")
		r.do(http.MethodGet, "/v1/webhooks", "", as(rolled.text("key"))).want(http.StatusOK)
		r.do(http.MethodGet, "/v1/webhooks", "", as(key)).want(http.StatusUnauthorized)
	})
}
