// Package jwttest has an issuer of access tokens for tests: an OpenID provider with keys that change. It signs every
// user in as the present person.
package jwttest

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"maps"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
	"github.com/go-json-experiment/json"
)

// Issuer is an issuer that listens on a loopback address.
type Issuer struct {
	*httptest.Server

	// Discovered and Read count the requests for its configuration and for its keys.
	Discovered, Read atomic.Int64

	t       testing.TB
	mu      sync.Mutex
	keys    []jose.JSONWebKey
	answer  http.HandlerFunc // answers requests for the keys; nil: the issuer answers
	person  map[string]any
	granted map[string]grant // by code
	number  int
}

// New starts an issuer with one RSA key, "1". The issuer ends with the test.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, granted: make(map[string]grant)}
	mux := http.NewServeMux()
	for _, path := range []string{"/.well-known/openid-configuration", "/.well-known/oauth-authorization-server"} {
		mux.HandleFunc("GET "+path, i.configuration)
	}
	mux.HandleFunc("GET /keys", i.serveKeys)
	mux.HandleFunc("GET /authorize", i.authorize)
	mux.HandleFunc("POST /token", i.token)
	mux.HandleFunc("POST /register", i.register)
	i.Server = httptest.NewServer(mux)
	t.Cleanup(i.Close)
	i.Rotate(Key(t, "RS256", "1"))
	return i
}

// Key makes a key for an algorithm.
func Key(t testing.TB, algorithm, id string) jose.JSONWebKey {
	t.Helper()
	var private crypto.Signer
	var err error
	switch algorithm {
	case "ES256":
		private, err = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	case "ES384":
		private, err = ecdsa.GenerateKey(elliptic.P384(), rand.Reader)
	case "ES512":
		private, err = ecdsa.GenerateKey(elliptic.P521(), rand.Reader)
	case "EdDSA":
		_, private, err = ed25519.GenerateKey(rand.Reader)
	default:
		private, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	if err != nil {
		t.Fatal(err)
	}
	return jose.JSONWebKey{Key: private, KeyID: id, Algorithm: algorithm, Use: "sig"}
}

// Rotate replaces the issuer's keys. It signs with the first one.
func (i *Issuer) Rotate(keys ...jose.JSONWebKey) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = keys
}

// Answer replaces the answer to requests for keys; nil: the issuer's own answer.
func (i *Issuer) Answer(answer http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.answer = answer
}

// Claims returns the claims of a good token for an audience. others replace some of them; nil removes a claim.
func (i *Issuer) Claims(audience string, others map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{"iss": i.URL, "aud": audience, "sub": "idp|ada", "iat": now.Unix(), "exp": now.Add(time.Hour).Unix()}
	maps.Copy(claims, others)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Token signs the claims of a good token for an audience, with others as in Claims.
func (i *Issuer) Token(audience string, others map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	key := i.keys[0]
	i.mu.Unlock()
	return Sign(i.t, key, i.Claims(audience, others), nil)
}

// Sign signs claims with a key. header has additional fields for the header.
func Sign(t testing.TB, key jose.JSONWebKey, claims any, header map[jose.HeaderKey]any) string {
	t.Helper()
	options := (&jose.SignerOptions{}).WithType("at+jwt")
	for name, value := range header {
		options = options.WithHeader(name, value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: jose.SignatureAlgorithm(key.Algorithm), Key: key}, options)
	if err != nil {
		t.Fatal(err)
	}
	payload, ok := claims.([]byte)
	if !ok {
		if payload, err = json.Marshal(claims); err != nil {
			t.Fatal(err)
		}
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		t.Fatal(err)
	}
	text, err := signed.CompactSerialize()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func (i *Issuer) serveKeys(w http.ResponseWriter, r *http.Request) {
	i.Read.Add(1)
	i.mu.Lock()
	answer, set := i.answer, jose.JSONWebKeySet{}
	for _, key := range i.keys {
		set.Keys = append(set.Keys, key.Public())
	}
	i.mu.Unlock()
	if answer != nil {
		answer(w, r)
		return
	}
	i.say(w, http.StatusOK, set)
}

func (i *Issuer) say(w http.ResponseWriter, status int, value any) {
	body, err := json.Marshal(value)
	if err != nil {
		i.t.Error(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(body)
}
