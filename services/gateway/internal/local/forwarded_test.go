package local_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/shared/edge"
)

// Policies and back ends go by what a trusted proxy says of the client, and by nothing that
// anybody else says.
func TestForwardedClients(t *testing.T) {
	t.Parallel()
	backEnd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_ = json.NewEncoder(w).Encode(m{
			"for": r.Header.Values("X-Forwarded-For"), "proto": r.Header.Values("X-Forwarded-Proto"), "host": r.Header.Values("X-Forwarded-Host"),
			"others": []string{r.Header.Get("Forwarded"), r.Header.Get("X-Forwarded-Port"), r.Header.Get("X-Real-Ip")},
		})
	}))
	t.Cleanup(backEnd.Close)
	dir := t.TempDir()
	with := func(o operation, policy string) operation {
		return o.with("policies", m{"inbound": []string{policy}, "outbound": []string{}})
	}
	(&rig{t: t, dir: dir}).write(files{
		"policies.json": policies(nil,
			[4]any{"some", "ip-restriction-inbound", "IpRestrictionInboundPolicy", m{"allow": []string{"203.0.113.0/24"}}},
			[4]any{"rarely", "rate-limit-inbound", "RateLimitInboundPolicy", m{"rateLimitBy": "ip", "requestsAllowed": 1, "timeWindowMinutes": 60}},
		),
		"a.oas.json": document(
			with(static("GET", "/some", "some"), "some"), with(static("GET", "/rarely", "rarely"), "rarely"),
			operation{method: "GET", path: "/forward", id: "forward", handler: runtimeHandler("urlForwardHandler", m{"baseUrl": backEnd.URL})},
		),
	})
	g, err := local.New(options(dir, nil, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	proxies := &edge.Edge{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}}
	ask := func(peer, path, forwardedFor string) (int, string) {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.RemoteAddr, r.Host = peer+":5", "inner"
		r.Header = http.Header{
			"X-Forwarded-For": {forwardedFor}, "X-Forwarded-Proto": {"https"}, "X-Forwarded-Host": {"outer.example"},
			"Forwarded": {"for=1.2.3.4"}, "X-Forwarded-Port": {"1"}, "X-Real-Ip": {"1.2.3.4"},
		}
		recorder := httptest.NewRecorder()
		g.ServeHTTP(recorder, r.WithContext(edge.With(r.Context(), proxies.See(r))))
		return recorder.Code, recorder.Body.String()
	}
	for _, row := range []struct {
		peer, path, forwardedFor string
		want                     int
	}{
		{"10.0.0.1", "/some", "203.0.113.7", 200},
		{"10.0.0.1", "/some", "203.0.113.7, 192.0.2.1", 403},
		{"192.0.2.1", "/some", "203.0.113.7", 403},
		{"10.0.0.1", "/rarely", "203.0.113.7", 200},
		{"10.0.0.1", "/rarely", "1.1.1.1, 203.0.113.7", 429},
		{"10.0.0.1", "/rarely", "203.0.113.8", 200},
		{"192.0.2.1", "/rarely", "203.0.113.9", 200},
		{"192.0.2.1", "/rarely", "203.0.113.10", 429},
	} {
		if got, body := ask(row.peer, row.path, row.forwardedFor); got != row.want {
			t.Errorf("%s from %s for %s: %d, want %d: %s", row.path, row.peer, row.forwardedFor, got, row.want, body)
		}
	}
	for peer, want := range map[string]string{
		"10.0.0.1":  `{"for":["203.0.113.7"],"host":["outer.example"],"others":["","",""],"proto":["https"]}`,
		"192.0.2.1": `{"for":["192.0.2.1"],"host":["inner"],"others":["","",""],"proto":["http"]}`,
	} {
		if _, got := ask(peer, "/forward", "1.1.1.1, 203.0.113.7"); strings.TrimSpace(got) != want {
			t.Errorf("the back end of %s was told %s, want %s", peer, got, want)
		}
	}
	closed(t, g)
}

// A handler of the program sees no header that says who calls, but those of the gateway itself.
// The routes of a folder know no client certificate: who must have one is refused.
func TestHeadersThatSayWhoCalls(t *testing.T) {
	t.Parallel()
	guarded := func(path, id, policy string) operation {
		return calls("GET", path, id).with("policies", m{"inbound": []string{policy}, "outbound": []string{}})
	}
	show := site.Function(func(_ context.Context, r *route.Request) (any, error) {
		var names []string
		for name := range r.Header {
			if route.SaysCaller(name) {
				names = append(names, name)
			}
		}
		return "caller: " + strings.Join(names, " "), nil
	})
	r := newRig(t, files{
		"policies.json": policies(nil,
			[4]any{"must", "mtls-auth-inbound", "MTLSAuthInboundPolicy", m{"certIssuerDN": "CN=x"}},
			[4]any{"may", "mtls-auth-inbound", "MTLSAuthInboundPolicy", m{"allowUnauthenticatedRequests": true, "forward": true}},
		),
		"a.oas.json": document(calls("GET", "/open", "open"), guarded("/must", "must", "must"), guarded("/may", "may", "may")),
	}, module{"open": show, "must": show, "may": show})
	forged := []string{"Client-Cert", ":Zm9yZ2Vk:", "client_cert_subject", "CN=x", "X-Waybill-Account", "acme"}
	for path, want := range map[string]int{"/open": http.StatusOK, "/may": http.StatusOK, "/must": http.StatusUnauthorized} {
		got := r.do(http.MethodGet, path, "", forged...)
		if got.status != want || want == http.StatusOK && got.body != "caller: " {
			t.Errorf("%s: %d %q", path, got.status, got.body)
		}
	}
}
