package policy_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/services/gateway/internal/policy"
	"waybill.dev/services/gateway/internal/ratelimit"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/problem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// exports are those of the runtime by the type of the policy.
func export(kind string) string {
	var b strings.Builder
	for word := range strings.SplitSeq(kind, "-") {
		b.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	return strings.NewReplacer("MtlsAuth", "MTLSAuth", "JwtAuth", "JWTAuth").Replace(b.String()) + "Policy"
}

func definition(kind, options string) routefile.PolicyDef {
	return routefile.PolicyDef{Name: "it", Type: kind, Module: routefile.Runtime, Export: export(kind), Options: []byte(options)}
}

// keys knows a few keys by what they may do.
type keys struct{ err error }

func (k keys) Authenticate(_ context.Context, key string) (apikey.Principal, error) {
	if k.err != nil {
		return apikey.Principal{}, k.err
	}
	switch key {
	case "mcp", "other":
		return apikey.Principal{Account: "default", ID: key, Scopes: []domain.Scope{domain.ScopeMCP}}, nil
	case "reads":
		return apikey.Principal{Account: "default", ID: key, Scopes: []domain.Scope{domain.ScopeEventsRead}}, nil
	case "both":
		return apikey.Principal{Account: "default", ID: key, Scopes: []domain.Scope{domain.ScopeMCP, domain.ScopeEventsRead}}, nil
	case "admin":
		return apikey.Principal{Account: "default", ID: key, Scopes: []domain.Scope{domain.ScopeAdmin}}, nil
	}
	return apikey.Principal{}, apikey.ErrUnauthenticated
}

func operation() *routefile.Operation { return &routefile.Operation{ID: "op", File: &routefile.File{}} }

// made makes a policy of a definition, with the gateway's own registry.
func made(t *testing.T, def routefile.PolicyDef) (*policy.Made, []string) {
	t.Helper()
	return registry(t).Make(&def, policy.Env{Account: "default", Egress: &egress.Policy{}})
}

func inbound(t *testing.T, kind, options string, op *routefile.Operation) route.Inbound {
	t.Helper()
	it, faults := made(t, definition(kind, options))
	if len(faults) > 0 {
		t.Fatalf("%s %s: %v", kind, options, faults)
	}
	in, faults := it.Inbound(op)
	if len(faults) > 0 || in == nil || it.Outbound() != nil {
		t.Fatalf("%s %s: %v, inbound %v, outbound %v", kind, options, faults, in, it.Outbound())
	}
	return in
}

func outbound(t *testing.T, kind, options string) route.Outbound {
	t.Helper()
	it, faults := made(t, definition(kind, options))
	if len(faults) > 0 {
		t.Fatalf("%s %s: %v", kind, options, faults)
	}
	if in, _ := it.Inbound(operation()); in != nil || it.Outbound() == nil {
		t.Fatalf("%s %s: inbound %v, outbound %v", kind, options, in, it.Outbound())
	}
	return it.Outbound()
}

// runtime is one of its own: with those keys, and counts that have counted nothing.
func runtime(k keys) *route.Runtime {
	return &route.Runtime{Authenticator: k, RateLimits: ratelimit.NewPool(0, nil).Of(""), Logger: slog.New(slog.DiscardHandler)}
}

// request has a header of pairs.
func request(header ...string) *route.Request {
	r := &route.Request{Method: "GET", Path: "/x", Query: route.Query{}, Header: http.Header{}, Remote: "192.0.2.1", ID: "r1", Runtime: runtime(keys{})}
	for i := 0; i < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	return r
}

// status is what a caller gets who meets the policy; 200: it passes.
func status(t *testing.T, in route.Inbound, r *route.Request) int {
	t.Helper()
	response, err := in.In(t.Context(), r)
	if response != nil {
		t.Fatalf("it answers: %v", response)
	}
	if err == nil {
		return http.StatusOK
	}
	p, ok := errors.AsType[*problem.Problem](err)
	if !ok {
		t.Fatalf("an error that is no problem: %v", err)
	}
	return p.Status()
}

// Every option that is missing, of another type, out of its range or unknown is named, and
// nothing of what it says is repeated.
func TestFaults(t *testing.T) {
	t.Parallel()
	for _, row := range []struct{ kind, options, want string }{
		{"api-key-inbound", `{"scope":["mcp:use"]}`, "handler/options/scope is not a known member"},
		{"api-key-inbound", `{"scopes":["hunter2"]}`, `handler/options/scopes/0 must be one of "webhooks:read", "webhooks:write", "events:read", "events:write", "buckets:read", "buckets:write", "mcp:use", "gateway:read", "gateway:write", "metering:read", "metering:write", "admin"`},
		{"api-key-inbound", `{"scopes":"mcp:use"}`, "handler/options/scopes must be of type array"},
		{"api-key-inbound", `{"allowUnauthenticatedRequests":"hunter2"}`, "handler/options/allowUnauthenticatedRequests must be of type boolean"},
		{"mtls-auth-inbound", `{}`, "handler/options/certIssuerDN must be there unless allowUnauthenticatedRequests is true"},
		{"mtls-auth-inbound", `{"allowUnauthenticatedRequests":false,"forward":true}`, "handler/options/certIssuerDN must be there unless allowUnauthenticatedRequests is true"},
		{"mtls-auth-inbound", `{"certIssuerDN":"CN=x","forward":"hunter2"}`, "handler/options/forward must be of type boolean"},
		{"jwt-auth-inbound", `{}`, "handler/options/audience is required; handler/options/issuer is required"},
		{"jwt-auth-inbound", `{"issuer":"hunter2","audience":"a","jwksUrl":"ftp://hunter2"}`, "handler/options/issuer must be an absolute http or https URL; handler/options/jwksUrl must be an http or https URL"},
		{"jwt-auth-inbound", `{"issuer":"https://id.example.com?hunter2","audience":[]}`, "handler/options/audience must have 1 element or more"},
		{"jwt-auth-inbound", `{"issuer":"https://id.example.com?hunter2","audience":"a"}`, "handler/options/issuer must not have a query"},
		{"jwt-auth-inbound", `{"issuer":"https://169.254.169.254","audience":"a"}`, "handler/options/issuer has an address that is not allowed"},
		{"jwt-auth-inbound", `{"issuer":"https://id.example.com","audience":"a","algorithms":["HS256"],"clockSkewSeconds":301}`, `handler/options/algorithms/0 must be one of "RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512", "EdDSA"; handler/options/clockSkewSeconds must be 300 or less`},
		{"jwt-auth-inbound", `{"issuer":"https://id.example.com","audience":"a","claimsToHeaders":{"sub":"X-Waybill-Account","a":"Host"}}`, "handler/options/claimsToHeaders/a belongs to the connection; handler/options/claimsToHeaders/sub is the gateway's own: it says who calls"},
		{"set-headers-inbound", `{"headers":[{"name":"client_cert","value":"hunter2"}]}`, "handler/options/headers/0/name is the gateway's own: it says who calls"},
		{"set-headers-inbound", `{"headers":[{"name":"Client-Cert-Subject","value":"hunter2"}]}`, "handler/options/headers/0/name is the gateway's own: it says who calls"},
		{"api-key-inbound", `{"allowUnauthenticatedRequests":true,"scopes":["admin"]}`, "handler/options/scopes can't be required when callers need no key"},
		{"api-key-inbound", `{"accounts":"Hunter2"}`, "handler/options/accounts must be * or the name of an account"},
		{"api-key-inbound", `{"accounts":["a","*","hunter 2"]}`, "handler/options/accounts/2 must be * or the name of an account"},
		{"api-key-inbound", `{"accounts":[],"bucketName":""}`, "handler/options/accounts must have 1 element or more; handler/options/bucketName must have 1 character or more"},
		{"set-headers-inbound", `{"headers":[{"name":"x_waybill-account","value":"hunter2"}]}`, "handler/options/headers/0/name is the gateway's own: it says who calls"},
		{"rate-limit-inbound", `{}`, "handler/options/rateLimitBy is required; handler/options/requestsAllowed is required; handler/options/timeWindowMinutes is required"},
		{"rate-limit-inbound", `{"rateLimitBy":"hunter2","requestsAllowed":0,"timeWindowMinutes":0}`, `handler/options/rateLimitBy must be one of "ip", "user", "all"; handler/options/requestsAllowed must be 1 or more; handler/options/timeWindowMinutes must be 0.00166 or more`},
		{"rate-limit-inbound", `{"rateLimitBy":"ip","requestsAllowed":1.5,"timeWindowMinutes":1,"headerMode":"hunter2"}`, `handler/options/headerMode must be one of "retry-after", "none"; handler/options/requestsAllowed must be of type integer`},
		{"ip-restriction-inbound", `{}`, "handler/options must have allow, deny or both"},
		{"ip-restriction-inbound", `{"allow":[],"deny":["hunter2","10.0.0.0/33","fe80::1%eth0"]}`, "handler/options/allow must have 1 element or more; handler/options/deny/0 must be an address, or a network such as 10.0.0.0/8; handler/options/deny/1 must be an address, or a network such as 10.0.0.0/8; handler/options/deny/2 must be an address, or a network such as 10.0.0.0/8"},
		{"set-headers-inbound", `{}`, "handler/options/headers is required"},
		{"set-headers-inbound", `{"headers":[{"name":"a b","value":"hunter2"},{"name":"Connection","value":"x"},{"name":"A","value":"hunter2\r\nB: c"},{"name":"A"},{"value":"b","over":1},"x"]}`,
			"handler/options/headers/0/name is not a valid header name; handler/options/headers/1/name belongs to the connection; handler/options/headers/2/value is not a valid header value; handler/options/headers/3/value is required; handler/options/headers/4/name is required; handler/options/headers/4/over is not a known member; handler/options/headers/5 must be of type object"},
		{"set-headers-outbound", `{"headers":[{"name":"Content-Length","value":"1"}]}`, "handler/options/headers/0/name belongs to the connection"},
		{"remove-headers-inbound", `{"headers":["","a b",1]}`, "handler/options/headers/0 is not a valid header name; handler/options/headers/1 is not a valid header name; handler/options/headers/2 must be of type string"},
		{"remove-headers-outbound", `{"headers":[]}`, "handler/options/headers must have 1 element or more"},
		{"set-query-params-inbound", `{"params":[{"name":"","value":1}]}`, "handler/options/params/0/name must have 1 character or more; handler/options/params/0/value must be of type string"},
		{"remove-query-params-inbound", `{"headers":["a"]}`, "handler/options/headers is not a known member; handler/options/params is required"},
		{"set-status-outbound", `{"status":199}`, "handler/options/status must be 200 or more"},
		{"request-size-limit-inbound", `{"maxSizeInBytes":-1}`, "handler/options/maxSizeInBytes must be 0 or more"},
		{"request-validation-inbound", `{"validateBody":"hunter2","validateHeader":"none"}`, `handler/options/validateBody must be one of "reject-and-log", "log-only", "none"; handler/options/validateHeader is not a known member`},
		{"set-status-outbound", `[]`, "handler/options must be of type object"},
		{"set-status-outbound", `{"status":200,"status":201}`, "handler/options/status is given twice"},
	} {
		it, faults := made(t, definition(row.kind, row.options))
		if diff := cmp.Diff(row.want, strings.Join(faults, "; ")); diff != "" || it != nil {
			t.Errorf("%s %s (-want +got):\n%s", row.kind, row.options, diff)
		}
	}
	bad := definition("rate-limit-outbound", `{}`)
	if _, faults := made(t, bad); len(faults) != 1 || !strings.HasPrefix(faults[0], "policyType is not one of the gateway's: api-key-inbound, ") {
		t.Errorf("a type that is none: %v", faults)
	}
	bad = definition("api-key-inbound", `{}`)
	bad.Module, bad.Export = "mine", "ApiKey"
	want := []string{"handler/module must be $import(@gateway/runtime)", "handler/export must be ApiKeyInboundPolicy for the policyType api-key-inbound"}
	if _, faults := made(t, bad); !cmp.Equal(faults, want) {
		t.Errorf("another module: %v", faults)
	}
}

func TestAPIKey(t *testing.T) {
	t.Parallel()
	asks := inbound(t, "api-key-inbound", `{"scopes":["mcp:use","events:read"]}`, operation())
	anyKey := inbound(t, "api-key-inbound", ``, operation())
	optional := inbound(t, "api-key-inbound", `{"allowUnauthenticatedRequests":true}`, operation())
	for _, row := range []struct {
		in     route.Inbound
		header []string
		want   int
		id     string
	}{
		{asks, []string{"Authorization", "Bearer both"}, 200, "both"},
		{asks, []string{"X-API-Key", "both"}, 200, "both"},
		{asks, []string{"X-API-Key", "admin"}, 200, "admin"},
		{asks, []string{"X-API-Key", "mcp"}, 403, "mcp"},
		{asks, []string{"X-API-Key", "wrong"}, 401, ""},
		{asks, nil, 401, ""},
		{asks, []string{"Authorization", "Basic both"}, 401, ""},
		{asks, []string{"Authorization", "Bearer both", "X-API-Key", "mcp"}, 401, ""},
		{asks, []string{"X-API-Key", "both", "X-API-Key", "both"}, 401, ""},
		{anyKey, []string{"X-API-Key", "reads"}, 200, "reads"},
		{anyKey, nil, 401, ""},
		{optional, nil, 200, ""},
		{optional, []string{"X-API-Key", "reads"}, 200, "reads"},
		{optional, []string{"X-API-Key", "wrong"}, 401, ""},
		{optional, []string{"Authorization", "Bearer "}, 401, ""},
	} {
		r := request(row.header...)
		got := status(t, row.in, r)
		id := ""
		if r.Principal != nil {
			id = r.Principal.ID
		}
		if got != row.want || id != row.id {
			t.Errorf("%v: %d as %q, want %d as %q", row.header, got, id, row.want, row.id)
		}
	}
}

// A call from inside has its principal already: nobody asks for the key again, but what
// the route asks of it holds.
func TestAPIKeyOfCallsFromInside(t *testing.T) {
	t.Parallel()
	in := inbound(t, "api-key-inbound", `{"scopes":["events:read"]}`, operation())
	for scope, want := range map[domain.Scope]int{domain.ScopeEventsRead: 200, domain.ScopeMCP: 403, domain.ScopeAdmin: 200} {
		r := request("X-API-Key", "whatever")
		r.Runtime = runtime(keys{errors.New("must not be asked")})
		r.Inside, r.Principal = true, &apikey.Principal{Account: "default", Scopes: []domain.Scope{scope}}
		if got := status(t, in, r); got != want {
			t.Errorf("with %s: %d, want %d", scope, got, want)
		}
	}
	if got := status(t, inbound(t, "api-key-inbound", ``, operation()), func() *route.Request { r := request(); r.Inside = true; return r }()); got != 401 {
		t.Errorf("from inside, but nobody knows from whom: %d", got)
	}
}

func TestAPIKeyPermits(t *testing.T) {
	t.Parallel()
	asks, _ := inbound(t, "api-key-inbound", `{"scopes":["events:read"]}`, operation()).(route.Gate)
	optional, _ := inbound(t, "api-key-inbound", `{"allowUnauthenticatedRequests":true}`, operation()).(route.Gate)
	reads := &apikey.Principal{Account: "default", Scopes: []domain.Scope{domain.ScopeEventsRead}}
	mcp := &apikey.Principal{Account: "default", Scopes: []domain.Scope{domain.ScopeMCP}}
	foreign := &apikey.Principal{Account: "another", Scopes: []domain.Scope{domain.ScopeAdmin}}
	if asks.Permits(foreign) || optional.Permits(foreign) || !asks.Permits(reads) || asks.Permits(mcp) || asks.Permits(nil) || !optional.Permits(nil) || !optional.Permits(mcp) {
		t.Error("it permits something else than it lets pass")
	}
}

func TestAPIKeyWhenKeysCantBeLookedUp(t *testing.T) {
	t.Parallel()
	r := request("X-API-Key", "mcp")
	r.Runtime = runtime(keys{domain.ErrUnavailable})
	_, err := inbound(t, "api-key-inbound", ``, operation()).In(t.Context(), r)
	p, _ := errors.AsType[*problem.Problem](err)
	if p == nil || p.Status() != 503 || p.RetryAfter <= 0 {
		t.Errorf("got %v", err)
	}
}

func TestKeyDocumented(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		kind, options string
		want          bool
	}{
		{"api-key-inbound", `{}`, true},
		{"api-key-inbound", `{"disableAutomaticallyAddingKeyToOpenApi":true}`, false},
		{"api-key-inbound", `{"disableAutomaticallyAddingKeyToOpenApi":false}`, true},
		{"rate-limit-inbound", `{}`, false},
	} {
		def := definition(row.kind, row.options)
		if got := policy.KeyDocumented(&def); got != row.want {
			t.Errorf("%s %s: %v", row.kind, row.options, got)
		}
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for _, row := range []struct {
		options string
		passes  []string
		refused []string
	}{
		{
			`{"allow":["10.0.0.0/8","192.0.2.7","2001:db8::/32"]}`,
			[]string{"10.0.0.1", "::ffff:10.0.0.1", "192.0.2.7", "::ffff:192.0.2.7", "2001:db8::1"},
			[]string{"11.0.0.1", "192.0.2.8", "::ffff:11.0.0.1", "2001:db9::1", "::10.0.0.1", "", "unknown"},
		},
		{
			`{"allow":["::ffff:10.0.0.0/104","::ffff:192.0.2.7"]}`,
			[]string{"10.1.2.3", "::ffff:10.1.2.3", "192.0.2.7"},
			[]string{"11.0.0.1", "2001:db8::1"},
		},
		{
			`{"deny":["10.0.0.0/8","fe80::/10"]}`,
			[]string{"11.0.0.1", "2001:db8::1"},
			[]string{"10.0.0.1", "::ffff:10.0.0.1", "fe80::1%eth0", "", "10.0.0.1:80"},
		},
		{
			`{"allow":["10.0.0.0/8"],"deny":["10.1.0.0/16"]}`,
			[]string{"10.0.0.1", "10.2.0.1"},
			[]string{"10.1.0.1", "::ffff:10.1.0.1", "12.0.0.1"},
		},
	} {
		in := inbound(t, "ip-restriction-inbound", row.options, operation())
		for want, list := range map[int][]string{200: row.passes, 403: row.refused} {
			for _, remote := range list {
				r := request()
				r.Remote = remote
				if got := status(t, in, r); got != want {
					t.Errorf("%s, %q: %d, want %d", row.options, remote, got, want)
				}
			}
		}
	}
}

func TestHeadersOfRequests(t *testing.T) {
	t.Parallel()
	set := inbound(t, "set-headers-inbound", `{"headers":[
		{"name":"authorization","value":"Bearer of-the-back-end"},{"name":"X-Kept","value":"new","overwrite":false},
		{"name":"X-Absent","value":"new","overwrite":false}]}`, operation())
	remove := inbound(t, "remove-headers-inbound", `{"headers":["x-gone","X-Absent"]}`, operation())
	r := request("Authorization", "Bearer of-the-caller", "X-Kept", "old", "X-Gone", "1", "X-Gone", "2")
	if status(t, set, r) != 200 {
		t.Error("it refuses")
	}
	want := http.Header{"Authorization": {"Bearer of-the-back-end"}, "X-Kept": {"old"}, "X-Gone": {"1", "2"}, "X-Absent": {"new"}}
	outgoing := http.Header{"Authorization": {"Bearer of-the-back-end"}, "X-Absent": {"new"}}
	if diff := cmp.Diff(want, r.Header) + cmp.Diff(outgoing, r.Outgoing); diff != "" {
		t.Errorf("set (-want +got):\n%s", diff)
	}
	status(t, remove, r)
	delete(want, "X-Gone")
	delete(want, "X-Absent")
	delete(outgoing, "X-Absent")
	if diff := cmp.Diff(want, r.Header) + cmp.Diff(outgoing, r.Outgoing); diff != "" {
		t.Errorf("removed (-want +got):\n%s", diff)
	}
	if bare := new(route.Request); status(t, set, bare) != 200 || bare.Header.Get("X-Kept") != "new" || status(t, remove, new(route.Request)) != 200 {
		t.Error("a request without any header is not served")
	}
}

func TestAnswers(t *testing.T) {
	t.Parallel()
	response := &route.Response{Status: 200, Header: http.Header{"Server": {"x"}, "Cache-Control": {"old"}}}
	for _, out := range []route.Outbound{
		outbound(t, "set-headers-outbound", `{"headers":[{"name":"cache-control","value":"no-store"},{"name":"Server","value":"y","overwrite":false}]}`),
		outbound(t, "remove-headers-outbound", `{"headers":["server"]}`),
		outbound(t, "set-status-outbound", `{"status":203}`),
	} {
		var err error
		if response, err = out.Out(t.Context(), request(), response); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(http.Header{"Cache-Control": {"no-store"}}, response.Header); diff != "" || response.Status != 203 {
		t.Errorf("%d (-want +got):\n%s", response.Status, diff)
	}
}

// Policies touch the parameters that they name, in whatever spelling, and no byte of the others.
func TestQuery(t *testing.T) {
	t.Parallel()
	set := inbound(t, "set-query-params-inbound", `{"params":[{"name":"a","value":"9 ü&"},{"name":"b","value":"9","overwrite":false},{"name":"d","value":""}]}`, operation())
	remove := inbound(t, "remove-query-params-inbound", `{"params":["c","x y"]}`, operation())
	for _, row := range []struct{ name, query, set, removed string }{
		{"nothing", "", "a=9%20%C3%BC%26&b=9&d=", ""},
		{"an order of its own", "?z=1&a=2&p;q&e=%zz&f", "?z=1&a=9%20%C3%BC%26&p;q&e=%zz&f&b=9&d=", "?z=1&a=2&p;q&e=%zz&f"},
		{"several of a name", "?a=1&b=%20&A=+&%61=2&c=1&&d=x&", "?a=9%20%C3%BC%26&b=%20&A=+&c=1&&d=&", "?a=1&b=%20&A=+&%61=2&&d=x&"},
		{"other spellings", "?%63=1&x+y=2&x%20y&x=y&cc=1&c", "?%63=1&x+y=2&x%20y&x=y&cc=1&c&a=9%20%C3%BC%26&b=9&d=", "?x=y&cc=1"},
		{"a question mark", "?", "?a=9%20%C3%BC%26&b=9&d=", "?"},
		{"nothing but what is removed", "?c=%", "?c=%&a=9%20%C3%BC%26&b=9&d=", ""},
	} {
		u := &url.URL{RawQuery: strings.TrimPrefix(row.query, "?"), ForceQuery: row.query == "?"}
		r := request()
		r.Query = route.ParseQuery(u)
		status(t, set, r)
		if got, want := r.Query.Search(), "?"+strings.TrimPrefix(row.set, "?"); got != want {
			t.Errorf("%s: set to %s, not %s", row.name, got, want)
		}
		r.Query = route.ParseQuery(u)
		status(t, remove, r)
		if got := r.Query.Search(); got != row.removed {
			t.Errorf("%s: %s is left, not %s", row.name, got, row.removed)
		}
	}
	if bare := new(route.Request); status(t, set, bare) != 200 || bare.Query.Get("a") != "9 ü&" {
		t.Error("a request without a query is not served")
	}
	// A back end that takes a semicolon for & would still see the parameter.
	for _, query := range []string{"x=1;c=2", "x=1;%63", "c;x"} {
		r := request()
		r.Query = route.ParseQuery(&url.URL{RawQuery: query})
		if got := status(t, remove, r); query != "c;x" && got != 400 {
			t.Errorf("%s: %d", query, got)
		}
	}
}

func TestSizeLimit(t *testing.T) {
	t.Parallel()
	in := inbound(t, "request-size-limit-inbound", `{"maxSizeInBytes":3}`, operation())
	for body, want := range map[string]int{"": 200, "abc": 200, "abcd": 413} {
		r := request()
		r.Body = []byte(body)
		if got := status(t, in, r); got != want {
			t.Errorf("%q: %d, want %d", body, got, want)
		}
	}
}
