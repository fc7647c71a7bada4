package api_test

import (
	"context"
	"crypto"
	"crypto/rand"
	"crypto/rsa"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"html"
	"maps"
	"math/big"
	"net/http"
	"net/http/httptest"
	"net/url"
	"regexp"
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

// acceptAs has a person accept an invitation, and returns the browser with the session that it opens.
func (r *rig) acceptAs(provider *identityProvider, manager string, claims map[string]any) *browser {
	r.t.Helper()
	provider.person(claims)
	b := r.browser()
	b.get(b.comesBack()).want(r.t, http.StatusSeeOther, "/console/oidc/choice")
	b.post("/console/oidc/choice/accept", "manager", manager).want(r.t, http.StatusSeeOther, "/console")
	return b
}

// withProvider starts a rig at which a provider signs people in, on each database.
func withProvider(t *testing.T, test func(t *testing.T, r *rig, provider *identityProvider)) {
	t.Helper()
	for name, url := range map[string]func(t *testing.T) string{"sqlite": sqliteURL, "postgres": func(t *testing.T) string { t.Helper(); return shared.Postgres(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			provider := newIdentityProvider(t)
			r := prepareRig(t, url(t))
			r.options = func(o *api.Options) {
				o.OIDC = api.OIDC{Issuer: provider.URL, ClientID: clientID, ClientSecret: clientSecret}
			}
			r.start()
			test(t, r, provider)
		})
	}
}

func TestConsoleOIDC(t *testing.T) {
	t.Parallel()
	withProvider(t, testConsoleOIDC)
}

func testConsoleOIDC(t *testing.T, r *rig, provider *identityProvider) {
	bucket := r.bucket("managed-bucket")
	first, _ := r.holder(bucket, "first", domain.ScopeEventsRead)
	second, _ := r.holder(bucket, "second", domain.ScopeWebhooksRead)
	invite := func(at, body string) string {
		return r.do(http.MethodPost, at+"/managers", body).want(http.StatusCreated).field("acceptedOn", nil).text("id")
	}
	both := map[string]any{"sub": "idp|both"}
	manager, ofBoth := invite(first, `{"email":"Ada@Example.com","sub":"idp|ada"}`), invite(first, `{"email":"both@example.com","sub":"idp|both"}`)
	r.acceptAs(provider, manager, map[string]any{"sub": "idp|ada"}).get("/console/settings").want(t, http.StatusOK, "").has(t, "managed-bucket/first")
	r.acceptAs(provider, ofBoth, both)
	r.acceptAs(provider, invite(second, `{"email":"both@example.com","sub":"idp|both"}`), both)
	const wrong = http.StatusUnauthorized

	for name, claims := range map[string]map[string]any{
		"by sub":             {"sub": "idp|ada"},
		"by verified e-mail": {"sub": "idp|other", "email": "ada@example.com", "email_verified": true},
		"issued to us":       {"sub": "idp|ada", "aud": []string{"another-client", clientID}, "azp": clientID},
	} {
		provider.person(claims)
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
		provider.person(claims)
		b := r.browser()
		if p := b.get(b.comesBack()); p.status != wrong || b.cookie() != "" {
			t.Errorf("%s: %d", name, p.status)
		}
	}

	provider.person(map[string]any{"sub": "idp|ada"})
	b := r.browser()
	back := b.comesBack()
	r.browser().get(back).want(t, wrong, "") // another browser brings the answer along
	b.get(strings.Replace(back, "state=", "state=0", 1)).want(t, wrong, "")
	b.get(back).want(t, wrong, "") // it was used

	// A manager of several chooses, and only of those. The session that the browser had ends.
	provider.person(both)
	b = r.browser().signIn(adminKey)
	former := b.cookie()
	b.get(b.comesBack()).want(t, http.StatusSeeOther, "/console/oidc/choice")
	choice := b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "managed-bucket / first", "managed-bucket / second")
	b.post("/console/oidc/choice", "manager", manager).want(t, http.StatusNotFound, "")
	id := choice.body[strings.LastIndex(choice.body, `value="eusr_`)+len(`value="`):]
	id, _, _ = strings.Cut(id, `"`)
	b.post("/console/oidc/choice", "manager", id).want(t, http.StatusSeeOther, "/console")
	b.get("/console/settings").want(t, http.StatusOK, "").has(t, "managed-bucket/second")
	r.browser().do(http.MethodGet, "/console", nil, withCookie("waybill", former)).want(t, http.StatusSeeOther, signedOut)
	b.post("/console/oidc/choice", "manager", id).want(t, wrong, "") // it was used

	// Whoever is no manager any more is signed out.
	r.do(http.MethodDelete, second+"/managers/"+id, "").want(http.StatusNoContent)
	b.get("/console").want(t, http.StatusSeeOther, signedOut)
	if strings.Contains(r.logs.String(), clientSecret) {
		t.Error("the log tells the client's secret")
	}
}

// Who names somebody as a manager takes nothing from them, and does not sign them in, before they accept.
func TestConsoleInvitations(t *testing.T) {
	t.Parallel()
	withProvider(t, testConsoleInvitations)
}

