package upstream_test

import (
	"context"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
)

// production is the policy of the services: public addresses by HTTPS, and nothing else.
func production() *egress.Policy { return &egress.Policy{} }

// transport returns the way to a back end until the test ends.
func transport(tb testing.TB, p *egress.Policy, base string, o egress.Options) *upstream.Transport {
	tb.Helper()
	to, err := upstream.Parse(p, base)
	if err != nil {
		tb.Fatalf("%s: %v", base, err)
	}
	t := upstream.NewTransport(p, to, o)
	tb.Cleanup(t.Close)
	return t
}

// get asks for a URL and returns the answer's text, or the code of the failure.
func get(ctx context.Context, tb testing.TB, t *upstream.Transport, url string) (string, egress.Code) {
	tb.Helper()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, http.NoBody)
	if err != nil {
		tb.Fatal(err)
	}
	answer, err := t.RoundTrip(r)
	if err != nil {
		failure, ok := errors.AsType[*egress.Error](err)
		if !ok {
			tb.Fatalf("%s: an error of another kind: %v", url, err)
		}
		return "", failure.Code
	}
	defer func() { _ = answer.Body.Close() }()
	body, err := io.ReadAll(io.LimitReader(answer.Body, 1000))
	if err != nil {
		return "", egress.AsError(ctx, err).Code
	}
	return string(body), ""
}

// A back end may be in the network itself, under its own host and port; no other place in
// that network becomes reachable by that.
func TestTransportReachesItsBackEndAlone(t *testing.T) {
	t.Parallel()
	own, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "own") })
	other, connections := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "other") })
	_, port, _ := net.SplitHostPort(strings.TrimPrefix(own, "http://"))
	names := egress.Options{Resolver: resolver(t)}
	byAddress := transport(t, production(), own, names)
	byName := transport(t, production(), "http://receiver:"+port, names)
	for _, row := range []struct {
		by   *upstream.Transport
		url  string
		want string
		code egress.Code
	}{
		{byAddress, own + "/x", "own", ""},
		{byName, "http://receiver:" + port + "/", "own", ""},
		{byAddress, other, "", egress.CodeURL}, // plain HTTP
		{byAddress, strings.Replace(other, "http", "https", 1), "", egress.CodeAddress},
		{byAddress, "http://receiver:" + port + "/", "", egress.CodeURL},
		{byAddress, "https://a127.attacker.example:" + port + "/", "", egress.CodeAddress},
		{byAddress, "https://169.254.169.254/", "", egress.CodeAddress},
		{byAddress, "https://localhost:" + port + "/", "", egress.CodeAddress},
		{byName, "http://user:word@receiver:" + port + "/", "", egress.CodeURL},
		{byName, "ftp://receiver:" + port + "/", "", egress.CodeURL},
	} {
		got, code := get(t.Context(), t, row.by, row.url)
		if got != row.want || code != row.code {
			t.Errorf("%s: %q and %q, want %q and %q", row.url, got, code, row.want, row.code)
		}
	}
	if n := connections.Load(); n != 0 {
		t.Errorf("the other one was connected to %d times", n)
	}
}

// A configured name that has come to lead to the machine's own credentials is refused when
// it is connected to, as a configured address is at once.
func TestTransportNeverReachesMetadata(t *testing.T) {
	t.Parallel()
	p := production()
	for _, base := range []string{
		"http://169.254.169.254", "http://168.63.129.16", "http://100.100.100.200", "http://[fd00:ec2::254]",
		"http://[fd20:ce::254]", "http://[fe80::1]", "http://0.0.0.0", "http://224.0.0.1", "http://[::ffff:10.0.0.1]",
	} {
		if _, err := upstream.Parse(p, base); err == nil {
			t.Errorf("%s is taken", base)
		}
	}
	named := transport(t, p, "http://azure.attacker.example", egress.Options{Resolver: resolver(t)})
	if _, code := get(t.Context(), t, named, "http://azure.attacker.example/"); code != egress.CodeAddress {
		t.Errorf("a name of such an address: %q", code)
	}
	for _, base := range []string{
		"http://10.0.0.1", "http://[fd00::1]:8080/x", "https://192.168.1.1", "http://100.64.0.1", "http://localhost:1",
		"http://orders", "http://orders.shop.svc.cluster.local:8080", "https://example.com/a?b",
	} {
		if _, err := upstream.Parse(p, base); err != nil {
			t.Errorf("%s: %v", base, err)
		}
	}
}

func TestBackendURLForm(t *testing.T) {
	t.Parallel()
	for _, base := range []string{
		"", "orders", "//orders", "ftp://orders", "http://", "http://user@orders", "http://orders#x", "http://orders:0",
		"http://orders:99999", "http://127.1", "http://0x7f.1", "http://a b", "http://a\\b", "http://-a", "http://" + strings.Repeat("a", 2048),
	} {
		if to, err := upstream.Parse(production(), base); err == nil {
			t.Errorf("%q is taken as %s", base, to)
		}
	}
}

func TestTransportByTLS(t *testing.T) {
	t.Parallel()
	s := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "sealed") }))
	t.Cleanup(s.Close)
	roots := x509.NewCertPool()
	roots.AddCert(s.Certificate())
	if got, code := get(t.Context(), t, transport(t, production(), s.URL, egress.Options{RootCAs: roots}), s.URL); got != "sealed" {
		t.Errorf("%q, %q", got, code)
	}
	if _, code := get(t.Context(), t, transport(t, production(), s.URL, egress.Options{}), s.URL); code != egress.CodeTLS {
		t.Errorf("a the certificate comes from an unknown authority: %q", code)
	}
}

// What follows a status that is none would be read for as long as the back end likes.
func TestTransportRefusesStatuses(t *testing.T) {
	t.Parallel()
	for _, line := range []string{"101 Switching Protocols", "099 Low", "600 High", "999 Highest"} {
		base, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) {
			conn, _, err := http.NewResponseController(w).Hijack()
			if err != nil {
				t.Error(err)
				return
			}
			_, _ = io.WriteString(conn, "HTTP/1.1 "+line+"\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\n")
			_, _ = io.Copy(io.Discard, conn) // until the other side closes it
			_ = conn.Close()
		})
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		if _, code := get(ctx, t, transport(t, production(), base, egress.Options{}), base); code != egress.CodeBadStatus {
			t.Errorf("%s: %q", line, code)
		}
		cancel()
	}
}
