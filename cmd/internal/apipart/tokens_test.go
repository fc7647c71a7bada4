package apipart_test

import (
	"io"
	"maps"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/api"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/jwt/jwttest"
)

// withIssuer starts a rig whose managers an issuer signs in, on each database.
func withIssuer(t *testing.T, test func(t *testing.T, r *rig, issuer *jwttest.Issuer)) {
	t.Helper()
	for name, url := range map[string]func(*testing.T) string{"sqlite": sqliteURL, "postgres": func(t *testing.T) string { t.Helper(); return shared.Postgres(t) }} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			issuer := jwttest.New(t)
			test(t, withOIDC(t, url(t), issuer), issuer)
		})
	}
}

// withOIDC starts a rig on a database whose managers an issuer signs in.
func withOIDC(t *testing.T, databaseURL string, issuer *jwttest.Issuer) *rig {
	t.Helper()
	r := prepareRig(t, databaseURL)
	r.api = func(o *api.Options) {
		o.OIDC = api.OIDC{Issuer: issuer.URL, ClientID: "waybill-console", ClientSecret: "canary-client-secret"}
	}
	r.start()
	return r
}

// invite makes a person a manager of a consumer of an account, who has not accepted.
func (r *rig) invite(key, account, consumer, person string) {
	r.t.Helper()
	r.do(http.MethodPost, "/v1/accounts/"+account+"/key-buckets/"+consumer+"/managers", person, as(key)).want(http.StatusCreated)
}

// accept has a person accept every invitation, in the console.
func (r *rig) accept(issuer *jwttest.Issuer, claims map[string]any) {
	r.t.Helper()
	issuer.Person(claims)
	for {
		jar, err := cookiejar.New(nil)
		if err != nil {
			r.t.Fatal(err)
		}
		browser := &http.Client{Jar: jar}
		page, err := browser.Get(r.url + "/console/oidc")
		if err != nil {
			r.t.Fatal(err)
		}
		text := r.text(page)
		for _, account := range regexp.MustCompile(`\?account=[a-z]+`).FindAllString(text, -1) {
			if page, err = browser.Get(r.url + "/console/oidc/choice" + account); err != nil {
				r.t.Fatal(err)
			}
			text += r.text(page)
		}
		form := regexp.MustCompile(`(?s)action="/console/oidc/choice/accept".*?value="(eusr_[0-9A-Za-z]+)"`).FindStringSubmatch(text)
		if form == nil {
			return
		}
		if page, err = browser.PostForm(r.url+"/console/oidc/choice/accept", url.Values{"manager": {form[1]}}); err != nil {
			r.t.Fatal(err)
		}
		_ = page.Body.Close()
	}
}

