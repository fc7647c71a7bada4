package tenant_test

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"go.uber.org/goleak"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/folder"
	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const canary = "hunter2-canary"

func build() *domain.Build {
	return &domain.Build{
		ID: "0190c0f0-0000-7000-8000-000000000001", Deployment: "shop-main-abcdefghij", Account: "acme", Project: "shop", Branch: "feature/1",
		EnvironmentType: domain.Preview,
	}
}

func variables() map[string]domain.Secret {
	return map[string]domain.Secret{"GREETING": "hello", "TOKEN": canary, "BASE": "https://orders.example.com", "BAD": canary + "\\ \n"}
}

// handled is an operation that a handler of the gateway's answers.
func handled(export, options string) string {
	return `{"operationId":"op","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"` + export + `","options":` + options + `}}}`
}

func routes(operation string) string {
	return `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/x":{"get":` + operation + `}}}`
}

func filesOf(files map[string]string) fs.FS {
	f := fstest.MapFS{}
	for name, body := range files {
		f[name] = &fstest.MapFile{Data: []byte(body)}
	}
	return f
}

func compile(files map[string]string, rules tenant.Rules) (*site.Site, site.Faults) {
	return rules.Compile(context.Background(), filesOf(files), build(), variables())
}

// policies is a policies.json with one policy, called p.
func policies(kind, export, options string) string {
	return `{"policies":[{"name":"p","policyType":"` + kind + `","handler":{"module":"$import(@gateway/runtime)","export":"` + export + `","options":` + options + `}}]}`
}

func keyed(options string) map[string]string {
	guarded := strings.Replace(handled("staticHandler", `{"body":"in"}`), `"handler"`, `"policies":{"inbound":["p"]},"handler"`, 1)
	return map[string]string{"a.oas.json": routes(guarded), "policies.json": policies("api-key-inbound", "ApiKeyInboundPolicy", options)}
}

