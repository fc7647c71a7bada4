package gateway_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

// A deployment was built when more back ends were allowed than now. Its routes to those answer 502, and say
// why in its log; all else is served.
func TestBackEndsThatAreNotAllowedAnyMore(t *testing.T) {
	t.Parallel()
	const document = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
		"/near":{"get":{"operationId":"n","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"https://127.0.0.1:1"}}}}},
		"/plain":{"get":{"operationId":"p","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"http://back.example"}}}}},
		"/link":{"get":{"operationId":"l","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"http://169.254.169.254/${pathname}"}}}}},
		"/fine":{"get":{"operationId":"f","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"fine"}}}}}}}`
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		keys, err := seal.Parse(seal.Generate())
		if err != nil {
			t.Fatal(err)
		}
		db := kind.Fresh(t).Open(t, store.Options{Keys: keys})
		log := traffic.New(db)
		counts := gateway.NewTraffic(gateway.TrafficOptions{Store: log, Rate: 100, Logger: slog.New(slog.DiscardHandler)})
		r := newRig(t, func(o *gateway.Options) { o.Store, o.Keyring, o.Traffic = db, keys, counts })
		r.db, r.keys = db, keys
		ctx, stop := context.WithCancel(context.Background())
		ended := make(chan error, 1)
		go func() { ended <- counts.Run(ctx) }()
		t.Cleanup(func() { stop(); <-ended })
		archive := zipped(t, gatewaytest.Files{"a.oas.json": document})
		var checks []func()
		for _, account := range []string{"default", "acme"} {
			r.keysOf([2]string{account, "shop-production"})
			shop := deploymentstest.Deployment{Account: account, Project: "shop", Branch: "main", Format: "zip", Archive: archive}
			shop.Activate(t, db)
			check := func() {
				host := shop.Name() + ".gateway.localhost"
				if w := r.ask(http.MethodGet, host, "/fine"); w.Code != http.StatusOK || w.Body.String() != "fine" {
					t.Errorf("what needs no back end: %d %s", w.Code, w.Body)
				}
				for path, reason := range map[string]string{"/near": "address_not_allowed", "/link": "not_allowed", "/plain": "url_not_allowed"} {
					w := r.ask(http.MethodGet, host, path)
					if w.Code != http.StatusBadGateway || strings.Contains(w.Body.String(), "169.254") {
						t.Errorf("%s: %d %s", path, w.Code, w.Body)
					}
					gatewaytest.Within(t, 20*time.Second, "the log says why", func() bool {
						request, err := log.GetRequest(t.Context(), shop.Name(), w.Header().Get("X-Request-Id"))
						return err == nil && len(request.Entries) == 1 && strings.Contains(string(request.Entries[0].Attributes), reason)
					})
				}
			}
			checks = append(checks, check)
		}
		r.run()
		for _, check := range checks {
			check()
		}
	})
}

// URLs to back ends of deployments may be as long as requests have them.
func TestLongURLs(t *testing.T) {
	t.Parallel()
	backEnd := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.WriteString(w, strconv.Itoa(len(r.URL.RawQuery)))
	}))
	t.Cleanup(backEnd.Close)
	document := `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{"/long":{"get":{"operationId":"l","x-gateway-route":{
		"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"` + backEnd.URL + `"}}}}}}}`
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRigOn(t, kind, func(o *gateway.Options) {
			o.Egress, o.Own = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}, func() []string { return nil }
		})
		shop := deploymentstest.Deployment{Account: "default", Project: "shop", Branch: "main", Format: "zip", Archive: zipped(t, gatewaytest.Files{"a.oas.json": document})}
		shop.Activate(t, r.db)
		r.run()
		for size, want := range map[int]int{2000: 200, 2100: 200, 16_000: 200, 16 << 10: 414} {
			w := r.ask(http.MethodGet, shop.Name()+".gateway.localhost", "/long?"+strings.Repeat("x", size-1)+"=")
			if w.Code != want || want == 200 && w.Body.String() != strconv.Itoa(size) {
				t.Errorf("%d bytes: %d %s", size, w.Code, w.Body)
			}
		}
	})
}
