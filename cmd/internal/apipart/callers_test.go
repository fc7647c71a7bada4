package apipart_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"waybill.dev/services/gateway"
	"waybill.dev/shared/domain"
)

// whoRoutes are routes to a back end: one without a policy, one for keys of its own account,
// and so on; and an MCP server for all keys over two of them, which take a header.
const whoRoutes = `{"openapi":"3.1.0","info":{"title":"Who","version":"1"},"paths":{
	"/open":{"get":{"operationId":"open","x-gateway-route":{"handler":BACK}}},
	"/own":{"get":{"operationId":"own","parameters":[PARAMETER],"x-gateway-route":{"handler":BACK,"policies":{"inbound":["own"]}}}},
	"/more":{"get":{"operationId":"more","x-gateway-route":{"handler":BACK,"policies":{"inbound":["more"]}}}},
	"/all":{"get":{"operationId":"all","parameters":[PARAMETER],"x-gateway-route":{"handler":BACK,"policies":{"inbound":["all"]}}}},
	"/all-then-own":{"get":{"operationId":"both","x-gateway-route":{"handler":BACK,"policies":{"inbound":["all","own"]}}}},
	"/bucket":{"get":{"operationId":"bucket","x-gateway-route":{"handler":BACK,"policies":{"inbound":["bucket"]}}}},
	"/optional":{"get":{"operationId":"optional","x-gateway-route":{"handler":BACK,"policies":{"inbound":["optional"]}}}},
	"/function":{"get":{"operationId":"function","x-gateway-route":{"handler":{"module":"$import(./modules/who)","export":"header"}}}},
	"/mcp":{"post":{"operationId":"mcp","x-gateway-route":{"policies":{"inbound":["all"]},"handler":{"module":"$import(@gateway/runtime)","export":"mcpServerHandler",
		"options":{"operations":[{"file":"who.oas.json","id":"own"},{"file":"who.oas.json","id":"all"}]}}}}}}}`

const whoPolicies = `{"policies":[POLICY("own",{}),POLICY("more",{"accounts":["second"]}),POLICY("all",{"accounts":"*"}),
	POLICY("bucket",{"accounts":["*"],"bucketName":"partners"}),POLICY("optional",{"allowUnauthenticatedRequests":true})]}`

// backEnd serves those routes and answers with the headers that say who calls, as the
// loosest of readers sees them.
func backEnd(t *testing.T, r *rig) {
	t.Helper()
	who := func(header http.Header) string {
		var b strings.Builder
		for _, name := range []string{"X-Waybill-Account", "X-Waybill-Bucket", "X-Waybill-Consumer"} {
			for given, values := range header {
				if http.CanonicalHeaderKey(strings.NewReplacer("_", "-", ".", "-").Replace(given)) == name {
					b.WriteString(strings.Join(values, ","))
				}
			}
			b.WriteByte('/')
		}
		return b.String()
	}
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/plain")
		_, _ = w.Write([]byte(who(r.Header)))
	}))
	t.Cleanup(back.Close)
	dir := t.TempDir()
	for name, text := range map[string]string{
		"who.oas.json": strings.NewReplacer("PARAMETER", `{"name":"X-Waybill-Account","in":"header","schema":{"type":"string"}}`,
			"BACK", `{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"`+back.URL+`"}}`).Replace(whoRoutes),
		"policies.json": strings.NewReplacer(`POLICY(`, `{"policyType":"api-key-inbound","name":`, `,{`,
			`,"handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{`, `})`, `}}}`).Replace(whoPolicies),
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r.routes = func(o *gateway.RoutesOptions) {
		o.Dir = dir
		o.Modules = map[string]map[string]gateway.Handler{"who": {"header": gateway.Function(func(_ context.Context, r *gateway.Request) (any, error) { return who(r.Header), nil })}}
	}
}

