package api_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-json-experiment/json"

	api "waybill.dev/services/api"
	"waybill.dev/shared/domain"
)

// identityProvider is a small OpenID Connect provider: whoever comes is the person of now.
type identityProvider struct {
	*httptest.Server

	key *rsa.PrivateKey

	mu     sync.Mutex
	claims map[string]any // of the person, and what is to be wrong in the token
	codes  map[string]url.Values
}

const clientID, clientSecret = "waybill-console", "canary-client-secret"

func newIdentityProvider(t *testing.T) *identityProvider {
	t.Helper()
	key, err := rsa.GenerateKey(rand.Reader, 2048)
	if err != nil {
		t.Fatal(err)
	}
	p := &identityProvider{key: key, codes: map[string]url.Values{}}
	mux := http.NewServeMux()
	answer := func(w http.ResponseWriter, value any) {
		w.Header().Set("Content-Type", "application/json")
		body, err := json.Marshal(value)
		if err != nil {
			t.Error(err)
		}
		_, _ = w.Write(body)
	}
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{
			"issuer": p.URL, "authorization_endpoint": p.URL + "/authorize", "token_endpoint": p.URL + "/token", "jwks_uri": p.URL + "/keys",
			"response_types_supported": []string{"code"}, "id_token_signing_alg_values_supported": []string{"RS256"},
		})
	})
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		answer(w, map[string]any{"keys": []any{map[string]any{
			"kty": "RSA", "alg": "RS256", "use": "sig", "kid": "1",
			"n": base64.RawURLEncoding.EncodeToString(key.N.Bytes()), "e": base64.RawURLEncoding.EncodeToString(big.NewInt(int64(key.E)).Bytes()),
		}}})
	})
	mux.HandleFunc("GET /authorize", func(w http.ResponseWriter, r *http.Request) {
		query := r.URL.Query()
		if query.Get("client_id") != clientID || query.Get("response_type") != "code" || query.Get("code_challenge_method") != "S256" ||
			query.Get("nonce") == "" || query.Get("state") == "" {
			t.Errorf("asked with %v", query)
		}
		p.mu.Lock()
		code := "code-" + query.Get("state")[:8]
		p.codes[code] = query
		p.mu.Unlock()
		http.Redirect(w, r, query.Get("redirect_uri")+"?"+url.Values{"code": {code}, "state": {query.Get("state")}}.Encode(), http.StatusFound)
	})
	mux.HandleFunc("POST /token", func(w http.ResponseWriter, r *http.Request) {
		p.mu.Lock()
		defer p.mu.Unlock()
		query := p.codes[r.FormValue("code")]
		delete(p.codes, r.FormValue("code"))
		sum := sha256.Sum256([]byte(r.FormValue("code_verifier")))
		user, password, _ := r.BasicAuth()
		if query == nil || base64.RawURLEncoding.EncodeToString(sum[:]) != query.Get("code_challenge") || user != clientID || password != clientSecret {
			w.WriteHeader(http.StatusBadRequest)
			answer(w, map[string]any{"error": "invalid_grant"})
			return
		}
		claims := map[string]any{
			"iss": p.URL, "aud": clientID, "nonce": query.Get("nonce"), "iat": time.Now().Unix(), "exp": time.Now().Add(time.Minute).Unix(),
		}
		maps.Copy(claims, p.claims)
		answer(w, map[string]any{"access_token": "a", "token_type": "Bearer", "id_token": p.sign(t, claims)})
	})
	p.Server = httptest.NewServer(mux)
	t.Cleanup(p.Close)
	return p
}

func (p *identityProvider) sign(t *testing.T, claims map[string]any) string {
	t.Helper()
	part := func(value any) string {
		text, err := json.Marshal(value)
		if err != nil {
			t.Error(err)
		}
		return base64.RawURLEncoding.EncodeToString(text)
	}
	text := part(map[string]any{"alg": "RS256", "kid": "1"}) + "." + part(claims)
	sum := sha256.Sum256([]byte(text))
	signature, err := rsa.SignPKCS1v15(rand.Reader, p.key, crypto.SHA256, sum[:])
	if err != nil {
		t.Error(err)
	}
	return text + "." + base64.RawURLEncoding.EncodeToString(signature)
}

