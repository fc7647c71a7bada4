package client_test

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"log/slog"
	"math/big"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waybill.dev/cmd/internal/client"
)

// certificate returns one that signed itself, for the names, until then; and who trusts it.
func certificate(t *testing.T, until time.Time, names ...string) (tls.Certificate, *x509.CertPool) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	form := &x509.Certificate{
		SerialNumber: big.NewInt(1), NotBefore: time.Now().Add(-2 * time.Hour), NotAfter: until,
		DNSNames: names, IsCA: true, BasicConstraintsValid: true,
	}
	if len(names) == 0 {
		form.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1)}
	}
	der, err := x509.CreateCertificate(rand.Reader, form, form, &key.PublicKey, key)
	if err != nil {
		t.Fatal(err)
	}
	parsed, err := x509.ParseCertificate(der)
	if err != nil {
		t.Fatal(err)
	}
	pool := x509.NewCertPool()
	pool.AddCert(parsed)
	return tls.Certificate{Certificate: [][]byte{der}, PrivateKey: key}, pool
}

func TestNoAnswerSaysWhy(t *testing.T) {
	t.Parallel()
	later := time.Now().Add(time.Hour)
	secure := func(until time.Time, names ...string) (url string, trusted *x509.CertPool) {
		cert, pool := certificate(t, until, names...)
		s := httptest.NewUnstartedServer(http.NotFoundHandler())
		s.TLS = &tls.Config{Certificates: []tls.Certificate{cert}}
		s.Config.ErrorLog = slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
		s.StartTLS()
		t.Cleanup(s.Close)
		return s.URL, pool
	}
	expired, trustsExpired := secure(time.Now().Add(-time.Hour))
	named, trustsNamed := secure(later, "waybill.example")
	unknown, _ := secure(later)
	plain := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(plain.Close)
	closed := httptest.NewServer(http.NotFoundHandler())
	closed.Close()
	for name, row := range map[string]struct {
		url   string
		roots *x509.CertPool
		says  string
	}{
		"unknown authority": {unknown, nil, "TLS failed: its certificate comes from an authority that this machine does not know"},
		"expired":           {expired, trustsExpired, "TLS failed: its certificate has expired, or is not valid yet, according to the clock of this machine"},
		"another name":      {named, trustsNamed, "TLS failed: its certificate is for another name: "},
		"not TLS":           {strings.Replace(plain.URL, "http:", "https:", 1), nil, "TLS failed: it does not speak TLS on this port. Should the URL begin with http:// ?"},
		"refused":           {closed.URL, nil, "connection refused\n  Is it running? Start it with: waybill dev"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			h := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{RootCAs: row.roots}}}
			request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, row.url, http.NoBody)
			if err != nil {
				t.Fatal(err)
			}
			response, err := h.Do(request)
			if err == nil {
				_ = response.Body.Close()
				t.Fatal("it answers")
			}
			if got := client.NoAnswer(row.url, err).Error(); !strings.HasPrefix(got, "no answer from "+row.url+": ") || !strings.Contains(got, row.says) {
				t.Errorf("got  %q\nwant %q", got, row.says)
			}
		})
	}
}

func TestSchemesAreAssumedOnThisMachineAlone(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"localhost:3000": "http://localhost:3000", "127.0.0.1:3000/a?b": "http://127.0.0.1:3000/a?b", "[::1]:3000": "http://[::1]:3000",
		"app.localhost": "http://app.localhost", "example.com": "example.com", "example.com:8080/in": "example.com:8080/in",
		"https://localhost": "https://localhost", "": "", "localhost.example.com": "localhost.example.com", "10.0.0.1:80": "10.0.0.1:80",
	} {
		if got := client.WithScheme(text); got != want {
			t.Errorf("%q becomes %q, want %q", text, got, want)
		}
	}
}
