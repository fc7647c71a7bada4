package rollout_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
)

// guarded is a GET with a policy of its own.
func guarded(path, policy string) string {
	return fmt.Sprintf(`%q:{"get":{"operationId":"guarded","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}},"policies":{"inbound":[%q]}}}}`, path, policy)
}

// withPolicies is a deployment that has policies, too.
func withPolicies(t *testing.T, account, project, policies string, paths ...string) deploymentstest.Deployment {
	t.Helper()
	d := deployed(t, project, paths...)
	d.Account = account
	d.Archive = packed(t, map[string]string{
		"routes.oas.json": strings.Replace(document, "PATHS", strings.Join(paths, ","), 1), "policies.json": `{"policies":[` + policies + `]}`,
	})
	return d
}

const (
	keyPolicy   = `{"policyType":"api-key-inbound","name":"key","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{}}}`
	onceAMinute = `{"policyType":"rate-limit-inbound","name":"limit","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy","options":{"rateLimitBy":"all","requestsAllowed":1,"timeWindowMinutes":60}}}`
)

// Back ends that became forbidden after the build are refused at the request: the guard is
// asked for each connection, whatever the build has said.
func TestBackEndsAreRefused(t *testing.T) {
	t.Parallel()
	reached := false
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { reached = true }))
	t.Cleanup(back.Close)
	for name, guard := range map[string]*upstream.Guard{
		"not allowed": upstream.NewGuard(&egress.Policy{HTTP: true}, func() []string { return nil }, egress.Options{}),
		"our own":     upstream.NewGuard(loopback(), func() []string { return []string{strings.TrimPrefix(back.URL, "http://")} }, egress.Options{}),
	} {
		r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.Guard = guard }).run()
		shop := deployed(t, "shop", forward("/back", back.URL))
		shop.Activate(t, r.db)
		r.update()
		w := r.get(at(shop), "/back")
		wants(t, name, w, http.StatusBadGateway, "BAD_GATEWAY")
		if reached || strings.Contains(w.Body.String(), "127.0.0.1") {
			t.Errorf("%s: the back end was reached (%t), or is told: %s", name, reached, w.Body)
		}
	}
}

// A deployment takes the keys of its own bucket. Another account's, another environment's and
// the bootstrap key get the bytes that an unknown key gets.
func TestKeysOfOthers(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) {
		o.Authenticator = gatewaytest.Keys{
			"own":         apikey.Principal{Account: "default", Bucket: "shop-production", Consumer: "bakery", Type: apikey.TypeKey},
			"preview":     apikey.Principal{Account: "default", Bucket: "shop-preview", Consumer: "bakery", Type: apikey.TypeKey},
			"elsewhere":   apikey.Principal{Account: "acme", Bucket: "shop-production", Consumer: "bakery", Type: apikey.TypeKey},
			"bootstrap":   apikey.Principal{Account: "default", Type: apikey.TypeBootstrap},
			"bucket-only": apikey.Principal{Bucket: "shop-production", Type: apikey.TypeKey},
		}
	}).run()
	shop := withPolicies(t, "default", "shop", keyPolicy, guarded("/", "key"))
	shop.Activate(t, r.db)
	r.update()
	wants(t, "its own key", r.get(at(shop), "/", "Authorization", "Bearer own"), http.StatusOK, "inside")
	plain := func(w *httptest.ResponseRecorder) string {
		return strings.ReplaceAll(w.Body.String(), w.Header().Get("X-Request-Id"), "") + w.Header().Get("Www-Authenticate")
	}
	unknown := plain(r.get(at(shop), "/", "Authorization", "Bearer unknown"))
	for _, key := range []string{"preview", "elsewhere", "bootstrap", "bucket-only"} {
		w := r.get(at(shop), "/", "Authorization", "Bearer "+key)
		wants(t, key, w, http.StatusUnauthorized, "UNAUTHENTICATED")
		if plain(w) != unknown {
			t.Errorf("%s is told from an unknown key: %s", key, w.Body)
		}
	}
}

// A limit of one name is another one in each deployment, and goes on over a new build.
func TestLimitsAreTheDeployments(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), nil).run()
	a, b := withPolicies(t, "default", "a", onceAMinute, guarded("/", "limit")), withPolicies(t, "default", "b", onceAMinute, guarded("/", "limit"))
	a.Activate(t, r.db)
	b.Activate(t, r.db)
	r.update()
	wants(t, "a", r.get(at(a), "/"), http.StatusOK, "")
	wants(t, "a again", r.get(at(a), "/"), http.StatusTooManyRequests, "")
	wants(t, "b", r.get(at(b), "/"), http.StatusOK, "")
	r.tables.sources.Store(0)
	withPolicies(t, "default", "a", onceAMinute, guarded("/", "limit"), static("/new", "new")).Activate(t, r.db)
	r.update()
	gatewaytest.Within(t, waitTime, "the new build", func() bool { return r.get(at(a), "/new").Code == http.StatusOK })
	wants(t, "a in its new build", r.get(at(a), "/"), http.StatusTooManyRequests, "")
}

// One deployment may not take more than its share of the process.
func TestInFlight(t *testing.T) {
	t.Parallel()
	const share = 3
	held, let := make(chan struct{}, share), make(chan struct{})
	back := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		held <- struct{}{}
		<-let
	}))
	t.Cleanup(back.Close)
	r := newRig(t, storetest.SQLite(), func(o *rollout.Options) { o.InFlight = share }).run()
	busy, other := deployed(t, "busy", forward("/back", back.URL), static("/", "busy")), deployed(t, "other", static("/", "other"))
	busy.Activate(t, r.db)
	other.Activate(t, r.db)
	r.update()
	answers := make(chan *httptest.ResponseRecorder, share)
	for range share {
		go func() { answers <- r.get(at(busy), "/back") }()
	}
	for range share {
		<-held
	}
	w := r.get(at(busy), "/")
	wants(t, "one more", w, http.StatusServiceUnavailable, "UNAVAILABLE")
	if w.Header().Get("Retry-After") == "" {
		t.Error("it is not said when to come back")
	}
	wants(t, "another deployment", r.get(at(other), "/"), http.StatusOK, "other")
	close(let)
	for range share {
		wants(t, "held", <-answers, http.StatusOK, "")
	}
	wants(t, "after that", r.get(at(busy), "/"), http.StatusOK, "busy")
}
