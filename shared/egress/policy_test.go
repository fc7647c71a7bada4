package egress_test

import (
	"bufio"
	"context"
	"errors"
	"net"
	"net/netip"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"waybill.dev/shared/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func allow(tb testing.TB, text string) []netip.Prefix {
	tb.Helper()
	prefixes, err := egress.ParseAllow(text)
	if err != nil {
		tb.Fatal(err)
	}
	return prefixes
}

// dev is the policy of `waybill dev`.
func dev(tb testing.TB) *egress.Policy {
	tb.Helper()
	return &egress.Policy{Allow: allow(tb, "127.0.0.0/8,::1/128"), HTTP: true}
}

type urlRow struct {
	number int
	url    string
	want   bool
}

// urlTable has the published rows of the project's list of hostile URLs.
func urlTable(tb testing.TB) []urlRow {
	tb.Helper()
	file, err := os.Open("testdata/urls.tsv")
	if err != nil {
		tb.Fatal(err)
	}
	defer func() { _ = file.Close() }()
	var rows []urlRow
	for lines := bufio.NewScanner(file); lines.Scan(); {
		if strings.HasPrefix(lines.Text(), "#") {
			continue
		}
		cells := strings.Split(lines.Text(), "\t")
		number, err := strconv.Atoi(cells[0])
		if err != nil {
			tb.Fatal(err)
		}
		raw, err := strconv.Unquote(cells[1])
		if err != nil {
			tb.Fatal(err)
		}
		rows = append(rows, urlRow{number, raw, cells[2] == "A"})
	}
	if len(rows) < 130 {
		tb.Fatalf("%d rows", len(rows))
	}
	return rows
}

var errSeen = errors.New("far enough")

// dials returns the addresses that a callback to raw would be sent to. None is connected
// to.
func dials(t *testing.T, p *egress.Policy, names *net.Resolver, raw string) []netip.AddrPort {
	t.Helper()
	var seen []netip.AddrPort
	client := p.Observed(egress.Options{Resolver: names}, func(to netip.AddrPort) error {
		seen = append(seen, to)
		return errSeen
	})
	defer client.Close()
	r := client.Post(t.Context(), &egress.Request{URL: raw, Body: []byte("{}")})
	if r.Status != 0 {
		t.Errorf("%q got an answer", raw)
	}
	if (p.CheckURL(raw) != nil) && len(seen) > 0 {
		t.Errorf("%q is dialled though it is refused", raw)
	}
	return seen
}

func TestURLTable(t *testing.T) {
	t.Parallel()
	// Where a policy of ours differs from the list's, which has http, a list of ports, and
	// no allowed network.
	ports := []int{112, 114, 115, 116}
	rows := []struct {
		name    string
		policy  *egress.Policy
		allowed []int // though the list denies
		denied  []int // though the list allows
	}{
		// 104 has a public address at first; TestRebinding has what follows.
		{"http allowed", &egress.Policy{HTTP: true}, append(ports, 104), nil},
		{"services", &egress.Policy{}, nil, []int{84, 87, 137, 155}},
		// Loopback is allowed: 10 and 41 as such, 27, 99 and 103 by name, 29 and 42 in other
		// spellings that are plain, and localhost with a trailing dot or in characters
		// that IDNA turns into it. 103 has a public address besides.
		{"dev", dev(t), append(ports, 104, 10, 27, 29, 30, 37, 39, 41, 42, 99, 103, 165), nil},
	}
	for _, row := range rows {
		t.Run(row.name, func(t *testing.T) {
			t.Parallel()
			names := resolver(t)
			for _, r := range urlTable(t) {
				want := r.want && !slices.Contains(row.denied, r.number) || slices.Contains(row.allowed, r.number)
				seen := dials(t, row.policy, names, r.url)
				if got := len(seen) > 0; got != want {
					t.Errorf("row %d %q: dials %v, want dialled %v", r.number, r.url, seen, want)
				}
				for _, to := range seen {
					if !row.policy.Allowed(to.Addr()) {
						t.Errorf("row %d %q: %v is dialled", r.number, r.url, to)
					}
				}
			}
		})
	}
}

