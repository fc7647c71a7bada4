package edge_test

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/edge"
)

func request(peer string, header http.Header) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", http.NoBody)
	r.RemoteAddr, r.Host, r.Header = peer, "inner:8080", header
	return r
}

var trusting = edge.Edge{Trusted: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("2001:db8:1::/48")}}

// The right-most address that is no proxy's is the client's. A header with anything else in
// it, up to there, is no header.
func TestAddress(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct{ peer, header, want string }{
		"no header":                    {"10.0.0.1:5", "", "10.0.0.1"},
		"one proxy":                    {"10.0.0.1:5", "203.0.113.7", "203.0.113.7"},
		"what the client says":         {"10.0.0.1:5", "192.0.2.1, 203.0.113.7", "203.0.113.7"},
		"two proxies":                  {"10.0.0.1:5", "192.0.2.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"},
		"the client is inside":         {"10.0.0.1:5", "10.1.1.1, 10.9.9.9", "10.1.1.1"},
		"client says an inner address": {"10.0.0.1:5", "10.1.1.1, 203.0.113.7, 10.9.9.9", "203.0.113.7"},
		"several headers":              {"10.0.0.1:5", "192.0.2.1\n203.0.113.7\n10.9.9.9", "203.0.113.7"},
		"ports":                        {"10.0.0.1:5", "203.0.113.7:4711", "203.0.113.7"},
		"IPv6":                         {"[2001:db8:1::1]:5", "2001:db8:9::7", "2001:db8:9::7"},
		"IPv6 with a port":             {"10.0.0.1:5", "[2001:db8:9::7]:80", "2001:db8:9::7"},
		"IPv4 as IPv6":                 {"[::ffff:10.0.0.1]:5", "::ffff:203.0.113.7, ::ffff:10.0.0.9", "203.0.113.7"},
		"zone":                         {"10.0.0.1:5", "fe80::1%eth0", "fe80::1"},
		"the peer is not trusted":      {"203.0.113.66:5", "192.0.2.1", "203.0.113.66"},
		"a peer that looks so":         {"11.0.0.1:5", "192.0.2.1, 10.0.0.1", "11.0.0.1"},
		"not an address":               {"10.0.0.1:5", "client", "10.0.0.1"},
		"unknown":                      {"10.0.0.1:5", "203.0.113.7, unknown", "10.0.0.1"},
		"rubbish before the proxies":   {"10.0.0.1:5", "rubbish, 203.0.113.7", "203.0.113.7"},
		"rubbish among the proxies":    {"10.0.0.1:5", "203.0.113.7, rubbish, 10.9.9.9", "10.0.0.1"},
		"empty member":                 {"10.0.0.1:5", "203.0.113.7,", "10.0.0.1"},
		"leading zeros":                {"10.0.0.1:5", "203.0.113.007", "10.0.0.1"},
		"no peer":                      {"", "203.0.113.7", ""},
	} {
		header := http.Header{}
		if row.header != "" {
			header["X-Forwarded-For"] = strings.Split(row.header, "\n")
		}
		if got := trusting.See(request(row.peer, header)).Address; got != row.want {
			t.Errorf("%s: %q, want %q", name, got, row.want)
		}
		if got := (&edge.Edge{}).See(request("10.0.0.1:5", header)).Address; got != "10.0.0.1" {
			t.Errorf("%s, and nobody is trusted: %q", name, got)
		}
	}
}

