package gateway_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/jwt/jwttest"
	"waybill.dev/shared/store/deployments/deploymentstest"
)

// tokenRoutes ask for an access token: before a back end, with a limit of one request a user, and at an MCP server over
// a tool whose caller may set a header. The last server asks for none.
const tokenRoutes = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
	"/back":{"get":{"operationId":"back","x-gateway-route":{"policies":{"inbound":["token"]},"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"BACK"}}}}},
	"/limited":{"get":{"operationId":"limited","x-gateway-route":{"policies":{"inbound":["token","limit"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}},
	"/guarded":{"get":{"operationId":"guarded","x-gateway-route":{"policies":{"inbound":["guarded"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}},
	"/tool":{"get":{"operationId":"tool","parameters":[{"name":"X-User","in":"header","schema":{"type":"string"}}],
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"BACK"}}}}},
	"/openapi":{"get":{"operationId":"document","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"openApiSpecHandler","options":{"openApiFilePath":"a.oas.json"}}}}},
	"/mcp":{"post":{"operationId":"mcp","x-gateway-route":{"policies":{"inbound":["token"]},"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[{"file":"a.oas.json","id":"tool"}]}}}}},
	"/open":{"post":{"operationId":"open","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler","options":{"operations":[{"file":"a.oas.json","id":"tool"}]}}}}}}}`

const tokenPolicies = `{"policies":[
	{"policyType":"jwt-auth-inbound","name":"token","handler":{"module":"$import(@gateway/runtime)","export":"JWTAuthInboundPolicy","options":{"issuer":"ISSUER","audience":"AUDIENCE",
		"claimsToHeaders":{"sub":"X-User","roles":"X-Roles","name":"X-Name","org":"X-Org","absent":"X_Absent"}}}},
	{"policyType":"jwt-auth-inbound","name":"guarded","handler":{"module":"$import(@gateway/runtime)","export":"JWTAuthInboundPolicy","options":{"issuer":"ISSUER","jwksUrl":"http://127.0.0.1:OWN/keys","audience":"AUDIENCE"}}},
	{"policyType":"rate-limit-inbound","name":"limit","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy","options":{"rateLimitBy":"user","requestsAllowed":1,"timeWindowMinutes":60}}}]}`

// Deployments take the tokens of the issuers that they name, each those that are for it. Keys come from where the
// deployment may connect to.
func TestAccessTokens(t *testing.T) {
	t.Parallel()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(r.Header) }))
	t.Cleanup(back.Close)
	issuer, other, own := jwttest.New(t), jwttest.New(t), jwttest.New(t)
	r := newRig(t, func(o *gateway.Options) {
		o.Egress = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
		o.Own = func() []string { return []string{own.Listener.Addr().String()} }
	})
	writing, _ := r.db.Handles()
	if _, err := writing.ExecContext(t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ('acme', 'acme', $1)", r.db.Moment(r.db.Now())); err != nil {
		t.Fatal(err)
	}
	_, port, _ := strings.Cut(own.Listener.Addr().String(), ":")
	deploy := func(account, issuer, audience string) string {
		files := gatewaytest.Files{
			"a.oas.json":    strings.ReplaceAll(tokenRoutes, "BACK", back.URL+"/"),
			"policies.json": strings.NewReplacer("ISSUER", issuer, "AUDIENCE", audience, "OWN", port).Replace(tokenPolicies),
		}
		d := deploymentstest.Deployment{Account: account, Project: "shop", Branch: "main", Format: "zip", Archive: zipped(t, files)}
		d.Activate(t, r.db)
		return d.Name() + ".gateway.localhost"
	}
	shop, theirs := deploy("default", issuer.URL, "https://shop.example.com"), deploy("acme", other.URL, "https://acme.example.com")
	r.run()
	gatewaytest.Within(t, time.Minute, "the deployments are served", func() bool {
		return r.ask("GET", shop, "/back").Code == http.StatusUnauthorized && r.ask("GET", theirs, "/back").Code == http.StatusUnauthorized
	})
	if issuer.Read.Load() != 0 {
		t.Error("the issuer was asked without a token")
	}
	bearer := func(token string) []string { return []string{"Authorization", "Bearer " + token} }
	token := issuer.Token("https://shop.example.com", map[string]any{
		"roles": []string{"a,b", "50%"}, "name": "Zoë\r\nX-Evil: 1", "org": map[string]any{"id": 7},
	})

	var seen http.Header
	answer := r.ask("GET", shop, "/back", append(bearer(token), "X-User", "forged", "x_user", "forged", "X-Absent", "forged", "X-Roles", "forged")...)
	if err := json.Unmarshal(answer.Body.Bytes(), &seen); err != nil || answer.Code != http.StatusOK {
		t.Fatalf("%d %s", answer.Code, answer.Body)
	}
	for name, want := range map[string]string{"X-User": "idp|ada", "X-Roles": "a%2Cb,50%25", "X-Name": "Zo%C3%AB%0D%0AX-Evil: 1", "X-Org": `{"id":7}`, "X_user": "", "X-Absent": "", "X_absent": "", "X-Evil": "", "Authorization": ""} {
		if got := strings.Join(seen[name], "|"); got != want {
			t.Errorf("the back end sees %s: %q, want %q", name, got, want)
		}
	}

	for name, row := range map[string]struct {
		host, token string
		status      int
	}{
		"another deployment's":  {theirs, token, 401},
		"another audience":      {shop, issuer.Token("https://acme.example.com", nil), 401},
		"another issuer":        {shop, other.Token("https://shop.example.com", nil), 401},
		"its own":               {theirs, other.Token("https://acme.example.com", nil), 200},
		"ended":                 {shop, issuer.Token("https://shop.example.com", map[string]any{"exp": 1}), 401},
		"a claim without bound": {shop, issuer.Token("https://shop.example.com", map[string]any{"name": strings.Repeat("x", 5000)}), 401},
		"no JWT":                {shop, "wbk_0123456789abcdefghijklmnopqrstuv_782bbe53", 401},
	} {
		got := r.ask("GET", row.host, "/back", bearer(row.token)...)
		if got.Code != row.status || row.status == 401 && got.Header().Get("WWW-Authenticate") != `Bearer error="invalid_token"` {
			t.Errorf("%s: %d %v", name, got.Code, got.Header())
		}
	}

	// Users are told apart by the token, from whatever address they come.
	for i, want := range []int{200, 429} {
		if got := r.ask("GET", shop, "/limited", bearer(issuer.Token("https://shop.example.com", nil))...).Code; got != want {
			t.Errorf("request %d of a user: %d", i, got)
		}
	}
	if got := r.ask("GET", shop, "/limited", bearer(issuer.Token("https://shop.example.com", map[string]any{"sub": "idp|eve"}))...).Code; got != 200 {
		t.Errorf("another user: %d", got)
	}

	// Waybill's own listeners are asked for no keys.
	if got := r.ask("GET", shop, "/guarded", bearer(token)...); got.Code != http.StatusServiceUnavailable || got.Header().Get("Retry-After") == "" || own.Read.Load() != 0 {
		t.Errorf("keys of our own listener: %d, asked %d times", got.Code, own.Read.Load())
	}

	// MCP servers say whose tokens they take, and their tools know the user whatever the arguments say.
	const at = "/.well-known/oauth-protected-resource"
	if got := r.ask("GET", shop, at+"/mcp"); got.Code != 200 || got.Body.String() != `{"resource":"http://`+shop+`/mcp","authorization_servers":["`+issuer.URL+`"],"bearer_methods_supported":["header"]}` {
		t.Errorf("%d %s", got.Code, got.Body)
	}
	for _, path := range []string{"/open", "/back", ""} {
		if got := r.ask("GET", shop, at+path); got.Code != http.StatusNotFound {
			t.Errorf("%s: %d", path, got.Code)
		}
	}
	if got := r.ask("POST", shop, "/mcp").Header().Get("WWW-Authenticate"); got != `Bearer resource_metadata="http://`+shop+at+`/mcp"` {
		t.Error(got)
	}
	call := httptest.NewRequest(http.MethodPost, "/mcp", strings.NewReader(`{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"tool","arguments":{"X-User":"forged"}}}`))
	call.Host = shop
	call.Header.Set("Authorization", "Bearer "+token)
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, call)
	if got := w.Body.String(); w.Code != 200 || !strings.Contains(got, "idp|ada") || strings.Contains(got, "forged") {
		t.Errorf("the tool's back end sees %s", got)
	}

	// The published document says where a token is needed.
	if got := r.ask("GET", shop, "/openapi").Body.String(); !strings.Contains(got, `"security":[{"waybillToken":[]}]`) || !strings.Contains(got, `"waybillToken":{"type":"http","scheme":"bearer","bearerFormat":"JWT"`) {
		t.Error(got)
	}
	if strings.Contains(r.logs.String(), strings.Split(token, ".")[1]) {
		t.Error("the log has a token")
	}
}