func TestRebinding(t *testing.T) {
	t.Parallel()
	names := resolver(t)
	p := &egress.Policy{}
	const raw = "https://rebind.attacker.example/"
	if seen := dials(t, p, names, raw); len(seen) != 1 || seen[0].Addr().String() != public {
		t.Errorf("first connection goes to %v", seen)
	}
	for range 20 {
		if seen := dials(t, p, names, raw); len(seen) != 0 {
			t.Fatalf("connection to %v once the name has changed", seen)
		}
	}
}

// One address of 60 that is not allowed is enough, wherever it stands.
func TestEveryAddressOfANameIsChecked(t *testing.T) {
	t.Parallel()
	names := resolver(t)
	for _, host := range []string{"many.attacker.example", "mixed.attacker.example", "azure.attacker.example"} {
		if seen := dials(t, &egress.Policy{}, names, "https://"+host+"/"); len(seen) != 0 {
			t.Errorf("%s: %v is dialled", host, seen)
		}
	}
	if seen := dials(t, dev(t), names, "https://dual.attacker.example/"); len(seen) != 2 {
		t.Errorf("of two allowed addresses %v are tried", seen)
	}
}

// Each rule refuses a URL that all others take: without it this test fails.
func TestEachRuleStandsAlone(t *testing.T) {
	t.Parallel()
	open := &egress.Policy{HTTP: true}
	rows := map[string]struct {
		policy *egress.Policy
		urls   []string
	}{
		"length":   {open, []string{"https://hooks.example.com/" + strings.Repeat("x", 2048-25)}},
		"bytes":    {open, []string{`https://hooks.example.com/\x`, "https://hooks.example.com/ x", "https://hooks.example.com/?\xff"}},
		"scheme":   {&egress.Policy{}, []string{"http://hooks.example.com/", "ftp://hooks.example.com/", "ws://hooks.example.com/"}},
		"userinfo": {open, []string{"https://user:pw@hooks.example.com/", "https://127.0.0.1@hooks.example.com/", "https://@hooks.example.com/"}},
		"fragment": {open, []string{"https://hooks.example.com/#", "https://hooks.example.com/#x", "https://hooks.example.com#@127.0.0.1/"}},
		"port": {open, []string{
			"https://hooks.example.com:/", "https://hooks.example.com:0/", "https://hooks.example.com:0443/",
			"https://hooks.example.com:65536/", "https://[2606:4700:4700::1111]:0/",
		}},
		"literal": {open, []string{"https://[::ffff:8.8.8.8]/"}},
		"idna":    {open, []string{"https://xn--a.example.com/"}},
		"labels": {open, []string{
			"https://hooks..example.com/", "https://.hooks.example.com/", "https://hooks.example.com../", "https://*.example.com/",
			"https://-a.example.com/", "https://a-.example.com/", "https://a,b.example.com/",
			"https://" + strings.Repeat("a", 64) + ".example.com/", "https://" + strings.Repeat("a.", 126) + "example.com/",
		}},
		"number": {open, []string{
			"https://127.1/", "https://127.0.1/", "https://0x7f.1/", "https://0177.0.0.1/", "https://127.0.0.1./", "https://127.0.0.01/",
			"https://a.1/", "https://1.2.3.4.5/", "https://93.184.216.34./", "https://a.0x/", "https://a.0X7F/", "https://256.256.256.256/",
		}},
		"address": {open, []string{
			"https://127.0.0.1/", "https://10.0.0.1/", "https://169.254.169.254/", "https://168.63.129.16/", "https://[::1]/",
			"https://[fd00:ec2::254]/", "https://[64:ff9b::7f00:1]/", "https://[2002:7f00:1::]/", "https://0.0.0.0/",
		}},
		"names": {open, []string{
			"https://localhost/", "https://receiver/", "https://a.localhost/", "https://printer.local/", "https://metadata.google.internal/",
			"https://a.localdomain/", "https://a.home.arpa/", "https://a.default.svc/", "https://a.cluster.local/", "https://a.onion/",
			"https://a.invalid/", "https://a.test/", "https://a.lan/", "https://a.intranet/", "https://a.corp/", "https://a.home/",
		}},
	}
	for _, name := range egress.RuleNames() {
		row, ok := rows[name]
		if !ok {
			t.Errorf("rule %s has no row", name)
		}
		for _, raw := range row.urls {
			if err := row.policy.CheckURL(raw); err == nil {
				t.Errorf("%q is taken", raw)
			}
			if err := row.policy.CheckWithout(raw, name); err != nil {
				t.Errorf("%q is refused without rule %s too: %v", raw, name, err)
			}
		}
	}
}