func TestSchemeAndHost(t *testing.T) {
	t.Parallel()
	for name, row := range map[string]struct {
		peer, proto, host string
		want              edge.View
	}{
		"nothing":             {"10.0.0.1:5", "", "", edge.View{Scheme: "http", Host: "inner:8080"}},
		"both":                {"10.0.0.1:5", "https", "a.example:8443", edge.View{Scheme: "https", Host: "a.example:8443", Base: "https://a.example:8443"}},
		"scheme alone":        {"10.0.0.1:5", "HTTPS", "", edge.View{Scheme: "https", Host: "inner:8080", Base: "https://inner:8080"}},
		"host alone":          {"10.0.0.1:5", "", "a.example", edge.View{Scheme: "http", Host: "a.example", Base: "http://a.example"}},
		"address":             {"10.0.0.1:5", "https", "[2001:db8::1]:8443", edge.View{Scheme: "https", Host: "[2001:db8::1]:8443", Base: "https://[2001:db8::1]:8443"}},
		"other scheme":        {"10.0.0.1:5", "gopher", "", edge.View{Scheme: "http", Host: "inner:8080"}},
		"two schemes":         {"10.0.0.1:5", "https, http", "", edge.View{Scheme: "http", Host: "inner:8080"}},
		"two hosts":           {"10.0.0.1:5", "", "a.example, b.example", edge.View{Scheme: "http", Host: "inner:8080"}},
		"two host headers":    {"10.0.0.1:5", "", "a.example\nb.example", edge.View{Scheme: "http", Host: "inner:8080"}},
		"host with a path":    {"10.0.0.1:5", "", "a.example/evil", edge.View{Scheme: "http", Host: "inner:8080"}},
		"host with a user":    {"10.0.0.1:5", "", "u@a.example", edge.View{Scheme: "http", Host: "inner:8080"}},
		"host that is markup": {"10.0.0.1:5", "", `"><script>`, edge.View{Scheme: "http", Host: "inner:8080"}},
		"port that is none":   {"10.0.0.1:5", "", "a.example:x", edge.View{Scheme: "http", Host: "inner:8080"}},
		"broken address":      {"10.0.0.1:5", "", "[::1", edge.View{Scheme: "http", Host: "inner:8080"}},
		"not trusted":         {"203.0.113.66:5", "https", "a.example", edge.View{Scheme: "http", Host: "inner:8080"}},
	} {
		header := http.Header{}
		if row.proto != "" {
			header["X-Forwarded-Proto"] = []string{row.proto}
		}
		if row.host != "" {
			header["X-Forwarded-Host"] = strings.Split(row.host, "\n")
		}
		got := trusting.See(request(row.peer, header))
		row.want.Address = got.Address
		if diff := cmp.Diff(row.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
		public := trusting
		public.PublicURL = "https://api.example/waybill"
		if got := public.See(request(row.peer, header)).Base; got != public.PublicURL {
			t.Errorf("%s, with a public URL: %q", name, got)
		}
	}
}

func TestOf(t *testing.T) {
	t.Parallel()
	r := request("[2001:db8::1]:5", nil)
	r.TLS = &tls.ConnectionState{}
	if diff := cmp.Diff(edge.View{Address: "2001:db8::1", Scheme: "https", Host: "inner:8080"}, edge.Of(r)); diff != "" || edge.Known(r.Context()) {
		t.Errorf("of a connection (-want +got):\n%s", diff)
	}
	want := edge.View{Address: "203.0.113.7", Scheme: "http", Host: "x", Base: "y"}
	r = r.WithContext(edge.With(r.Context(), want))
	if diff := cmp.Diff(want, edge.Of(r)); diff != "" || !edge.Known(r.Context()) {
		t.Errorf("of a context (-want +got):\n%s", diff)
	}
}

// Whatever a trusted proxy hands on, what is made of it is an address or the peer's, and a
// base that is one URL without a path.
func FuzzSee(f *testing.F) {
	f.Add("203.0.113.7, 10.0.0.2", "https", "a.example:80")
	f.Add("[::1]:80,,", "http", "[::1]")
	f.Fuzz(func(t *testing.T, addresses, proto, host string) {
		v := trusting.See(request("10.0.0.1:5", http.Header{
			"X-Forwarded-For": {addresses}, "X-Forwarded-Proto": {proto}, "X-Forwarded-Host": {host},
		}))
		if _, err := netip.ParseAddr(v.Address); err != nil {
			t.Errorf("address %q", v.Address)
		}
		rest, ok := strings.CutPrefix(v.Base, v.Scheme+"://")
		if v.Base != "" && (!ok || strings.ContainsAny(rest, "/?#@\\\"<> ,") || rest == "") {
			t.Errorf("base %q", v.Base)
		}
	})
}