func (p *identityProvider) person(claims map[string]any) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.claims = claims
}

// code has the provider know a code, as of a sign-in that was begun with the verifier.
func (p *identityProvider) code(code, verifier string) {
	sum := sha256.Sum256([]byte(verifier))
	p.mu.Lock()
	defer p.mu.Unlock()
	p.codes[code] = url.Values{"code_challenge": {base64.RawURLEncoding.EncodeToString(sum[:])}}
}

// comesBack goes to the provider, and returns the path by which it comes back.
func (b *browser) comesBack() string {
	b.t.Helper()
	out := b.get("/console/oidc?next=/console/settings")
	if out.status != http.StatusSeeOther {
		b.t.Fatalf("it leads not to the provider: %d %s", out.status, out.body)
	}
	request, err := http.NewRequestWithContext(b.t.Context(), http.MethodGet, out.header.Get("Location"), http.NoBody)
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.http.Do(request)
	if err != nil {
		b.t.Fatal(err)
	}
	defer response.Body.Close()
	back, ok := strings.CutPrefix(response.Header.Get("Location"), b.r.url)
	if !ok {
		b.t.Fatalf("the provider leads to %s", response.Header.Get("Location"))
	}
	return back
}

func TestConsoleOIDC(t *testing.T) {
	t.Parallel()
	eachProvider := newIdentityProvider(t)
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.OIDC = api.OIDC{Issuer: eachProvider.URL, ClientID: clientID, ClientSecret: clientSecret}
	}
	r.start()
	bucket := r.bucket("managed-bucket")
	first, _ := r.holder(bucket, "first", domain.ScopeEventsRead)
	second, _ := r.holder(bucket, "second", domain.ScopeWebhooksRead)
	manager := r.do(http.MethodPost, first+"/managers", `{"email":"Ada@Example.com","sub":"idp|ada"}`).want(http.StatusCreated).text("id")
	r.do(http.MethodPost, second+"/managers", `{"email":"both@example.com","sub":"idp|both"}`).want(http.StatusCreated)
	r.do(http.MethodPost, first+"/managers", `{"email":"both@example.com","sub":"idp|both"}`).want(http.StatusCreated)
	const wrong = http.StatusUnauthorized

	for name, claims := range map[string]map[string]any{
		"by sub":             {"sub": "idp|ada"},
		"by verified e-mail": {"sub": "idp|other", "email": "ada@example.com", "email_verified": true},
		"issued to us":       {"sub": "idp|ada", "aud": []string{"another-client", clientID}, "azp": clientID},
	} {
		eachProvider.person(claims)
		b := r.browser()
		b.get(b.comesBack()).want(t, http.StatusSeeOther, "/console/settings")
		p := b.get("/console/settings").want(t, http.StatusOK, "").has(t, "managed-bucket/first", "none: as its manager")
		if strings.Count(p.body, `badge good">yes`) != 1 {
			t.Errorf("%s: the session has other scopes than the consumer", name)
		}
		if token := b.cookie(); len(token) != 64 {
			t.Errorf("%s: the cookie is %q", name, token)
		}
	}
	for name, claims := range map[string]map[string]any{
		"no manager":           {"sub": "idp|nobody", "email": "nobody@example.com", "email_verified": true},
		"e-mail not verified":  {"sub": "idp|other", "email": "ada@example.com", "email_verified": false},
		"e-mail without claim": {"sub": "idp|other", "email": "ada@example.com"},
		"another audience":     {"sub": "idp|ada", "aud": "another-client"},
		"another issuer":       {"sub": "idp|ada", "iss": "https://evil.example"},
		"another nonce":        {"sub": "idp|ada", "nonce": "x"},
		"ended":                {"sub": "idp|ada", "exp": time.Now().Add(-time.Hour).Unix()},
		"for several, to none": {"sub": "idp|ada", "aud": []string{clientID, "another-client"}},
		"issued to another":    {"sub": "idp|ada", "aud": []string{clientID, "another-client"}, "azp": "another-client"},
		"alone, to another":    {"sub": "idp|ada", "azp": "another-client"},
	} {
		eachProvider.person(claims)
		b := r.browser()
		if p := b.get(b.comesBack()); p.status != wrong || b.cookie() != "" {
			t.Errorf("%s: %d", name, p.status)
		}
	}

	eachProvider.person(map[string]any{"sub": "idp|ada"})
	b := r.browser()
	back := b.comesBack()
	r.browser().get(back).want(t, wrong, "") // another browser brings the answer along
	b.get(strings.Replace(back, "state=", "state=0", 1)).want(t, wrong, "")
	b.get(back).want(t, wrong, "") // it was used

	// A manager of several chooses, and only of those.
	eachProvider.person(map[string]any{"sub": "idp|both"})
	b = r.browser()
	b.get(b.comesBack()).want(t, http.StatusSeeOther, "/console/oidc/choice")
	b.get("/console").want(t, http.StatusSeeOther, signedOut)
	choice := b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "managed-bucket / first", "managed-bucket / second")
	b.post("/console/oidc/choice", "manager", manager).want(t, http.StatusNotFound, "")
	id := choice.body[strings.LastIndex(choice.body, `value="eusr_`)+len(`value="`):]
	id, _, _ = strings.Cut(id, `"`)
	b.post("/console/oidc/choice", "manager", id).want(t, http.StatusSeeOther, "/console")
	b.get("/console/settings").want(t, http.StatusOK, "").has(t, "managed-bucket/second")

	// Whoever is no manager any more is signed out.
	r.do(http.MethodDelete, second+"/managers/"+id, "").want(http.StatusNoContent)
	b.get("/console").want(t, http.StatusSeeOther, signedOut)
	if strings.Contains(r.logs.String(), clientSecret) {
		t.Error("the log tells the client's secret")
	}
}