// One thing is wrong with each; none of the messages tells a variable's value.
func TestWalls(t *testing.T) { //nolint:paralleltest // it sets a variable of the process
	forward := func(url string) map[string]string {
		return map[string]string{"a.oas.json": routes(handled("urlForwardHandler", `{"baseUrl":"`+url+`"}`))}
	}
	static := func(body string) map[string]string {
		return map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"`+body+`"}`))}
	}
	t.Setenv("PROCESS_ONLY", canary)
	for name, tc := range map[string]struct {
		files map[string]string
		want  string
	}{
		"the encryption key":             {static("$env(WAYBILL_ENCRYPTION_KEY)"), "Waybill's own"},
		"the encryption key, in case":    {static("$env(waybill_account)"), "Waybill's own"},
		"the encryption key, in a URL":   {forward("https://example.com/${env.WAYBILL_ENCRYPTION_KEY}"), "Waybill's own"},
		"a variable of the process":      {static("$env(PROCESS_ONLY)"), "has no PROCESS_ONLY"},
		"a variable inside text":         {static("Hello, $env(MISSING)!"), "has no MISSING"},
		"a variable in a URL":            {forward("https://${env.MISSING}.example.com"), "not set"},
		"loopback":                       {forward("https://127.0.0.1/"), "not allowed"},
		"loopback by name":               {forward("https://localhost/"), "not allowed"},
		"loopback in IPv6":               {forward("https://[::1]/"), "not allowed"},
		"loopback as a number":           {forward("https://2130706433/"), "IPv4"},
		"the machine's credentials":      {forward("https://169.254.169.254/latest"), "not allowed"},
		"a private network":              {forward("https://10.0.0.8/"), "not allowed"},
		"a name inside the network":      {forward("https://orders:8080"), "not allowed"},
		"plain HTTP":                     {forward("http://orders.example.com"), "https"},
		"loopback in a pattern":          {map[string]string{"a.oas.json": routes(handled("urlRewriteHandler", `{"rewritePattern":"https://127.0.0.1/${pathname}"}`))}, "not allowed"},
		"HTTP in a pattern":              {map[string]string{"a.oas.json": routes(handled("urlRewriteHandler", `{"rewritePattern":"http://example.com/${pathname}"}`))}, "https"},
		"a module":                       {map[string]string{"a.oas.json": routes(`{"operationId":"op","x-gateway-route":{"handler":{"module":"$import(./modules/waybill)","export":"listWebhooks"}}}`)}, "modules can't be uploaded"},
		"another account's keys":         {keyed(`{"accounts":["other"]}`), "keys of their own account"},
		"every account's keys":           {keyed(`{"accounts":"*"}`), "keys of their own account"},
		"no route file":                  {map[string]string{"policies.json": `{"policies":[]}`, "README.md": "x"}, "no route file"},
		"a secret that is no URL":        {forward("$env(TOKEN)"), "must be"},
		"a secret in a host":             {forward("https://$env(BAD).example.com"), "must"},
		"a secret that is a media type":  {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"","contentType":"$env(BAD)"}`))}, "media type"},
		"a secret that is a file":        {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"file":"$env(TOKEN)"}`))}, "file"},
		"a secret that is a location":    {map[string]string{"a.oas.json": routes(handled("redirectHandler", `{"location":"$env(BAD)"}`))}, "location"},
		"a secret that is a header":      {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"","headers":{"X-A":"$env(BAD)"}}`))}, "X-A"},
		"a secret that is a document":    {map[string]string{"a.oas.json": routes(handled("openApiSpecHandler", `{"openApiFilePath":"$env(TOKEN)"}`))}, "openApiFilePath"},
		"a secret that is a bucket":      {keyed(`{"bucketName":"` + strings.Repeat("$env(TOKEN)", 20) + `"}`), "bucketName"},
		"a secret that is a scope":       {keyed(`{"scopes":["$env(TOKEN)"]}`), "scope"},
		"a secret that is a rate":        {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":""}`)), "policies.json": policies("rate-limit-inbound", "RateLimitInboundPolicy", `{"rateLimitBy":"$env(TOKEN)","requestsAllowed":1,"timeWindowMinutes":1}`)}, "rateLimitBy"},
		"a secret that is a network":     {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":""}`)), "policies.json": policies("ip-restriction-inbound", "IpRestrictionInboundPolicy", `{"allowedIpAddresses":["$env(TOKEN)"]}`)}, "handler/options"},
		"a secret that is a policy's":    {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":""}`)), "policies.json": policies("set-headers-inbound", "SetHeadersInboundPolicy", `{"headers":[{"name":"$env(BAD)","value":"x"}]}`)}, "name"},
		"a cookie with a domain":         {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"","headers":{"Set-Cookie":"a=b; Domain=example.com"}}`))}, "headers/Set-Cookie must not give a cookie a Domain"},
		"a cookie of Waybill's":          {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"","headers":{"set-cookie":"waybill=x"}}`))}, "Waybill's own"},
		"a cookie in a variable":         {map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"","headers":{"Set-Cookie":"$env(TOKEN)"}}`))}, "must be a cookie with a name"},
		"a cookie that a policy sets":    {plants("Set-Cookie", "__Host-waybill=x; Secure; Path=/"), "handler/options/headers/0/value must not set a cookie"},
		"clearing the neighbours":        {plants("Clear-Site-Data", `\"cookies\"`), "must not clear cookies"},
		"a secret that is an MCP server": {map[string]string{"a.oas.json": routes(handled("mcpServerHandler", `{"operations":[{"file":"$env(TOKEN)","id":"op"}]}`))}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			_, faults := compile(tc.files, tenant.Rules{})
			if len(faults) == 0 || !strings.Contains(faults.Error(), tc.want) {
				t.Errorf("faults: %v, want %s", faults, tc.want)
			}
			if strings.Contains(faults.Error(), canary) {
				t.Errorf("a value is told: %v", faults)
			}
		})
	}
}

// What is no wall: public back ends, those that the installation allows, paths that Waybill
// itself has.
func TestAllowed(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		files map[string]string
		rules tenant.Rules
	}{
		"a public back end": {map[string]string{"a.oas.json": routes(handled("urlForwardHandler", `{"baseUrl":"$env(BASE)/v1"}`))}, tenant.Rules{}},
		"an allowed one": {map[string]string{"a.oas.json": routes(handled("urlForwardHandler", `{"baseUrl":"http://127.0.0.1:8080"}`))},
			tenant.Rules{Egress: &egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}}},
		"a path of Waybill's": {map[string]string{"a.oas.json": strings.ReplaceAll(routes(handled("staticHandler", `{"body":"x"}`)), `"/x"`, `"/v1/webhooks"`)}, tenant.Rules{}},
		"another bucket":      {keyed(`{"bucketName":"elsewhere"}`), tenant.Rules{}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, faults := compile(tc.files, tc.rules); len(faults) > 0 {
				t.Error(faults)
			}
		})
	}
}

