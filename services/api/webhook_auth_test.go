package api_test

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/receiverauth"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// object makes JSON of names and values that follow each other.
func object(pairs ...string) string {
	members := map[string]string{}
	for i := 0; i < len(pairs); i += 2 {
		members[pairs[i]] = pairs[i+1]
	}
	text, _ := json.Marshal(members) //nolint:errchkjson // texts
	return string(text)
}

// kept returns how a webhook's callbacks are authenticated, as the dispatchers get it.
func (r *rig) keptAuth(id string) *receiverauth.Auth {
	r.t.Helper()
	w, _, err := r.store.GetWebhook(r.t.Context(), domain.DefaultAccount, domain.WebhookID(id))
	if err != nil {
		r.t.Fatal(err)
	}
	if w.Auth == "" {
		return nil
	}
	of, err := receiverauth.Decode(w.Auth)
	if err != nil {
		r.t.Fatal(err)
	}
	return of
}

func TestWebhookAuth(t *testing.T) {
	t.Parallel()
	authority := receiverauthtest.New(t)
	ends := time.Now().Add(100 * time.Hour).UTC().Truncate(time.Second)
	certificate, key := authority.Issue(t, "shop, \"and\" co", ends)
	const start = `{"url":"https://hooks.example.com/a","events":["shipment.created"],"auth":`
	eachDatabase(t, func(t *testing.T, r *rig) {
		for kind, given := range map[string]string{
			"basic":  object("type", "basic", "username", "canary-name", "password", "canary-pass:word"),
			"bearer": object("type", "bearer", "token", "canary-token"),
			"oauth2": object("type", "oauth2", "tokenUrl", "https://login.example.com/t", "clientId", "canary-id", "clientSecret", "canary-secret", "scope", "a b"),
			"mtls":   object("type", "mtls", "certificate", certificate, "privateKey", key, "ca", authority.PEM),
		} {
			made := r.register(start+given+"}").field("authType", kind)
			id := made.text("id")
			path := "/v1/webhooks/" + id
			before := r.keptAuth(id)
			if string(before.Type) != kind {
				t.Errorf("%s is kept as %s", kind, before.Type)
			}
			shown := r.do(http.MethodGet, path, "").want(http.StatusOK).field("authType", kind)
			if _, there := shown.object()["auth"]; there {
				t.Errorf("%s: auth is shown: %s", kind, shown.body)
			}
			if kind == "mtls" {
				if got := fmt.Sprint(shown.object()["authCertificate"]); !strings.Contains(got, "shop") || !strings.Contains(got, ends.Format("2006-01-02T15:04:05")) {
					t.Errorf("certificate %s", got)
				}
			} else if shown.object()["authCertificate"] != nil {
				t.Errorf("%s has a certificate: %s", kind, shown.body)
			}
			// What was read can be sent back, and says nothing of it.
			r.do(http.MethodPatch, path, string(shown.body)).want(http.StatusOK).field("authType", kind)
			if after := r.keptAuth(id); *after != *before {
				t.Errorf("%s was changed by another change", kind)
			}
			// It stays with its server, like headers.
			refused := r.do(http.MethodPatch, path, `{"url":"https://evil.example/"}`).want(http.StatusBadRequest)
			if !strings.Contains(string(refused.body), `"pointer":"/auth"`) {
				t.Errorf("%s follows to another server: %s", kind, refused.body)
			}
			r.do(http.MethodPatch, path, `{"url":"https://hooks.example.com:443/b"}`).want(http.StatusOK).field("authType", kind)
			r.do(http.MethodPatch, path, `{"url":"https://other.example/","auth":{"type":"bearer","token":"canary-new"}}`).want(http.StatusOK).field("authType", "bearer")
			if of := r.keptAuth(id); of.Token != "canary-new" || of.Password != "" || of.ClientSecret != "" || of.PrivateKey != "" {
				t.Errorf("%s leaves something", kind)
			}
			gone := r.do(http.MethodPatch, path, `{"url":"https://third.example/","auth":null}`).want(http.StatusOK)
			if kind := gone.object()["authType"]; kind != nil || r.keptAuth(id) != nil {
				t.Errorf("it is there after null: %v", kind)
			}
		}
		if at := r.register(plainWebhook).object()["authType"]; at != nil {
			t.Errorf("authType %v of a webhook without", at)
		}
		list := string(r.do(http.MethodGet, "/v1/webhooks", "").want(http.StatusOK).body)
		audit := string(r.do(http.MethodGet, "/v1/accounts/default/audit-logs", "").want(http.StatusOK).body)
		for name, text := range map[string]string{"list": list, "audit log": audit, "logs": r.logs.String()} {
			for _, secret := range []string{"canary", "PRIVATE KEY", "login.example.com"} {
				if strings.Contains(text, secret) {
					t.Errorf("%s is in the %s", secret, name)
				}
			}
		}
		if !strings.Contains(audit, "registerWebhook") && !strings.Contains(audit, "webhook") {
			t.Errorf("the audit log has nothing: %s", audit)
		}
	})
}

