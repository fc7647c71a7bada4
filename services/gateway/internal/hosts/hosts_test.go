package hosts_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/services/gateway/internal/hosts"
)

// says answers with a text, whatever is asked.
func says(text string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, text) })
}

// sites knows two accounts. Each deployment is of the account that its name begins with.
type sites struct{}

func (sites) Deployment(name string) hosts.Site {
	account, _, _ := strings.Cut(name, "-")
	return hosts.Site{Account: account, Handler: says("deployment " + name)}
}

func (sites) Custom(hostname string) (hosts.Site, bool) {
	account, ok := map[string]string{"api.acme.test": "acme", "shop.acme.test": "acme", "api.other.test": "other"}[hostname]
	return hosts.Site{Account: account, Handler: says("custom " + hostname), Domain: &hosts.Domain{Hostname: hostname}}, ok
}

// The host decides before anything else, and nothing but Host does.
func TestHosts(t *testing.T) {
	t.Parallel()
	h := hosts.New("gateway.example", sites{}, says("other"))
	for host, want := range map[string]string{
		"shop.gateway.example":       "deployment shop",
		"shop.gateway.example:8082":  "deployment shop",
		"SHOP.Gateway.EXAMPLE.":      "deployment shop",
		"shop.gateway.example.:80":   "deployment shop",
		"a.b.gateway.example":        "deployment a.b",
		".gateway.example":           "deployment ",
		"evil@shop.gateway.example":  "deployment evil@shop",
		"api.acme.test":              "custom api.acme.test",
		"API.Acme.Test.:443":         "custom api.acme.test",
		"www.api.acme.test":          "other",
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

// A TLS connection is for the hosts of the account whose name the client gave, and for no others.
func TestConnectionIsForOneAccount(t *testing.T) {
	t.Parallel()
	h := hosts.New("gateway.example", sites{}, says("other"))
	for _, row := range []struct {
		name, host string
		want       int
	}{
		{"api.acme.test", "api.acme.test", http.StatusOK},
		{"api.acme.test", "API.ACME.TEST:8443", http.StatusOK},
		{"api.acme.test", "shop.acme.test", http.StatusMisdirectedRequest},
		{"api.acme.test", "acme-main.gateway.example", http.StatusMisdirectedRequest},
		{"", "api.acme.test", http.StatusOK}, // no name was given: it says nothing about the host
		{"waybill.example", "waybill.example", http.StatusOK},
		{"waybill.example", "api.waybill.example", http.StatusOK},
		{"api.acme.test", "api.other.test", http.StatusMisdirectedRequest},
		{"api.acme.test", "other-main.gateway.example", http.StatusMisdirectedRequest},
		{"acme-main.gateway.example", "other-main.gateway.example", http.StatusMisdirectedRequest},
		{"api.acme.test", "waybill.example", http.StatusMisdirectedRequest},
		{"api.acme.test", "", http.StatusMisdirectedRequest},
		{"waybill.example", "api.acme.test", http.StatusMisdirectedRequest},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
		r.Host, r.TLS = row.host, &tls.ConnectionState{ServerName: row.name}
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		if w.Code != row.want || row.want != http.StatusOK && !strings.Contains(w.Body.String(), `"code":"MISDIRECTED"`) {
			t.Errorf("connection for %q, request for %q: %d %s, want %d", row.name, row.host, w.Code, w.Body, row.want)
		}
	}
}

// quiet answers nothing.
type quiet struct{}

func (quiet) ServeHTTP(http.ResponseWriter, *http.Request) {}

func (q quiet) Deployment(string) hosts.Site { return hosts.Site{Handler: q} }

func (quiet) Custom(string) (hosts.Site, bool) { return hosts.Site{}, false }

// BenchmarkHost is what the table of deployments costs a request that is for one of them.
func BenchmarkHost(b *testing.B) {
	h := hosts.New("gateway.example", quiet{}, quiet{})
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.Host = "shop-main-abcdefghij.gateway.example:8082"
	b.ReportAllocs()
	for b.Loop() {
		h.ServeHTTP(nil, r)
	}
}
