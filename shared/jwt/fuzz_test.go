package jwt_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"

	"waybill.dev/shared/jsonscan/attack"
	"waybill.dev/shared/jwt"
	"waybill.dev/shared/jwt/jwttest"
)

// fixed is an issuer's key that every process of a fuzzing run has, and claims are those of a good token.
var (
	fixed  = jose.JSONWebKey{Key: ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)), KeyID: "1", Algorithm: "EdDSA", Use: "sig"}
	claims = []byte(`{"iss":"https://issuer.example","aud":"` + audience + `","sub":"idp|ada","exp":1099511627776}`)
	wanted = &jwt.Rules{Issuer: "https://issuer.example", Audience: []string{audience}}
)

// published is the document in which an issuer shows a key.
func published(f *testing.F, key jose.JSONWebKey) []byte {
	f.Helper()
	document, err := json.Marshal(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{key.Public()}})
	if err != nil {
		f.Fatal(err)
	}
	return document
}

// serving are keys that are read from a document.
func serving(document []byte) *jwt.Keys {
	return jwt.NewKeys(jwt.Source{Issuer: "https://issuer.example", JWKS: "https://issuer.example/keys", Do: func(*http.Request) (*http.Response, error) {
		return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(bytes.NewReader(document))}, nil
	}})
}

// signature bounds what verifying costs besides reading.
var signature = attack.Allowance{Times: 24, Bytes: 1 << 20}

// Whatever is sent as a token, nothing passes but what the issuer has signed, and anything else is refused with a
// reason.
func FuzzVerify(f *testing.F) {
	keys := serving(published(f, fixed))
	good := jwttest.Sign(f, fixed, claims, nil)
	payload := strings.Split(good, ".")[1]
	encode := base64.RawURLEncoding.EncodeToString
	f.Add(good)
	f.Add(good + ".a.b")
	f.Add(jwttest.Sign(f, jwttest.Key(f, "RS256", "1"), claims, nil))
	for _, header := range []string{`{"alg":"none"}`, `{"alg":"HS256","kid":"1"}`, `{"alg":"EdDSA","kid":"1","crit":["exp"]}`, `{"alg":"EdDSA","alg":"none"}`, `[`} {
		f.Add(encode([]byte(header)) + "." + payload + ".")
	}
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(encode(body.Text) + "." + payload + ".AA")
	}
	f.Fuzz(func(t *testing.T, token string) {
		attack.Hold(t, len(token), signature, func() {
			verified, err := wanted.Verify(t.Context(), token, keys)
			if _, refused := errors.AsType[jwt.RefusedError](err); err != nil && !refused {
				t.Fatalf("%q: %v", token, err)
			}
			if err == nil && (verified.Subject != "idp|ada" || !strings.Contains(token, payload[:len(payload)-1])) {
				t.Fatalf("%q passes", token)
			}
		})
	})
}

// Whatever an issuer answers with as its keys, a token passes by one that has signed it, and no document costs more than its size allows.
func FuzzKeys(f *testing.F) {
	tokens := []string{jwttest.Sign(f, fixed, claims, nil), jwttest.Sign(f, jwttest.Key(f, "RS256", "1"), claims, nil)}
	f.Add(published(f, fixed))
	for _, text := range []string{
		`{"keys":[{"kty":"RSA","kid":"1","n":"AQAB","e":"AQAB"}]}`, `{"keys":[{"kty":"oct","kid":"1","k":"AAAA"},{}, 1, null]}`,
		`{"keys":[{"kty":"RSA","kid":"1","e":"` + strings.Repeat("_", 400) + `","n":"` + strings.Repeat("_", 1366) + `"}]}`,
		`{"keys":[{"kty":"EC","crv":"P-256","kid":"1","x":"AA","y":"AA"}]}`, `{"keys":{}}`, `{"keys":[],"keys":[]}`,
	} {
		f.Add([]byte(text))
	}
	for _, body := range attack.Bodies(4 << 10) {
		f.Add(body.Text)
		f.Add([]byte(`{"keys":` + string(body.Text) + `}`))
	}
	f.Fuzz(func(t *testing.T, document []byte) {
		attack.Hold(t, len(document), signature, func() {
			keys := serving(document)
			for i, token := range tokens {
				_, err := wanted.Verify(t.Context(), token, keys)
				if _, refused := errors.AsType[jwt.RefusedError](err); err != nil && !refused && !errors.Is(err, jwt.ErrUnavailable) {
					t.Fatalf("%q: %v", document, err)
				}
				if err == nil && i > 0 {
					t.Fatalf("by %q, a token passes that its keys have not signed", document)
				}
			}
		})
	})
}