// While the provider does not answer, it is asked once, and nobody waits for longer than they
// have time.
func TestConsoleOIDCWaits(t *testing.T) {
	t.Parallel()
	provider := newIdentityProvider(t)
	own, release := provider.Config.Handler, make(chan struct{})
	var asked atomic.Int32
	provider.Config.Handler = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/") {
			asked.Add(1)
			<-release
		}
		own.ServeHTTP(w, r)
	})
	r := prepareRig(t, sqliteURL(t))
	r.options = func(o *api.Options) {
		o.OIDC = api.OIDC{Issuer: provider.URL, ClientID: clientID, ClientSecret: clientSecret}
	}
	r.start()
	begin := func(time time.Duration) *httptest.ResponseRecorder {
		ctx, cancel := context.WithTimeout(t.Context(), time)
		defer cancel()
		answer := httptest.NewRecorder()
		r.service.Handler().ServeHTTP(answer, httptest.NewRequestWithContext(ctx, http.MethodGet, "/console/oidc", http.NoBody))
		return answer
	}
	const patient = 3
	answers := make(chan int, patient)
	for range patient {
		go func() { answers <- begin(time.Minute).Code }()
	}
	eventually(t, "the provider is asked", func() bool { return asked.Load() > 0 })
	started := time.Now()
	if a := begin(50 * time.Millisecond); a.Code != http.StatusServiceUnavailable || time.Since(started) > 5*time.Second {
		t.Errorf("who has 50 ms is answered %d after %s", a.Code, time.Since(started))
	}
	close(release)
	for range patient {
		if status := <-answers; status != http.StatusSeeOther {
			t.Errorf("who has waited is answered %d", status)
		}
	}
	if n := asked.Load(); n != 1 {
		t.Errorf("the provider was asked %d times", n)
	}
}
