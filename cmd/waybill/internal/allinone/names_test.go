package allinone

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/cmd/internal/settings"
)

// The pages are for browsers, which a page may have sent here by a name of its own. Programs may call the
// API by any name.
func TestPagesAnswerToTheirOwnNames(t *testing.T) {
	t.Parallel()
	handler := ownNames(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), settings.Settings{PublicURL: "https://Hooks.example.com"})
	ask := func(host, path string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(http.MethodGet, path, http.NoBody)
		r.Host = host
		w := httptest.NewRecorder()
		handler.ServeHTTP(w, r)
		return w
	}
	for _, path := range []string{"/", "/console", "/console/sign-in", "/docs", "/docs/receivers"} {
		for _, host := range []string{"localhost:8080", "127.0.0.1:8080", "[::1]:8080", "waybill", "waybill.localhost:8080", "hooks.example.com", "HOOKS.example.com:443"} {
			if w := ask(host, path); w.Code != http.StatusOK {
				t.Errorf("%s%s: %d", host, path, w.Code)
			}
		}
		for _, host := range []string{"evil.example", "evil.example:8080", "127.0.0.1.evil.example", "localhost.evil.example", "hooks.example.com.evil.example", ""} {
			if w := ask(host, path); w.Code != http.StatusMisdirectedRequest || !strings.Contains(w.Body.String(), `"MISDIRECTED"`) || strings.Contains(w.Body.String(), "evil") {
				t.Errorf("%s%s: %d %s", host, path, w.Code, w.Body)
			}
		}
	}
	for _, path := range []string{"/v1/webhooks", "/healthz", "/mcp", "/consoles", "/docsx"} {
		if w := ask("evil.example", path); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
}