// A route takes keys of its own account, unless it says otherwise, and its back end is told
// who called by nobody but the gateway.
func TestCallersOfRoutes(t *testing.T) {
	t.Parallel()
	r := prepareRig(t, sqliteURL(t))
	backEnd(t, r)
	r.start()
	_, own := r.holder(r.bucket("partners"), "bakery", domain.ScopeEventsRead)
	_, elsewhere := r.holder(r.bucket("others"), "florist", domain.ScopeEventsRead)
	second := r.secondAccount("second")
	r.do(http.MethodPost, "/v1/accounts/second/key-buckets", `{"name":"partners"}`, as(second)).want(http.StatusCreated)
	theirs := r.do(http.MethodPost, "/v1/accounts/second/key-buckets/partners/consumers?with-api-key=true", `{"name":"spy"}`, as(second)).
		want(http.StatusCreated).items("apiKeys")[0]["key"].(string)
	third := r.secondAccount("third")
	const unknown = "wbk_0123456789ABCDEFGHIJKLMNOPQRSTUV_5c339a43"

	spoofed := func(request *http.Request) {
		for _, name := range []string{"X-Waybill-Account", "X-Waybill-Bucket", "x-waybill-consumer", "X_Waybill_Account", "X-Waybill_Bucket", "x.waybill-consumer", "X-WAYBILL-ACCOUNT"} {
			request.Header[name] = append(request.Header[name], "forged")
		}
	}
	for _, row := range []struct{ path, caller, key, want string }{
		{"/open", "nobody", "", "///"},
		{"/open", "a key that nobody asked for", own, "///"},
		{"/own", "its own account", own, "default/partners/bakery/"},
		{"/own", "the bootstrap key", adminKey, "default///"},
		{"/own", "another account", theirs, ""},
		{"/own", "nobody", "", ""},
		{"/more", "its own account", own, "default/partners/bakery/"},
		{"/more", "an account that is named", theirs, "second/partners/spy/"},
		{"/more", "an account that is not named", third, ""},
		{"/all", "another account", theirs, "second/partners/spy/"},
		{"/all", "an unknown key", unknown, ""},
		{"/all-then-own", "another account", theirs, ""},
		{"/all-then-own", "its own account", own, "default/partners/bakery/"},
		{"/bucket", "the bucket", own, "default/partners/bakery/"},
		{"/bucket", "another account's bucket of that name", theirs, "second/partners/spy/"},
		{"/bucket", "another bucket", elsewhere, ""},
		{"/bucket", "the bootstrap key", adminKey, ""},
		{"/optional", "nobody", "", "///"},
		{"/optional", "another account", theirs, ""},
		{"/function", "nobody", "", "///"},
	} {
		tweaks := []tweak{spoofed, without("Authorization")}
		if row.key != "" {
			tweaks[1] = as(row.key)
		}
		a := r.send(http.MethodGet, row.path, "", tweaks...)
		if row.want == "" {
			// Not a word tells it from a key that does not exist.
			refused := r.send(http.MethodGet, row.path, "", as(unknown)).want(http.StatusUnauthorized)
			if got, want := ownPlace.ReplaceAllString(string(a.body), ""), ownPlace.ReplaceAllString(string(refused.body), ""); a.status != http.StatusUnauthorized || got != want ||
				a.header.Get("Www-Authenticate") != refused.header.Get("Www-Authenticate") {
				t.Errorf("%s, %s: %d %s, want what an unknown key gets: %s", row.path, row.caller, a.status, a.body, refused.body)
			}
			continue
		}
		if a.status != http.StatusOK || string(a.body) != row.want {
			t.Errorf("%s, %s: %d, the back end sees %s, want %s", row.path, row.caller, a.status, a.body, row.want)
		}
	}

	forged := arguments{"X-Waybill-Account": "forged"}
	if got, failed := r.tool(own, "own", forged); failed || got != "default/partners/bakery/" {
		t.Errorf("a tool's back end sees %s", got)
	}
	if got, failed := r.tool(theirs, "all", forged); failed || got != "second/partners/spy/" {
		t.Errorf("a tool's back end sees %s of another account", got)
	}
	if got := r.listed(theirs, "tools/list", "tools", "name"); len(got) != 1 || got[0] != "all" {
		t.Errorf("another account is shown %v", got)
	}
	if out := r.mcp(theirs, "tools/call", map[string]any{"name": "own", "arguments": forged}); out.Error == nil || out.Error.Code != -32602 {
		t.Errorf("another account may call the tool: %+v", out)
	}
}