// plants is a deployment with a policy that sets a header of its answers.
func plants(name, value string) map[string]string {
	return map[string]string{
		"a.oas.json":    routes(`{"operationId":"op","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"x"}},"policies":{"outbound":["p"]}}}`),
		"policies.json": policies("set-headers-outbound", "SetHeadersOutboundPolicy", `{"headers":[{"name":"`+name+`","value":"`+value+`"}]}`),
	}
}

// What a build of an earlier version has let pass is served, without what would reach beyond the
// deployment's host.
func TestAnswersReachNoOtherHost(t *testing.T) {
	t.Parallel()
	for name, files := range map[string]map[string]string{
		"a cookie with a domain": {"a.oas.json": routes(handled("staticHandler", `{"body":"x","headers":{"Set-Cookie":"a=b; Domain=example.com"}}`))},
		"a cookie of Waybill's":  plants("Set-Cookie", "waybill=x"),
		"clearing":               plants("Clear-Site-Data", `\"*\"`),
	} {
		s, faults := compile(files, tenant.Rules{Built: true})
		if len(faults) > 0 {
			t.Fatalf("%s: %v", name, faults)
		}
		w := call(s, nil, "")
		if w.Code != http.StatusOK || w.Header().Values("Set-Cookie") != nil || w.Header().Values("Clear-Site-Data") != nil {
			t.Errorf("%s: %d %v", name, w.Code, w.Header())
		}
	}
	s, faults := compile(plants("Set-Cookie", "session=1; Path=/; HttpOnly"), tenant.Rules{})
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	if got := call(s, nil, "").Header().Get("Set-Cookie"); got != "session=1; Path=/; HttpOnly" {
		t.Errorf("a deployment's own cookie is %q", got)
	}
}

// Route files see the variables of their branch, and the six that say of which deployment
// they are.
func TestVariables(t *testing.T) {
	t.Parallel()
	names := []string{"GREETING", "WAYBILL_ACCOUNT", "WAYBILL_PROJECT", "WAYBILL_BRANCH", "WAYBILL_ENVIRONMENT_TYPE", "WAYBILL_DEPLOYMENT", "WAYBILL_BUILD_ID"}
	body := "$env(" + strings.Join(names, ")|$env(") + ")|"
	values := variables()
	values["WAYBILL_ACCOUNT"] = "forged"
	s, faults := tenant.Rules{}.Compile(t.Context(), filesOf(map[string]string{"a.oas.json": routes(handled("staticHandler", `{"body":"`+body+`"}`))}), build(), values)
	if len(faults) > 0 {
		t.Fatal(faults)
	}
	w := call(s, nil, "")
	if want := "hello|acme|shop|feature/1|preview|shop-main-abcdefghij|0190c0f0-0000-7000-8000-000000000001|"; w.Body.String() != want {
		t.Errorf("%q, want %q", w.Body, want)
	}
}

func call(s *site.Site, keys gatewaytest.Keys, key string) *httptest.ResponseRecorder {
	w, r := httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/x", http.NoBody)
	r.Header.Set("X-Request-Id", "same-for-all")
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	s.Serve(&route.Runtime{Authenticator: keys, RateLimits: ratelimit.NewPool(0, nil).Of(""), Called: func(int, bool, int, time.Duration) {}}, w, r)
	return w
}

// A key opens routes that is of the bucket of the environment, or of the one that they name,
// and of their account in any case. The answer to all others is that to a wrong key.
func TestKeys(t *testing.T) {
	t.Parallel()
	const own, named, production, foreign, admin = "wb_own", "wb_named", "wb_production", "wb_foreign", "wb_admin"
	keys := gatewaytest.Keys{
		own: {Account: "acme", Bucket: "shop-preview"}, named: {Account: "acme", Bucket: "partners"}, production: {Account: "acme", Bucket: "shop-production"},
		foreign: {Account: "other", Bucket: "shop-preview"}, admin: {Account: "acme", Scopes: domain.Scopes()},
	}
	if got := tenant.Bucket("shop", domain.Development); got != "shop-working-copy" {
		t.Errorf("the bucket of a working copy is %s", got)
	}
	for options, opens := range map[string]string{`{}`: own, `{"bucketName":"partners"}`: named} {
		s, faults := compile(keyed(options), tenant.Rules{})
		if len(faults) > 0 {
			t.Fatal(faults)
		}
		unknown := call(s, keys, "wb_unknown")
		for key := range maps.Keys(keys) {
			w := call(s, keys, key)
			switch {
			case key == opens && w.Code != http.StatusOK:
				t.Errorf("%s with %s: %d %s", options, key, w.Code, w.Body)
			case key != opens && (w.Code != http.StatusUnauthorized || w.Body.String() != unknown.Body.String()):
				t.Errorf("%s with %s: %d %s, want as %s", options, key, w.Code, w.Body, unknown.Body)
			}
		}
	}
}

