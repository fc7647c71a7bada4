package jwt_test

import (
	"bytes"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"

	"waybill.dev/shared/jwt"
	"waybill.dev/shared/jwt/jwttest"
)

const audience = "https://api.example.com"

// client follows no redirect.
func client() func(*http.Request) (*http.Response, error) {
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	return c.Do
}

func keysOf(i *jwttest.Issuer) *jwt.Keys {
	return jwt.NewKeys(jwt.Source{Issuer: i.URL, Do: client()})
}

func rules(i *jwttest.Issuer) *jwt.Rules {
	return &jwt.Rules{Issuer: i.URL, Audience: []string{audience}, Skew: time.Minute}
}

// refused is what the log is told of a token; empty: the token is good.
func refused(t *testing.T, r *jwt.Rules, keys *jwt.Keys, token string) string {
	t.Helper()
	_, err := r.Verify(t.Context(), token, keys)
	if err == nil {
		return ""
	}
	if len(token) > 20 && strings.Contains(err.Error(), token[len(token)-20:]) {
		t.Errorf("the error has the token: %v", err)
	}
	if _, ok := errors.AsType[jwt.RefusedError](err); !ok {
		return "unavailable: " + err.Error()
	}
	return err.Error()
}

func TestClaims(t *testing.T) {
	t.Parallel()
	i := jwttest.New(t)
	keys, now := keysOf(i), time.Now().Unix()
	for name, row := range map[string]struct {
		claims map[string]any
		want   string
	}{
		"good":                   {nil, ""},
		"one of several":         {map[string]any{"aud": []string{"x", audience}}, ""},
		"another audience":       {map[string]any{"aud": "https://other.example.com"}, "aud does not name this audience"},
		"a longer audience":      {map[string]any{"aud": audience + "/"}, "aud does not name this audience"},
		"no audience":            {map[string]any{"aud": nil}, "aud does not name this audience"},
		"an empty list":          {map[string]any{"aud": []string{}}, "aud does not name this audience"},
		"audience of numbers":    {map[string]any{"aud": []any{1}}, "its claims can't be read"},
		"another issuer":         {map[string]any{"iss": "https://evil.example"}, "iss is another issuer"},
		"issuer with a slash":    {map[string]any{"iss": i.URL + "/"}, "iss is another issuer"},
		"no issuer":              {map[string]any{"iss": nil}, "iss is another issuer"},
		"a list of issuers":      {map[string]any{"iss": []string{i.URL}}, "iss is another issuer"},
		"ended":                  {map[string]any{"exp": now - 120}, "it has expired"},
		"ended a moment ago":     {map[string]any{"exp": now - 30}, ""},
		"ends with a fraction":   {map[string]any{"exp": float64(now) + 0.5}, ""},
		"no end":                 {map[string]any{"exp": nil}, "it has no exp"},
		"an end that is text":    {map[string]any{"exp": "9999999999"}, "its claims can't be read"},
		"an end long ago":        {map[string]any{"exp": -1e300}, "it has expired"},
		"begins soon":            {map[string]any{"nbf": now + 30}, ""},
		"begins later":           {map[string]any{"nbf": now + 120}, "it is not valid yet"},
		"a beginning that is no": {map[string]any{"nbf": false}, "its claims can't be read"},
	} {
		if got := refused(t, rules(i), keys, i.Token(audience, row.claims)); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
	strict := rules(i)
	strict.Skew = 0
	if got := refused(t, strict, keys, i.Token(audience, map[string]any{"exp": now - 1})); got != "it has expired" {
		t.Errorf("without skew: %q", got)
	}
	for _, payload := range []string{"", "{", "[]", "null", `{"iss":"` + i.URL + `","iss":"x"}`, "{\"iss\":\"\xff\"}", strings.Repeat("[", 12000)} {
		key := jwttest.Key(t, "RS256", "1")
		i.Rotate(key)
		if got := refused(t, rules(i), keysOf(i), jwttest.Sign(t, key, []byte(payload), nil)); got == "" || strings.HasPrefix(got, "unavailable") {
			t.Errorf("%.40q: %q", payload, got)
		}
	}
	verified, err := rules(i).Verify(t.Context(), i.Token(audience, map[string]any{"scope": "a b", "scp": []string{"c"}, "n": 1.50}), keysOf(i))
	if err != nil || verified.Subject != "idp|ada" || !slices.Equal(verified.Scopes, []string{"a", "b", "c"}) || string(verified.Claim("n")) != "1.5" || verified.Text("n") != "" {
		t.Errorf("it says %+v, %v", verified, err)
	}
}

// part is a part of a token.
func part(text string) string { return base64.RawURLEncoding.EncodeToString([]byte(text)) }

// What is signed in no way, with a public key as the secret, by a key that the token brings along, or in a way that
// the key or the route is not for, is refused.
func TestSignatures(t *testing.T) {
	t.Parallel()
	i := jwttest.New(t)
	all := []jose.JSONWebKey{jwttest.Key(t, "RS256", "1")}
	for _, algorithm := range []string{"PS256", "ES256", "ES384", "ES512", "EdDSA"} {
		all = append(all, jwttest.Key(t, algorithm, algorithm))
	}
	i.Rotate(all...)
	keys, claims := keysOf(i), i.Claims(audience, nil)
	for _, key := range all {
		if got := refused(t, rules(i), keys, jwttest.Sign(t, key, claims, nil)); got != "" {
			t.Errorf("%s: %q", key.Algorithm, got)
		}
	}
	only := rules(i)
	only.Algorithms = []string{"ES256"}
	good, own := jwttest.Sign(t, all[0], claims, nil), jwttest.Key(t, "RS256", "1")
	public := all[0].Key.(*rsa.PrivateKey).PublicKey
	der, err := x509.MarshalPKIXPublicKey(&public)
	if err != nil {
		t.Fatal(err)
	}
	shared := jose.JSONWebKey{Key: der, KeyID: "1", Algorithm: "HS256"}
	payload, err := json.Marshal(claims)
	if err != nil {
		t.Fatal(err)
	}
	parts := strings.Split(good, ".")
	otherAlgorithm := all[0]
	otherAlgorithm.Algorithm = "RS512" // that the key is not published for
	unsaid := jwttest.Key(t, "RS256", "")
	for name, row := range map[string]struct {
		rules *jwt.Rules
		token string
		want  string
	}{
		"none":                          {rules(i), part(`{"alg":"none","kid":"1"}`) + "." + part(string(payload)) + ".", "it is no JWT, or is signed in a way that is not allowed"},
		"None":                          {rules(i), part(`{"alg":"NoNe","kid":"1"}`) + "." + part(string(payload)) + ".", "it is no JWT, or is signed in a way that is not allowed"},
		"the public key as a secret":    {rules(i), jwttest.Sign(t, shared, claims, nil), "it is no JWT, or is signed in a way that is not allowed"},
		"not of the route":              {only, good, "it is no JWT, or is signed in a way that is not allowed"},
		"another one's key of that id":  {rules(i), jwttest.Sign(t, own, claims, nil), "its signature is not the issuer's"},
		"another algorithm of the key":  {rules(i), jwttest.Sign(t, otherAlgorithm, claims, nil), "the issuer has no such key"},
		"a key of its own":              {rules(i), jwttest.Sign(t, own, claims, map[jose.HeaderKey]any{"jwk": own.Public()}), "its signature is not the issuer's"},
		"jku":                           {rules(i), jwttest.Sign(t, own, claims, map[jose.HeaderKey]any{"jku": "http://127.0.0.1:1/keys", "x5u": "http://127.0.0.1:1/c"}), "its signature is not the issuer's"},
		"crit":                          {rules(i), jwttest.Sign(t, all[0], claims, map[jose.HeaderKey]any{"crit": []string{"exp"}, "exp": 1}), "its header has crit"},
		"a path as id":                  {rules(i), jwttest.Sign(t, withID(all[0], "../../etc/passwd"), claims, nil), "the issuer has no such key"},
		"SQL as id":                     {rules(i), jwttest.Sign(t, withID(all[0], "1' OR '1'='1"), claims, nil), "the issuer has no such key"},
		"no id, several keys":           {rules(i), jwttest.Sign(t, withID(all[0], ""), claims, nil), ""},
		"no id, no such key":            {rules(i), jwttest.Sign(t, unsaid, claims, nil), "its signature is not the issuer's"},
		"a log-out":                     {rules(i), jwttest.Sign(t, all[0], claims, map[jose.HeaderKey]any{"typ": "logout+jwt"}), "its typ is not at+jwt or JWT"},
		"typ that is no text":           {rules(i), jwttest.Sign(t, all[0], claims, map[jose.HeaderKey]any{"typ": 1}), "its typ is not at+jwt or JWT"},
		"application/at+jwt":            {rules(i), jwttest.Sign(t, all[0], claims, map[jose.HeaderKey]any{"typ": "application/AT+JWT"}), ""},
		"another payload":               {rules(i), parts[0] + "." + part(strings.Replace(string(payload), "ada", "eve", 1)) + "." + parts[2], "its signature is not the issuer's"},
		"no signature":                  {rules(i), parts[0] + "." + parts[1] + ".", "its signature is not the issuer's"},
		"too long":                      {rules(i), good + strings.Repeat("A", jwt.MaxToken), "it is longer than 16 KiB"},
		"two parts":                     {rules(i), parts[0] + "." + parts[1], "it is no JWT, or is signed in a way that is not allowed"},
		"encrypted":                     {rules(i), strings.Repeat(part(`{"alg":"RSA-OAEP"}`)+".", 4) + "A", "it is no JWT, or is signed in a way that is not allowed"},
		"nothing":                       {rules(i), "", "it is no JWT, or is signed in a way that is not allowed"},
		"an embedded key that is none":  {rules(i), part(`{"alg":"RS256","kid":"1","jwk":{"kty":"RSA"}}`) + "." + parts[1] + "." + parts[2], "it is no JWT, or is signed in a way that is not allowed"},
		"header with a name twice":      {rules(i), part(`{"alg":"RS256","alg":"none","kid":"1"}`) + "." + parts[1] + "." + parts[2], "it is no JWT, or is signed in a way that is not allowed"},
		"the JSON form":                 {rules(i), `{"protected":"` + parts[0] + `","payload":"` + parts[1] + `","signature":"` + parts[2] + `"}`, "it is no JWT, or is signed in a way that is not allowed"},
		"a signature of another length": {rules(i), good[:len(good)-4], "its signature is not the issuer's"},
	} {
		if got := refused(t, row.rules, keys, row.token); got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
	}
}

func withID(key jose.JSONWebKey, id string) jose.JSONWebKey {
	key.KeyID = id
	return key
}

// Keys that are weak, too long, private, for encryption or of another kind are not used.
func TestKeysThatAreNotUsed(t *testing.T) {
	t.Parallel()
	i := jwttest.New(t)
	weak, err := rsa.GenerateKey(rand.Reader, 1024)
	if err != nil {
		t.Fatal(err)
	}
	enc, private, other := jwttest.Key(t, "RS256", "enc"), jwttest.Key(t, "ES256", "private"), jwttest.Key(t, "EdDSA", "other")
	short := jose.JSONWebKey{Key: weak, KeyID: "weak", Algorithm: "RS256", Use: "sig"}
	enc.Use = "enc"
	publicOf := func(key jose.JSONWebKey) json.RawMessage {
		text, err := key.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	secret := jose.JSONWebKey{Key: []byte("a shared secret of 32 characters"), KeyID: "secret", Algorithm: "HS256"}
	set := map[string]any{"keys": []json.RawMessage{
		publicOf(short.Public()), publicOf(enc.Public()), publicOf(private), publicOf(secret), []byte(`{"kty":"new"}`), []byte(`1`), publicOf(other.Public()),
	}}
	i.Answer(func(w http.ResponseWriter, _ *http.Request) { _ = json.NewEncoder(w).Encode(set) })
	keys := keysOf(i)
	for _, key := range []jose.JSONWebKey{enc, private} {
		if got := refused(t, rules(i), keys, jwttest.Sign(t, key, i.Claims(audience, nil), nil)); got != "the issuer has no such key" {
			t.Errorf("%s: %q", key.KeyID, got)
		}
	}
	if got := refused(t, rules(i), keys, jwttest.Sign(t, withID(jwttest.Key(t, "RS256", ""), "weak"), i.Claims(audience, nil), nil)); got != "the issuer has no such key" {
		t.Errorf("a weak key: %q", got)
	}
}

// What an issuer answers that is no set of keys makes nobody wait for long, takes no more memory than it may, and leads
// nowhere else.
func TestIssuersThatMisbehave(t *testing.T) {
	t.Parallel()
	elsewhere := jwttest.New(t)
	for name, answer := range map[string]http.HandlerFunc{
		"an error": func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusInternalServerError) },
		"a redirect": func(w http.ResponseWriter, r *http.Request) {
			http.Redirect(w, r, elsewhere.URL+"/keys", http.StatusFound)
		},
		"too much": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write(bytes.Repeat([]byte(" "), 1<<20)) },
		"no JSON":  func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("<html>")) },
		"too many keys": func(w http.ResponseWriter, _ *http.Request) {
			_, _ = w.Write([]byte(`{"keys":[` + strings.Repeat("1,", 100) + `1]}`))
		},
		"keys are none": func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(`{"keys":{}}`)) },
		"half an answer": func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "9")
			_, _ = w.Write([]byte("{"))
		},
	} {
		i := jwttest.New(t)
		i.Answer(answer)
		if got := refused(t, rules(i), keysOf(i), i.Token(audience, nil)); !strings.HasPrefix(got, "unavailable: the issuer's keys can't be read") {
			t.Errorf("%s: %q", name, got)
		}
	}
	if elsewhere.Read.Load() != 0 {
		t.Error("a redirect was followed")
	}
	// A configuration must be the issuer's own, and not lead from TLS to plain HTTP.
	i := jwttest.New(t)
	for issuer, want := range map[string]string{
		i.URL + "/":           "it is another issuer's",
		"https://example.com": "its jwks_uri is no URL that may be used",
	} {
		document := `{"issuer":"` + issuer + `","jwks_uri":"` + i.URL + `/keys"}`
		if issuer == i.URL+"/" {
			document = `{"issuer":"` + i.URL + `","jwks_uri":"` + i.URL + `/keys"}`
		}
		keys := jwt.NewKeys(jwt.Source{Issuer: issuer, Do: func(*http.Request) (*http.Response, error) {
			return &http.Response{StatusCode: http.StatusOK, Body: readCloser{strings.NewReader(document)}}, nil
		}})
		r := rules(i)
		r.Issuer = issuer
		if got := refused(t, r, keys, i.Token(audience, nil)); !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", issuer, got, want)
		}
	}
}

type readCloser struct{ *strings.Reader }

func (readCloser) Close() error { return nil }
