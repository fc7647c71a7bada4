package upstream_test

import (
	"errors"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"testing"

	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/egress"
)

// asked sends a request by pools of the guard.
func asked(t *testing.T, g *upstream.Guard, target string) (int, error) {
	t.Helper()
	u, err := url.Parse(target)
	if err != nil {
		t.Fatal(err)
	}
	pools := upstream.NewGuardedPools(g, nil)
	defer pools.Close()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, target, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	answer, err := pools.RoundTrip(upstream.To(u), request)
	if err != nil {
		return 0, err
	}
	return answer.StatusCode, answer.Body.Close()
}

// What tenants configure leads to public addresses and to those that are allowed, however the
// address is written, and whatever a name has come to mean.
func TestGuard(t *testing.T) {
	t.Parallel()
	back, connections := receiver(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(mustParse(t, back).Host)
	if err != nil {
		t.Fatal(err)
	}
	closed := &egress.Policy{HTTP: true}
	open := &egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	private := &egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")}} // names are judged by their addresses then
	for _, row := range []struct {
		policy *egress.Policy
		target string
		code   egress.Code // empty: it is reached
	}{
		{open, back, ""},
		{open, "http://a127.attacker.example:" + port, ""},
		{closed, back, egress.CodeAddress},
		{closed, "http://localhost:" + port, egress.CodeAddress},
		{closed, "http://[::1]:" + port, egress.CodeAddress},
		{closed, "http://0.0.0.0:" + port, egress.CodeAddress},
		{closed, "http://2130706433:" + port, egress.CodeURL},
		{closed, "http://0x7f.1:" + port, egress.CodeURL},
		{closed, "http://[::ffff:127.0.0.1]:" + port, egress.CodeURL},
		{closed, "http://169.254.169.254/latest/meta-data", egress.CodeAddress},
		{closed, "http://100.100.100.200/", egress.CodeAddress},
		{closed, "http://[fd00:ec2::254]/", egress.CodeAddress},
		{closed, "http://10.0.0.1/", egress.CodeAddress},
		{closed, "http://192.168.0.1/", egress.CodeAddress},
		{closed, "http://100.64.0.1/", egress.CodeAddress},
		{closed, "http://a127.attacker.example:" + port, egress.CodeAddress},
		{private, "http://a127.attacker.example:" + port, egress.CodeAddress},
		{private, "http://azure.attacker.example/", egress.CodeAddress},
		{closed, "http://user:password@example.com/", egress.CodeURL},
		{&egress.Policy{}, "http://example.com/", egress.CodeURL},
	} {
		before := connections.Load()
		status, err := asked(t, upstream.NewGuard(row.policy, func() []string { return nil }, egress.Options{Resolver: resolver(t)}), row.target)
		if row.code == "" {
			if status != http.StatusOK {
				t.Errorf("%s: %v", row.target, err)
			}
			continue
		}
		if failed, ok := errors.AsType[*egress.Error](err); !ok || failed.Code != row.code || connections.Load() != before {
			t.Errorf("%s: %d, %v, want %s", row.target, status, err, row.code)
		}
	}
}

// What is Waybill's own is refused although its address is allowed, by all its names. Another
// port of the same machine is not.
func TestGuardOfOwn(t *testing.T) {
	t.Parallel()
	back, connections := receiver(t, func(http.ResponseWriter, *http.Request) {})
	other, _ := receiver(t, func(http.ResponseWriter, *http.Request) {})
	_, port, err := net.SplitHostPort(mustParse(t, back).Host)
	if err != nil {
		t.Fatal(err)
	}
	open := &egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}}
	for _, own := range []string{":" + port, "127.0.0.1:" + port, "[::]:" + port, "0.0.0.0:" + port, "localhost:" + port, "nowhere.invalid:" + port, "not an address"} {
		guard := upstream.NewGuard(open, func() []string { return []string{"127.0.0.1:1", own} }, egress.Options{Resolver: resolver(t)})
		for _, target := range []string{back, "http://localhost:" + port, "http://127.1.2.3:" + port, "http://a127.attacker.example:" + port} {
			_, err := asked(t, guard, target)
			if failed, ok := errors.AsType[*egress.Error](err); (!ok || failed.Code != egress.CodeAddress) && own != "nowhere.invalid:"+port {
				t.Errorf("%s, own is %s: %v", target, own, err)
			}
		}
		if status, err := asked(t, guard, other); own != "not an address" && (err != nil || status != http.StatusOK) {
			t.Errorf("another port, own is %s: %v", own, err)
		}
	}
	if n := connections.Load(); n > 0 {
		t.Errorf("%d connections to our own", n)
	}
}

func mustParse(t *testing.T, text string) *url.URL {
	t.Helper()
	u, err := url.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return u
}