// Everything that is wrong is said at once, duplicates too.
func TestEveryFault(t *testing.T) {
	t.Parallel()
	op := handled("staticHandler", `{"body":"$env(MISSING)"}`)
	_, faults := compile(map[string]string{
		"a.oas.json": routes(op),
		"b.oas.json": routes(handled("urlForwardHandler", `{"baseUrl":"https://127.0.0.1"}`)),
		"c.oas.json": routes(`{"operationId":"m","x-gateway-route":{"policies":{"inbound":["nowhere"]},"handler":{"module":"$import(./modules/x)","export":"y"}}}`),
		"d.oas.json": `{"openapi":"3.1.0","openapi":"3.1.0"}`,
		"policies.json": `{"policies":[
			{"name":"p","policyType":"x","handler":{"module":"$import(@gateway/runtime)","export":"y"}},
			{"name":"p","policyType":"rate-limit-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy","options":{"rateLimitBy":"all"}}}]}`,
	}, tenant.Rules{})
	said := faults.Error()
	for _, want := range []string{
		"a.oas.json: op: /paths/~1x/get/x-gateway-route/handler/options/body: the environment has no MISSING", "b.oas.json: op: /paths/~1x/get/x-gateway-route: handler/options/baseUrl has an address",
		"GET /x is already answered by op of a.oas.json", "there is no policy nowhere", "modules can't be uploaded", "d.oas.json: /openapi", "another policy is called p", "policyType",
	} {
		if !strings.Contains(said, want) {
			t.Errorf("not said: %s\n%s", want, said)
		}
	}
}

// Route files that would take much memory to read are refused before.
func TestTooLarge(t *testing.T) {
	t.Parallel()
	files := map[string]string{}
	large := `{"openapi":"3.1.0","x":[` + strings.Repeat("0,", 150_000) + `0]}`
	for i := range 4 {
		files[fmt.Sprintf("%d.oas.json", i)] = large
	}
	_, faults := compile(files, tenant.Rules{})
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "too large") || faults[0].File != "2.oas.json" {
		t.Errorf("%v", faults)
	}
}

// An archive becomes a site, or says why not.
func TestMake(t *testing.T) {
	t.Parallel()
	if _, faults := (tenant.Rules{}).Make(t.Context(), folder.Zip, []byte("no archive"), build(), nil); len(faults) != 1 || !strings.Contains(faults[0].Message, "no zip archive") {
		t.Errorf("%v", faults)
	}
}

// One regular expression can take what a whole deployment may.
func TestBudget(t *testing.T) {
	t.Parallel()
	_, faults := compile(map[string]string{"a.oas.json": posts(`{"pattern":"(?:` + strings.Repeat("x", 3200) + `){1000}"}`)}, tenant.Rules{})
	if len(faults) != 1 || faults[0].Pointer == "" || !strings.Contains(faults[0].Message, "too large") {
		t.Errorf("%d faults: %.500s", len(faults), faults)
	}
}

// posts are routes whose body has a schema.
func posts(schema string) string {
	return strings.Replace(routes(`{"requestBody":{"content":{"application/json":{"schema":`+schema+`}}},`+handled("staticHandler", `{"body":""}`)[1:]), `"get"`, `"post"`, 1)
}

// The work ends when nobody waits for it any more.
func TestEnded(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, faults := tenant.Rules{}.Compile(ctx, filesOf(map[string]string{"a.oas.json": posts("true")}), build(), nil)
	if len(faults) != 1 || !strings.Contains(faults[0].Message, "has been ended") {
		t.Errorf("%d faults: %.500s", len(faults), faults)
	}
}
