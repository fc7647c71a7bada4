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

// The host decides before anything else: a site answers every path, those that the other
// one has too, and nothing but Host can lead to it.
func TestSites(t *testing.T) {
	t.Parallel()
	own := http.NewServeMux()
	own.Handle("/healthz", says("healthy"))
	h := hosts.New(map[string]http.Handler{"shop.example": says("shop"), "2001:db8::1": says("six")}, own)
	for _, row := range []struct {
		host, path, want string
	}{
		{"shop.example", "/", "shop"},
		{"shop.example", "/healthz", "shop"},
		{"shop.example:8082", "/healthz", "shop"},
		{"SHOP.Example.", "/v1/webhooks", "shop"},
		{"[2001:DB8::1]:80", "/", "six"},
		{"other.example", "/healthz", "healthy"},
		{"not-shop.example", "/healthz", "healthy"},
		{"shop.example.evil.example", "/healthz", "healthy"},
		{"evil@shop.example:x", "/healthz", "healthy"},
		{"", "/healthz", "healthy"},
		{"other.example", "/", "404 page not found\n"},
	} {
		r := httptest.NewRequest(http.MethodGet, row.path, http.NoBody)
		r.Host = row.host
		r.Header.Set("X-Forwarded-Host", "shop.example")
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if got := w.Body.String(); got != row.want {
			t.Errorf("%s%s: %q, want %q", row.host, row.path, got, row.want)
		}
	}
}
