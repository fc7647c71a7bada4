package handler_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"waybill.dev/services/gateway/internal/handler"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/jsonscan/attack"
)

// Whatever a pattern is and whatever a caller sends, the handler is made or refused, and no text leads out of the path that the
// pattern begins with.
func FuzzRewritePattern(f *testing.F) {
	f.Add("${params.id}", "/a/b", "z=1", "a/b c")
	f.Add("x${pathname}?a=1&${search}", "/a%2Fb", "a=2&b", "..")
	f.Add("${e(pathname)}/${env.V}?x=${query.q}&${e(search)}", "/", "q=%2e%2e%2f", "%2e%2e")
	f.Add("${headers.x-tenant}..${method}", "/..;a", "?#", "\r\nX: y")
	f.Add("${ env.V }${env.V", "/\\", "%zz", "@evil.example/?")
	var mu sync.Mutex
	var asked *http.Request
	b := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked = r
	}))
	f.Cleanup(b.Close)
	pools := upstream.NewPools(production())
	f.Cleanup(pools.Close)
	f.Fuzz(func(t *testing.T, pattern, path, query, value string) {
		if len(path)+len(query)+len(value) > 8<<10 {
			return
		}
		options, err := json.Marshal(map[string]string{"rewritePattern": b.URL + "/fixed/" + pattern})
		if err != nil {
			t.Fatal(err)
		}
		var h route.Handler
		attack.Hold(t, len(pattern), attack.Allowance{Times: 60}, func() {
			h, _ = handler.New(operation("urlRewriteHandler", string(options)), env(production(), "V", value))
		})
		if h == nil {
			return
		}
		r := call("GET", path, query)
		r.Params = map[string]string{"id": value, "rest": value}
		r.Header.Set("X-Tenant", value)
		mu.Lock()
		asked = nil
		mu.Unlock()
		_, err = (&served{h, pools}).Handle(t.Context(), r)
		mu.Lock()
		defer mu.Unlock()
		if asked == nil {
			if err == nil {
				t.Errorf("%q: another host was asked", pattern)
			}
			return
		}
		to, _, _ := strings.Cut(asked.RequestURI, "?")
		if !strings.HasPrefix(to, "/fixed/") || route.Climbs(to) {
			t.Errorf("%q with %q, %q and %q asks for %s", pattern, path, query, value, asked.RequestURI)
		}
	})
}