func testConsoleInvitations(t *testing.T, r *rig, provider *identityProvider) {
	ada := map[string]any{"sub": "idp|ada", "email": "ada@example.com", "email_verified": true}
	globex := r.secondAccount("globex")
	post := func(key, account, path, body string) answer {
		return r.send(http.MethodPost, "/v1/accounts/"+account+"/key-buckets"+path, body, as(key)).want(http.StatusCreated)
	}
	post(adminKey, "default", "", `{"name":"hostile"}`)
	post(adminKey, "default", "/hostile/consumers", `{"name":"c-0","scopes":["mcp:use"],"managers":["ada@example.com"]}`)

	// Who is invited, and manages nothing, is asked.
	provider.person(ada)
	b := r.browser()
	b.get(b.comesBack()).want(t, http.StatusSeeOther, "/console/oidc/choice")
	b.get("/console").want(t, http.StatusSeeOther, signedOut)
	asked := b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "default", "hostile / c-0", "Invited with the admin key", "Accept", "Decline")
	invitation := regexp.MustCompile(`eusr_[0-9A-Za-z]{24}`).FindString(asked.body)
	b.post("/console/oidc/choice", "manager", invitation).want(t, http.StatusNotFound, "")
	b.do(http.MethodPost, "/console/oidc/choice/accept", url.Values{"manager": {invitation}}, func(request *http.Request) {
		request.Header.Set("Sec-Fetch-Site", "cross-site")
	}).want(t, http.StatusForbidden, "")

	// However many consumers another account has for her, her own account is there.
	post(globex, "globex", "", `{"name":"globex-bucket"}`)
	own := post(globex, "globex", "/globex-bucket/consumers", `{"name":"own","scopes":["mcp:use"],"managers":["ADA@example.com"]}`).text("name")
	for i := 1; i < 105; i++ {
		post(adminKey, "default", "/hostile/consumers", fmt.Sprintf(`{"name":"c-%d","managers":["ada@example.com"]}`, i))
	}
	list := b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "default · 105 invitations", "globex · 1 invitation")
	if strings.Contains(list.body, "hostile") {
		t.Error("the consumers of an account stand among the accounts")
	}
	ours := b.get("/console/oidc/choice?account=globex").want(t, http.StatusOK, "").has(t, "globex-bucket / own")
	b.post("/console/oidc/choice/accept", "manager", regexp.MustCompile(`eusr_[0-9A-Za-z]{24}`).FindString(ours.body)).want(t, http.StatusSeeOther, "/console")
	b.get("/console/settings").want(t, http.StatusOK, "").has(t, "globex-bucket/own")
	seen := r.send(http.MethodGet, "/v1/accounts/globex/key-buckets/globex-bucket/consumers/"+own+"/managers", "", as(globex)).want(http.StatusOK).items("data")[0]
	if accepted, _ := seen["acceptedOn"].(string); accepted < "2026" {
		t.Errorf("the manager is %v", seen)
	}
	for key, want := range map[string]float64{globex: 1, adminKey: 0} {
		account := map[string]string{globex: "globex", adminKey: "default"}[key]
		r.send(http.MethodGet, "/v1/accounts/"+account+"/audit-logs?action=accept-invitation", "", as(key)).want(http.StatusOK).
			field("pagination", map[string]any{"limit": 20.0, "offset": 0.0, "total": want, "hasMore": false})
	}

	// What is new goes on being asked about; what was accepted is one press away.
	b = r.browser()
	b.get(b.comesBack()).want(t, http.StatusSeeOther, "/console/oidc/choice")
	b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "globex · globex-bucket / own", "default · 105 invitations")

	// The rest is found by pages, and by a search.
	counted := map[string]bool{}
	for path := "/console/oidc/choice?account=default"; path != ""; {
		p := b.get(path).want(t, http.StatusOK, "")
		for _, name := range regexp.MustCompile(`hostile / c-\d+`).FindAllString(p.body, -1) {
			counted[name] = true
		}
		path = ""
		if next := regexp.MustCompile(`href="([^"]+)"[^>]*>Next page`).FindStringSubmatch(p.body); next != nil {
			path = html.UnescapeString(next[1])
		}
	}
	if len(counted) != 105 {
		t.Errorf("the pages have %d consumers", len(counted))
	}
	b.get("/console/oidc/choice?account=default&q=c-77").want(t, http.StatusOK, "").has(t, "hostile / c-77")
	b.get("/console/oidc/choice?q=nothing").want(t, http.StatusOK, "").has(t, "Nothing that you manage", "Show all")

	// Who declines is no manager, and is not asked again.
	b.post("/console/oidc/choice/decline", "manager", invitation).want(t, http.StatusSeeOther, "/console/oidc/choice")
	b.get("/console/oidc/choice").want(t, http.StatusOK, "").has(t, "default · 104 invitations")
	b.post("/console/oidc/choice/accept", "manager", invitation).want(t, http.StatusNotFound, "")
	r.do(http.MethodGet, "/v1/accounts/default/key-buckets/hostile/consumers/c-0/managers", "").want(http.StatusOK).field("total", 0.0)
	// Others answer for nobody but themselves.
	other := post(adminKey, "default", "/hostile/consumers/c-1/managers", `{"email":"grace@example.com","sub":"idp|grace"}`).text("id")
	for _, act := range []string{"", "/accept", "/decline"} {
		b.post("/console/oidc/choice"+act, "manager", other).want(t, http.StatusNotFound, "")
		b.post("/console/oidc/choice"+act, "manager", "\x00").want(t, http.StatusNotFound, "")
		r.browser().post("/console/oidc/choice"+act, "manager", other).want(t, http.StatusUnauthorized, "")
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