func TestWebhookAuthFaults(t *testing.T) {
	t.Parallel()
	authority := receiverauthtest.New(t)
	certificate, key := authority.Issue(t, "one", time.Now().Add(time.Hour))
	_, otherKey := authority.Issue(t, "two", time.Now().Add(time.Hour))
	old, oldKey := authority.Issue(t, "old", time.Now().Add(-time.Hour))
	long := strings.Repeat("x", 20<<10)
	r := newRig(t, sqliteURL(t))
	hook := "/v1/webhooks/" + r.register(`{"url":"https://hooks.example.com/a","events":["shipment.created"],"headers":{"authorization":"mine"}}`).text("id")
	plain := "/v1/webhooks/" + r.register(`{"url":"http://127.0.0.1:9/a","events":["shipment.created"]}`).text("id")
	for _, tc := range []struct {
		name, path, body string
		places           []string
	}{
		{"text", plain, `{"auth":"canary"}`, []string{"/auth"}},
		{"nothing", plain, `{"auth":{}}`, []string{"/auth/type"}},
		{"null type", plain, `{"auth":{"type":null,"token":"canary"}}`, []string{"/auth/type"}},
		{"unknown type", plain, `{"auth":{"type":"digest","username":"canary"}}`, []string{"/auth/type"}},
		{"type in capitals", plain, `{"auth":{"type":"Basic","username":"canary","password":"canary"}}`, []string{"/auth/type"}},
		{"members of another type", plain, `{"auth":{"type":"bearer","token":"canary","username":"canary","more":1}}`, []string{"/auth/more", "/auth/username"}},
		{"missing", plain, `{"auth":{"type":"basic"}}`, []string{"/auth/password", "/auth/username"}},
		{"missing token", plain, `{"auth":{"type":"bearer"}}`, []string{"/auth/token"}},
		{"missing client", plain, `{"auth":{"type":"oauth2"}}`, []string{"/auth/clientId", "/auth/clientSecret", "/auth/tokenUrl"}},
		{"missing key", hook, `{"auth":{"type":"mtls"}}`, []string{"/auth/certificate", "/auth/privateKey"}},
		{"colon", plain, `{"auth":{"type":"basic","username":"canary:x","password":"canary"}}`, []string{"/auth/username"}},
		{"control characters", plain, `{"auth":{"type":"basic","username":"canary\r\n","password":"canary\u007f"}}`, []string{"/auth/password", "/auth/username"}},
		{"empty", plain, `{"auth":{"type":"basic","username":"","password":""}}`, []string{"/auth/password", "/auth/username"}},
		{"too long", plain, `{"auth":{"type":"basic","username":"` + long + `","password":"` + long + `"}}`, []string{"/auth/password", "/auth/username"}},
		{"token with a space", plain, `{"auth":{"type":"bearer","token":"canary x"}}`, []string{"/auth/token"}},
		{"token with a line", plain, `{"auth":{"type":"bearer","token":"canary\r\nX-Evil: 1"}}`, []string{"/auth/token"}},
		{"token of letters", plain, `{"auth":{"type":"bearer","token":"canaryä"}}`, []string{"/auth/token"}},
		{"numbers", plain, `{"auth":{"type":"bearer","token":1}}`, []string{"/auth/token"}},
		{"private token server", plain, `{"auth":{"type":"oauth2","tokenUrl":"http://10.0.0.1/canary","clientId":"a","clientSecret":"canary"}}`, []string{"/auth/tokenUrl"}},
		{"token server with a password", plain, `{"auth":{"type":"oauth2","tokenUrl":"https://a:canary@x.example/","clientId":"a","clientSecret":"canary"}}`, []string{"/auth/tokenUrl"}},
		{"scope", plain, `{"auth":{"type":"oauth2","tokenUrl":"https://x.example/","clientId":"a","clientSecret":"canary","scope":"","audience":1}}`, []string{"/auth/audience", "/auth/scope"}},
		{"no PEM", hook, `{"auth":` + object("type", "mtls", "certificate", "canary", "privateKey", "canary", "ca", "canary") + `}`, []string{"/auth/ca", "/auth/certificate"}},
		{"no key", hook, `{"auth":` + object("type", "mtls", "certificate", certificate, "privateKey", "canary") + `}`, []string{"/auth/privateKey"}},
		{"another's key", hook, `{"auth":` + object("type", "mtls", "certificate", certificate, "privateKey", otherKey) + `}`, []string{"/auth/privateKey"}},
		{"key as certificate", hook, `{"auth":` + object("type", "mtls", "certificate", key+certificate, "privateKey", key) + `}`, []string{"/auth/certificate"}},
		{"expired", hook, `{"auth":` + object("type", "mtls", "certificate", old, "privateKey", oldKey) + `}`, []string{"/auth/certificate"}},
		{"over http", plain, `{"auth":` + object("type", "mtls", "certificate", certificate, "privateKey", key) + `}`, []string{"/auth/type"}},
		{"beside a header", hook, `{"auth":{"type":"bearer","token":"canary"}}`, []string{"/auth/type"}},
		{"beside a header that is given, too", plain, `{"auth":{"type":"bearer","token":"canary"},"headers":{"AUTHORIZATION":"canary"}}`, []string{"/auth/type"}},
	} {
		r.do(http.MethodPatch, tc.path, tc.body).want(http.StatusBadRequest).faults(tc.places...)
		body := `{"url":"https://hooks.example.com/","events":["shipment.created"],` + tc.body[1:]
		switch tc.path {
		case plain:
			body = strings.Replace(body, "https:", "http:", 1)
			body = strings.Replace(body, "hooks.example.com", "127.0.0.1:9", 1)
		default:
			if !strings.Contains(tc.body, "mtls") {
				body = strings.Replace(body, `"events"`, `"headers":{"Authorization":"canary"},"events"`, 1)
			}
		}
		if text := string(r.do(http.MethodPost, "/v1/webhooks", body).want(http.StatusBadRequest).faults(tc.places...).body); strings.Contains(text, "canary") {
			t.Errorf("%s: the answer has the value: %s", tc.name, text)
		}
	}
	if strings.Contains(r.logs.String(), "canary") {
		t.Error("a value is in the logs")
	}
	// A header that comes later is told at its own place.
	path := "/v1/webhooks/" + r.register(`{"url":"https://hooks.example.com/a","events":["shipment.created"],"auth":{"type":"bearer","token":"canary"}}`).text("id")
	r.do(http.MethodPatch, path, `{"headers":{"Authorization":"canary"}}`).want(http.StatusBadRequest).faults("/headers/Authorization")
	// A certificate beside one's own header is allowed.
	r.do(http.MethodPatch, path, `{"headers":{"Authorization":"canary"},"auth":`+object("type", "mtls", "certificate", certificate, "privateKey", key)+`}`).want(http.StatusOK)
}