// URLs that must work, and what is connected to for them.
func TestTargets(t *testing.T) {
	t.Parallel()
	rows := []struct {
		policy    *egress.Policy
		raw, want string
	}{
		{&egress.Policy{}, "https://hooks.example.com/a%2f..%2fb?x=%00&y=a+b", "https://hooks.example.com/a%2f..%2fb?x=%00&y=a+b"},
		{&egress.Policy{}, "HTTPS://Hooks.Example.COM.:8443/X", "https://hooks.example.com:8443/X"},
		{&egress.Policy{}, "https://bücher.example.com/", "https://xn--bcher-kva.example.com/"},
		{&egress.Policy{}, "https://BÜCHER。example.com:444", "https://xn--bcher-kva.example.com:444"},
		{&egress.Policy{}, "https://xn--bcher-kva.example.com/", "https://xn--bcher-kva.example.com/"},
		{&egress.Policy{}, "https://a_b.example.com/", "https://a_b.example.com/"},
		{&egress.Policy{}, "https://hooks.example.com:22/", "https://hooks.example.com:22/"},
		{&egress.Policy{}, "https://1.example.com/", "https://1.example.com/"},
		{&egress.Policy{}, "https://[2606:4700:4700::1111]:444/", "https://[2606:4700:4700::1111]:444/"},
		{&egress.Policy{}, `https://hooks.example.com/ä%2F"b?q=ü|^"<>{}` + "`" + `&z=1&a=%zz;[x]+'~`, "https://hooks.example.com/%C3%A4%2F%22b?q=%C3%BC%7C%5E%22%3C%3E%7B%7D%60&z=1&a=%zz;[x]+'~"},
		{&egress.Policy{}, "https://hooks.example.com?日", "https://hooks.example.com?%E6%97%A5"},
		{dev(t), "http://localhost:9000/hook", "http://localhost:9000/hook"},
		{dev(t), "http://127.0.0.1:1/", "http://127.0.0.1:1/"},
		{dev(t), "http://127.200.1.7:65535/", "http://127.200.1.7:65535/"},
		{dev(t), "http://[::1]:9000/", "http://[::1]:9000/"},
		{dev(t), "http://receiver:9000/", "http://receiver:9000/"},
		{&egress.Policy{HTTP: true, Allow: allow(t, "172.16.0.0/12")}, "http://receiver:9000/", "http://receiver:9000/"},
		{&egress.Policy{HTTP: true, Allow: allow(t, "172.16.0.0/12")}, "http://172.18.0.4:9000/", "http://172.18.0.4:9000/"},
	}
	for _, row := range rows {
		got, err := row.policy.Target(row.raw)
		if err != nil {
			t.Errorf("%q: %v", row.raw, err)
		} else if got.String() != row.want {
			t.Errorf("%q goes to %q, want %q", row.raw, got, row.want)
		}
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	docker := &egress.Policy{HTTP: true, Allow: allow(t, "172.16.0.0/12")}
	nat := &egress.Policy{Allow: allow(t, "64:ff9b::/96")}
	rows := []struct {
		policy *egress.Policy
		raw    string
		want   string
	}{
		{dev(t), "http://10.0.0.1/", "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW"},
		{dev(t), "http://[::ffff:127.0.0.1]/", "must have a plain IPv6 address in its brackets"},
		{dev(t), "http://[::1%25lo]/", "must have a plain IPv6 address in its brackets"},
		{dev(t), "http://[2606:4700:4700::1111%25eth0]/", "must have a plain IPv6 address in its brackets"},
		{dev(t), "http://0x7f.1/", "must have an IPv4 address as four decimal numbers"},
		{dev(t), "http://①②⑦.⓪.⓪.①/", "must have an IPv4 address as four decimal numbers"},
		{dev(t), "http://xn--localhost-/", "must have a valid host name"},
		{docker, "http://localhost/", "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW"},
		{docker, "http://a.localhost/", "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW"},
		{docker, "http://127.0.0.1/", "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW"},
		{nat, "https://[64:ff9b::7f00:1]/", "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW"},
		{&egress.Policy{}, "http://hooks.example.com/", "must be an https URL: http needs WAYBILL_EGRESS_HTTP"},
		{&egress.Policy{HTTP: true}, "gopher://hooks.example.com/", "must be an http or https URL"},
		{&egress.Policy{}, "", "must have 1 to 2048 bytes"},
		{&egress.Policy{}, "hooks.example.com/x", "must be an absolute http or https URL"},
		{&egress.Policy{}, "https:hooks.example.com", "must be an absolute http or https URL"},
		{&egress.Policy{}, "https://user:hunter2@hooks.example.com/", "must not have a user name or password"},
	}
	for _, row := range rows {
		err := row.policy.CheckURL(row.raw)
		if err == nil || err.Error() != row.want {
			t.Errorf("%q: %v, want %s", row.raw, err, row.want)
		}
		if _, isForm := errors.AsType[egress.URLError](err); isForm == errors.Is(err, egress.ErrAddress) {
			t.Errorf("%q: error is neither of form nor of address", row.raw)
		}
	}
	if err := nat.CheckURL("https://[64:ff9b::5db8:d822]/"); err != nil {
		t.Errorf("public address behind an allowed NAT64: %v", err)
	}
}

func TestParseAllow(t *testing.T) {
	t.Parallel()
	got := allow(t, " 127.0.0.1/8 , ::1/128")
	want := []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8"), netip.MustParsePrefix("::1/128")}
	if diff := cmp.Diff(want, got, cmp.Comparer(func(a, b netip.Prefix) bool { return a == b })); diff != "" {
		t.Error(diff)
	}
	for _, text := range []string{"none", "", " none "} {
		if got := allow(t, text); got != nil {
			t.Errorf("%q allows %v", text, got)
		}
	}
	for _, text := range []string{"127.0.0.1", "all", "10.0.0.0/8,", "::ffff:10.0.0.0/104", "10.0.0.0/33", "none,10.0.0.0/8"} {
		if got, err := egress.ParseAllow(text); err == nil {
			t.Errorf("%q allows %v", text, got)
		}
	}
}

func TestValidHeader(t *testing.T) {
	t.Parallel()
	p := &egress.Policy{}
	for _, name := range []string{"Authorization", "X-Api-Key", "X-Tenant", "x_y", "Accept", "X-Webhook-Source"} {
		if err := p.ValidHeader(name, "Bearer abc"); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{
		"Host", "host", "Content-Length", "Content-Type", "Content-Encoding", "Transfer-Encoding", "Connection", "Keep-Alive", "Upgrade",
		"Expect", "TE", "Trailer", "Cookie", "Set-Cookie", "Proxy-Authorization", "Proxy-Connection", "Forwarded", "X-Forwarded-For",
		"x-forwarded-host", "Via", "Idempotency-Key", "x-idempotency-KEY", "User-Agent", "Accept-Encoding", "Webhook-Id", "webhook-signature",
		"WEBHOOK-TIMESTAMP", "Waybill-Attempt", "waybill-delivery-id", "traceparent", "Tracestate",
		"", "a b", "a:b", "a\r\nb", "ä", strings.Repeat("x", 129),
	} {
		if p.ValidHeader(name, "v") == nil {
			t.Errorf("%q is taken", name)
		}
	}
	for _, value := range []string{"hunter2\r\nX: 1", "hunter2\n", "hunter2\x00", " hunter2", "hunter2\t", "\x7fhunter2", strings.Repeat("hunter2", 600)} {
		err := p.ValidHeader("X-A", value)
		if err == nil {
			t.Errorf("value %.20q is taken", value)
		} else if strings.Contains(err.Error(), "hunter2") {
			t.Errorf("the error shows the value: %v", err)
		}
	}
	if err := p.ValidHeader("X-Empty", ""); err != nil {
		t.Errorf("empty value: %v", err)
	}
}

// What is accepted goes to an allowed address, in any reading of it, and reads the same
// again.
func FuzzCheckURL(f *testing.F) {
	for _, row := range urlTable(f) {
		f.Add(row.url)
	}
	policies := []*egress.Policy{{}, {HTTP: true}, dev(f)}
	f.Fuzz(func(t *testing.T, raw string) {
		for _, p := range policies {
			to, err := p.Target(raw)
			if err != nil {
				continue
			}
			if addr, ok := anyAddress(to.Hostname()); ok && !p.Allowed(addr) {
				t.Fatalf("%q goes to %v", raw, addr)
			}
			if to.User != nil || to.Fragment != "" || to.Host == "" {
				t.Fatalf("%q goes to %q", raw, to)
			}
			again, err := p.Target(to.String())
			if err != nil {
				// Escaping may make a URL longer than it was typed.
				if len(to.String()) > 2048 {
					continue
				}
				t.Fatalf("%q goes to %q, which is refused: %v", raw, to, err)
			}
			if again.String() != to.String() || again.Host != to.Host {
				t.Fatalf("%q goes to %q, then to %q", raw, to, again)
			}
		}
	})
}

// anyAddress reads a host as inet_aton and every browser would.
func anyAddress(host string) (netip.Addr, bool) {
	if addr, err := netip.ParseAddr(host); err == nil {
		return addr, true
	}
	parts := strings.Split(strings.TrimSuffix(host, "."), ".")
	if len(parts) > 4 {
		return netip.Addr{}, false
	}
	var value uint64
	for i, part := range parts {
		n, err := strconv.ParseUint(part, 0, 32)
		if err != nil || strings.ContainsAny(part, "_oO") || strings.HasPrefix(strings.ToLower(part), "0b") {
			return netip.Addr{}, false
		}
		if i == len(parts)-1 {
			value |= n
		} else {
			value |= n << (24 - 8*i)
		}
	}
	return netip.AddrFrom4([4]byte{byte(value >> 24), byte(value >> 16), byte(value >> 8), byte(value)}), true
}

func TestDialIsGuardedThoughTheCheckIsNot(t *testing.T) {
	t.Parallel()
	// A name passes every rule of form; only what it resolves to is refused.
	client := (&egress.Policy{HTTP: true}).NewClient(egress.Options{Resolver: resolver(t)})
	defer client.Close()
	for _, host := range []string{"a127", "v6mapped", "nat64", "cname", "azure"} {
		r := client.Post(context.Background(), &egress.Request{URL: "http://" + host + ".attacker.example/?token=hunter2"})
		if r.Code != egress.CodeAddress || r.Code.Text() != "address not allowed: it is not public, and not in WAYBILL_EGRESS_ALLOW" {
			t.Errorf("%s: %s", host, r.Code)
		}
		if r.Err == nil || !errors.Is(r.Err, egress.ErrAddress) || strings.Contains(r.Err.Error(), "hunter2") {
			t.Errorf("%s: error for the log %v", host, r.Err)
		}
	}
}

// The guard at the connection itself does not rely on what was checked before.
func TestLastGuard(t *testing.T) {
	t.Parallel()
	for _, address := range []string{"127.0.0.1:80", "[::1]:80", "[::ffff:10.0.0.1]:80", "168.63.129.16:80", "[fe80::1%lo]:80", "93.184.216.34:0", "nonsense"} {
		if err := (&egress.Policy{}).Control(address); !errors.Is(err, egress.ErrAddress) {
			t.Errorf("%s: %v", address, err)
		}
	}
	if err := (&egress.Policy{}).Control("93.184.216.34:443"); err != nil {
		t.Error(err)
	}
	if err := dev(t).Control("127.0.0.1:80"); err != nil {
		t.Error(err)
	}
}
