package hosts_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"waybill.dev/services/gateway/internal/hosts"
)

// says answers with a text, whatever is asked.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// The host decides before anything else, and nothing but Host does.
func TestHosts(t *testing.T) {
	t.Parallel()
	h := hosts.New("gateway.example", func(name string) http.Handler { return says("deployment " + name) }, says("other"))
	for host, want := range map[string]string{
		"shop.gateway.example":       "deployment shop",
		"shop.gateway.example:8082":  "deployment shop",
		"SHOP.Gateway.EXAMPLE.":      "deployment shop",
		"shop.gateway.example.:80":   "deployment shop",
		"a.b.gateway.example":        "deployment a.b",
		".gateway.example":           "deployment ",
		"evil@shop.gateway.example":  "deployment evil@shop",
		"gateway.example":            "other",
		"gateway.example:8082":       "other",
		"shopgateway.example":        "other",
		"shop.gateway.example.evil":  "other",
		"shop.gateway.example..":     "other",
		"shop.gateway.example:80:80": "other",
		"[2001:db8::1]:80":           "other",
		"":                           "other",
	} {
		r := httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody)
		r.Host = host
		r.Header.Set("X-Forwarded-Host", "other.gateway.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Body.String(); got != want {
			t.Errorf("%q: %q, want %q", host, got, want)
		}
	}
}

// BenchmarkHost is what the table of deployments costs a request that is for one of them.
func BenchmarkHost(b *testing.B) {
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	h := hosts.New("gateway.example", func(string) http.Handler { return nothing }, nothing)
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Host = "shop-main-abcdefghij.gateway.example:8082"
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(nil, r)
	}
}
