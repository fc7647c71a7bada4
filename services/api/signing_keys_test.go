package api_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/signature"
)

const signingKeysPath = "/v1/signing-keys"

type keySet struct {
	Keys []map[string]string `json:"keys"`
}

type signingKeys struct {
	Data    []signingKey `json:"data"`
	JWKSURL string       `json:"jwksUrl"`
}

type signingKey struct {
	ID        string            `json:"id"`
	Algorithm string            `json:"algorithm"`
	PublicKey string            `json:"publicKey"`
	ExpiresAt *string           `json:"expiresAt"`
	JWK       map[string]string `json:"jwk"`
}

// keys reads an account's signing keys, checked: each form of a key is of the same bytes.
func (a answer) keys() signingKeys {
	a.t.Helper()
	var keys signingKeys
	a.want(http.StatusOK).into(&keys)
	for i, key := range keys.Data {
		if _, err := signature.ParseKey(key.PublicKey); err != nil {
			a.t.Errorf("public key %s: %v", key.PublicKey, err)
		}
		raw, _ := base64.StdEncoding.DecodeString(strings.TrimPrefix(key.PublicKey, "whpk_"))
		want := map[string]string{"kty": "OKP", "crv": "Ed25519", "alg": "EdDSA", "use": "sig", "kid": key.ID, "x": base64.RawURLEncoding.EncodeToString(raw)}
		if diff := cmp.Diff(want, key.JWK); diff != "" || key.Algorithm != "Ed25519" || (key.ExpiresAt == nil) != (i == 0) {
			a.t.Errorf("key %+v (-want +got):\n%s", key, diff)
		}
	}
	if strings.Contains(string(a.body), "whsk_") || strings.Contains(string(a.body), `"d"`) {
		a.t.Error("a private key is shown")
	}
	return keys
}

func TestSigningKeyLife(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		open := func(account string) keySet {
			t.Helper()
			a := r.do(http.MethodGet, "/.well-known/waybill/"+account+"/jwks.json", "", without("Authorization")).want(http.StatusOK)
			if a.header.Get("Cache-Control") != "public, max-age=300" || !strings.HasPrefix(a.header.Get("Content-Type"), "application/jwk-set+json") {
				t.Errorf("header %v", a.header)
			}
			var set keySet
			a.into(&set)
			return set
		}
		second := r.secondAccount("second")
		// An account without keys looks as one that there is not, and being asked makes none.
		for _, name := range []string{"second", "nobody", "%00", strings.Repeat("x", 500)} {
			if a := r.do(http.MethodGet, "/.well-known/waybill/"+name+"/jwks.json", "").want(http.StatusOK); string(a.body) != `{"keys":[]}` {
				t.Errorf("%.20s: %s", name, a.body)
			}
		}
		hook := r.register(`{"url":"http://127.0.0.1:9/","events":["shipment.created"],"signing":"both"}`)
		if hook.text("signing") != "both" {
			t.Errorf("registered: %s", hook.body)
		}
		r.do(http.MethodPatch, "/v1/webhooks/"+hook.text("id"), `{"signing":"v1a"}`).want(http.StatusOK).field("signing", "v1a")
		first := r.do(http.MethodGet, signingKeysPath, "").keys()
		if len(first.Data) != 1 || first.JWKSURL != r.url+"/.well-known/waybill/default/jwks.json" {
			t.Fatalf("%+v", first)
		}
		theirs := r.do(http.MethodGet, signingKeysPath, "", as(second)).keys()
		if len(theirs.Data) != 1 || theirs.Data[0].ID == first.Data[0].ID {
			t.Errorf("another account's keys: %+v", theirs)
		}
		if set := open("default"); len(set.Keys) != 1 || cmp.Diff(set.Keys[0], first.Data[0].JWK) != "" {
			t.Errorf("key set: %+v", set)
		}
		announced := make(chan struct{}, 8)
		stop, err := r.bus.Listen(bus.SubjectConfig, func([]byte) { announced <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
		defer stop()
		rotated := r.do(http.MethodPost, signingKeysPath+"/rotate", `{"overlapSeconds":3600}`).keys()
		if len(rotated.Data) != 2 || rotated.Data[1].ID != first.Data[0].ID {
			t.Fatalf("rotated: %+v", rotated)
		}
		if ends, err := time.Parse(time.RFC3339, *rotated.Data[1].ExpiresAt); err != nil || time.Until(ends) < 59*time.Minute || time.Until(ends) > time.Hour {
			t.Errorf("the old key ends at %s", *rotated.Data[1].ExpiresAt)
		}
		select {
		case <-announced:
		case <-time.After(10 * time.Second):
			t.Error("the dispatchers were not told")
		}
		if set := open("default"); len(set.Keys) != 2 || set.Keys[0]["kid"] != rotated.Data[0].ID {
			t.Errorf("key set in the overlap: %+v", set)
		}
		if again := r.do(http.MethodGet, signingKeysPath, "", as(second)).keys(); cmp.Diff(theirs, again) != "" {
			t.Error("a rotation changed another account's keys")
		}
		if gone := r.do(http.MethodPost, signingKeysPath+"/rotate", `{"overlapSeconds":0}`).keys(); len(gone.Data) != 1 {
			t.Errorf("without an overlap: %+v", gone)
		}
		log := r.do(http.MethodGet, "/v1/accounts/default/audit-logs?limit=100", "").want(http.StatusOK)
		if n := strings.Count(string(log.body), `"rotate-signing-keys"`); n != 2 {
			t.Errorf("%d rotations in the audit log: %s", n, log.body)
		}
		if strings.Contains(r.logs.String(), "whsk_") || strings.Contains(string(log.body), "whsk_") {
			t.Error("a private key is told")
		}
	})
}

func TestSigningKeysNeedTheirScopes(t *testing.T) {
	t.Parallel()
	r := newRig(t, sqliteURL(t))
	bucket := r.bucket("signers")
	for i, row := range []struct {
		scope        domain.Scope
		list, rotate int
	}{
		{domain.ScopeWebhooksRead, 200, 403}, {domain.ScopeWebhooksWrite, 403, 403}, {domain.ScopeEventsRead, 403, 403}, {domain.ScopeAdmin, 200, 200},
	} {
		_, key := r.holder(bucket, fmt.Sprintf("holder-%d", i), row.scope)
		r.do(http.MethodGet, signingKeysPath, "", as(key)).want(row.list)
		r.do(http.MethodPost, signingKeysPath+"/rotate", "", as(key)).want(row.rotate)
	}
}