// text reads a page.
func (r *rig) text(page *http.Response) string {
	r.t.Helper()
	defer page.Body.Close()
	body, err := io.ReadAll(page.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	return string(body)
}

// asked is what the MCP server at a path answers to a token, and what it lists.
func (r *rig) asked(path, token string, tweaks ...tweak) (a answer, tools []string) {
	r.t.Helper()
	a = r.send(http.MethodPost, path, `{"jsonrpc":"2.0","id":1,"method":"tools/list"}`, append([]tweak{as(token), header("Accept", "application/json, text/event-stream")}, tweaks...)...)
	for _, name := range regexp.MustCompile(`"name":"([a-z_]+)"`).FindAllStringSubmatch(string(a.body), -1) {
		tools = append(tools, name[1])
	}
	return a, tools
}

// A person who has accepted to manage a consumer is let in at the MCP server by a token of the issuer, with what both
// the token and the consumer may do.
func TestTokens(t *testing.T) {
	t.Parallel()
	withIssuer(t, testTokens)
}

func testTokens(t *testing.T, r *rig, issuer *jwttest.Issuer) {
	resource := r.url + "/mcp"
	bucket := r.bucket("partners")
	r.holder(bucket, "reader", domain.ScopeMCP, domain.ScopeEventsRead, domain.ScopeWebhooksRead)
	r.invite(adminKey, "default", "partners/consumers/reader", `{"email":"ada@example.com","sub":"idp|ada"}`)
	scopes := map[string]any{"scope": "openid mcp:use events:read events:write admin"}
	with := func(others map[string]any) string {
		claims := map[string]any{}
		for _, of := range []map[string]any{scopes, others} {
			maps.Copy(claims, of)
		}
		return issuer.Token(resource, claims)
	}
	if a, _ := r.asked("/mcp", with(nil)); a.status != http.StatusForbidden || !strings.Contains(string(a.body), "accepting the invitation") {
		t.Errorf("before the invitation was accepted: %d %s", a.status, a.body)
	}
	r.accept(issuer, map[string]any{"sub": "idp|ada"})

	_, tools := r.asked("/mcp", with(map[string]any{"scope": "mcp:use events:read events:write"}))
	if !slices.Contains(tools, "search_deliveries") || slices.Contains(tools, "publish_event") || slices.Contains(tools, "list_webhooks") {
		t.Errorf("what the consumer and the token may do is %v", tools)
	}
	if _, tools := r.asked("/mcp", with(nil)); !slices.Contains(tools, "list_webhooks") || slices.Contains(tools, "register_webhook") || slices.Contains(tools, "create_key") {
		t.Errorf("with a token for everything, the consumer's own are %v", tools)
	}
	if got := r.works(with(nil), "who_am_i", nil); got["account"] != "default" || got["sub"] != "partners/reader" {
		t.Errorf("the token is %v", got)
	}
	if a, _ := r.asked("/mcp", with(map[string]any{"sub": "idp|other", "email": "ADA@example.com", "email_verified": true})); a.status != http.StatusOK {
		t.Errorf("by e-mail: %d %s", a.status, a.body)
	}
	now := time.Now().Unix()
	for name, row := range map[string]struct {
		token  string
		status int
	}{
		"without a scope of ours":    {with(map[string]any{"scope": "openid profile"}), http.StatusForbidden},
		"without mcp:use":            {with(map[string]any{"scope": "events:read"}), http.StatusForbidden},
		"nobody's":                   {with(map[string]any{"sub": "idp|nobody"}), http.StatusForbidden},
		"e-mail that is not proved":  {with(map[string]any{"sub": "x", "email": "ada@example.com", "email_verified": "true"}), http.StatusForbidden},
		"no subject":                 {with(map[string]any{"sub": nil}), http.StatusForbidden},
		"NUL":                        {with(map[string]any{"sub": "\x00"}), http.StatusForbidden},
		"ended":                      {with(map[string]any{"exp": now - 120}), http.StatusUnauthorized},
		"not yet":                    {with(map[string]any{"nbf": now + 120}), http.StatusUnauthorized},
		"for another server":         {with(map[string]any{"aud": "https://other.example.com/mcp"}), http.StatusUnauthorized},
		"for another path":           {with(map[string]any{"aud": r.url + "/other"}), http.StatusUnauthorized},
		"the console's ID token":     {with(map[string]any{"aud": "waybill-console"}), http.StatusUnauthorized},
		"of another issuer":          {jwttest.New(t).Token(resource, scopes), http.StatusUnauthorized},
		"of another issuer, by name": {jwttest.Sign(t, jwttest.Key(t, "RS256", "1"), issuer.Claims(resource, scopes), nil), http.StatusUnauthorized},
		"altered":                    {with(nil) + "A", http.StatusUnauthorized},
		"huge":                       {"eyJ" + strings.Repeat("A", 20<<10) + ".A.A", http.StatusUnauthorized},
	} {
		a, _ := r.asked("/mcp", row.token)
		if a.status != row.status {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
		want := `Bearer resource_metadata="` + r.url + `/.well-known/oauth-protected-resource/mcp", error="`
		if got := a.header.Get("WWW-Authenticate"); row.status == http.StatusUnauthorized && got != want+`invalid_token"` {
			t.Errorf("%s: %s", name, got)
		}
	}
	// What the client says of its host makes no token one for us.
	elsewhere := func(request *http.Request) { request.Host = "evil.example" }
	if a, _ := r.asked("/mcp", with(map[string]any{"aud": "http://evil.example/mcp"}), elsewhere); a.status != http.StatusUnauthorized && a.status != http.StatusForbidden {
		t.Errorf("for the host that it names: %d", a.status)
	}
	// A token is for the MCP server, and opens nothing else.
	r.send(http.MethodGet, "/v1/who-am-i", "", as(with(nil))).want(http.StatusUnauthorized)
	// Keys go on as they are.
	if _, tools := r.asked("/mcp?tools=all", adminKey); !slices.Contains(tools, "create_key") {
		t.Errorf("the admin key is shown %v", tools)
	}

	// A manager who is removed gets no further, and is told of nothing more.
	follower := r.follow(with(nil), latestDeliveries)
	follower.begun()
	manager := r.do(http.MethodGet, bucket+"/consumers/reader/managers", "").want(http.StatusOK).items("data")[0]["id"].(string)
	r.do(http.MethodDelete, bucket+"/consumers/reader/managers/"+manager, "").want(http.StatusNoContent)
	if a, _ := r.asked("/mcp", with(nil)); a.status != http.StatusForbidden {
		t.Errorf("after the manager was removed: %d", a.status)
	}
	follower.ends("its manager was removed")
	for _, part := range strings.Split(with(nil), ".")[1:] {
		if strings.Contains(r.logs.String(), part) {
			t.Error("the log has a token")
		}
	}
}

// Who manages consumers of several accounts says which one is meant, and reaches no other.
func TestTokensOfSeveralAccounts(t *testing.T) {
	t.Parallel()
	withIssuer(t, testTokensOfSeveralAccounts)
}

func testTokensOfSeveralAccounts(t *testing.T, r *rig, issuer *jwttest.Issuer) {
	globex := r.secondAccount("globex")
	initech := r.secondAccount("initech")
	for _, of := range []struct{ key, account, consumer string }{{adminKey, "default", "one"}, {adminKey, "default", "two"}, {globex, "globex", "three"}, {initech, "initech", "four"}} {
		if of.consumer != "two" {
			r.do(http.MethodPost, "/v1/accounts/"+of.account+"/key-buckets", `{"name":"agents"}`, as(of.key)).want(http.StatusCreated)
		}
		r.do(http.MethodPost, "/v1/accounts/"+of.account+"/key-buckets/agents/consumers", `{"name":"`+of.consumer+`","scopes":["mcp:use"]}`, as(of.key)).want(http.StatusCreated)
		if of.consumer != "four" {
			r.invite(of.key, of.account, "agents/consumers/"+of.consumer, `{"email":"ada@example.com","sub":"idp|ada"}`)
		}
	}
	r.accept(issuer, map[string]any{"sub": "idp|ada"})
	r.invite(initech, "initech", "agents/consumers/four", `{"email":"ada@example.com","sub":"idp|ada"}`) // not accepted
	token := issuer.Token(r.url+"/mcp", map[string]any{"scope": "mcp:use"})
	who := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"who_am_i","arguments":{}}}`
	for query, want := range map[string]string{
		"":                                     "",
		"?account=globex":                      `agents/three`,
		"?account=default":                     "",
		"?consumer=agents/two":                 `agents/two`,
		"?account=default&consumer=agents/one": `agents/one`,
		"?account=globex&consumer=agents/one":  "",
		"?account=initech":                     "",
		"?consumer=agents/four":                "",
		"?account=%00":                         "",
	} {
		a := r.send(http.MethodPost, "/mcp"+query, who, as(token), header("Accept", "application/json, text/event-stream"))
		if (a.status == http.StatusOK) != (want != "") || !strings.Contains(string(a.body), want) || want == "" && a.status != http.StatusForbidden {
			t.Errorf("%q: %d %s", query, a.status, a.body)
		}
		if query == "" && !strings.Contains(string(a.body), "account=default&consumer=agents/one, account=default&consumer=agents/two, account=globex&consumer=agents/three.") {
			t.Errorf("the person is told %s", a.body)
		}
	}
	r.send(http.MethodPost, "/mcp?consumer=agents", who, as(token)).want(http.StatusBadRequest)
}

// Each MCP server says who issues tokens for it, where there is an issuer; the open one says that it takes none.
func TestProtectedResource(t *testing.T) {
	t.Parallel()
	issuer := jwttest.New(t)
	r := prepareRig(t, sqliteURL(t))
	r.api = func(o *api.Options) {
		o.OIDC, o.PublicURL = api.OIDC{Issuer: issuer.URL, ClientID: "c"}, "https://waybill.example.com/w"
	}
	r.start()
	const at = "/.well-known/oauth-protected-resource"
	a := r.send(http.MethodGet, at+"/mcp", "", without("Authorization")).want(http.StatusOK)
	want := `{"resource":"https://waybill.example.com/w/mcp","authorization_servers":["` + issuer.URL + `"],"scopes_supported":["webhooks:read","webhooks:write","events:read","events:write",` +
		`"buckets:read","buckets:write","mcp:use","gateway:read","gateway:write","metering:read","metering:write"],"bearer_methods_supported":["header"]}`
	if string(a.body) != want || a.header.Get("Content-Type") != "application/json" || a.header.Get("Access-Control-Allow-Origin") != "*" {
		t.Errorf("%s %v", a.body, a.header)
	}
	if a := r.send(http.MethodGet, at+"/mcp/docs", "", without("Authorization")).want(http.StatusOK); string(a.body) != `{"resource":"https://waybill.example.com/w/mcp/docs"}` {
		t.Errorf("the open server: %s", a.body)
	}
	r.send(http.MethodOptions, at+"/mcp", "", header("Origin", "https://x.example"), header("Access-Control-Request-Method", "GET")).want(http.StatusNoContent)
	r.send(http.MethodPost, at+"/mcp", "").want(http.StatusMethodNotAllowed)
	for _, path := range []string{"", "/", "/v1/webhooks", "/nothing", "/mcp/nothing"} {
		r.send(http.MethodGet, at+path, "").want(http.StatusNotFound)
	}
	refused := r.send(http.MethodPost, "/mcp", "{}", without("Authorization")).want(http.StatusUnauthorized)
	if got := refused.header.Get("WWW-Authenticate"); got != `Bearer resource_metadata="https://waybill.example.com/w`+at+`/mcp"` {
		t.Error(got)
	}
	// The public URL alone says which tokens are for it, whatever address they come to.
	for audience, status := range map[string]int{"https://waybill.example.com/w/mcp": http.StatusForbidden, "https://waybill.example.com/w": http.StatusForbidden, r.url + "/mcp": http.StatusUnauthorized} {
		if a, _ := r.asked("/mcp", issuer.Token(audience, nil)); a.status != status {
			t.Errorf("%s: %d", audience, a.status)
		}
	}
	// Without its keys nobody can tell whose tokens are good.
	down := prepareRig(t, sqliteURL(t))
	down.api = func(o *api.Options) { o.OIDC = api.OIDC{Issuer: "http://127.0.0.1:1", ClientID: "c"} }
	down.start()
	if a, _ := down.asked("/mcp", issuer.Token(down.url+"/mcp", nil)); a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("the issuer is away: %d %s", a.status, a.body)
	}

	plain := newRig(t, sqliteURL(t))
	plain.send(http.MethodGet, at+"/mcp", "").want(http.StatusNotFound)
	if got := plain.send(http.MethodPost, "/mcp", "{}", without("Authorization")).want(http.StatusUnauthorized).header.Get("WWW-Authenticate"); got != "Bearer" {
		t.Errorf("without an issuer: %s", got)
	}
}
