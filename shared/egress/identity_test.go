package egress_test

import (
	"crypto/tls"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/receiverauth/receiverauthtest"
)

// identity is one with a certificate that an authority has issued.
func identity(t *testing.T, by *receiverauthtest.Authority, name string) *egress.Identity {
	t.Helper()
	of := by.Auth(t, name)
	pair, err := of.KeyPair()
	if err != nil {
		t.Fatal(err)
	}
	return egress.NewIdentity(&pair, by.Pool)
}

// Each identity shows its own certificate, trusts its own authorities, and no other one gets
// its connections, nor do requests without one.
func TestIdentities(t *testing.T) {
	t.Parallel()
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		authority, stranger := receiverauthtest.New(t), receiverauthtest.New(t)
		server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			_, _ = io.WriteString(w, r.TLS.PeerCertificates[0].Subject.CommonName+" "+r.RemoteAddr)
		}))
		server.TLS = authority.Server(t)
		server.TLS.MaxVersion = version
		server.StartTLS()
		t.Cleanup(server.Close)
		c := client(t, egress.Options{RootCAs: authority.Pool})
		as := func(who *egress.Identity) egress.Response {
			return c.Post(t.Context(), &egress.Request{URL: server.URL, Identity: who})
		}
		one, two := identity(t, authority, "one"), identity(t, authority, "two")
		connections := map[string]string{}
		for range 2 {
			for name, who := range map[string]*egress.Identity{"one": one, "two": two} {
				r := as(who)
				shown, remote, _ := strings.Cut(r.Body, " ")
				if r.Status != http.StatusOK || shown != name {
					t.Fatalf("%s: %+v", name, r)
				}
				if before := connections[name]; before != "" && before != remote {
					t.Errorf("%s has a second connection", name)
				}
				connections[name] = remote
			}
			if r := as(nil); r.Status != 0 {
				t.Errorf("without an identity: %+v", r)
			}
		}
		if connections["one"] == connections["two"] {
			t.Error("two identities share a connection")
		}
		// In TLS 1.3 the receiver may close the connection before it is heard why.
		if r := as(identity(t, stranger, "one")); r.Status != 0 {
			t.Errorf("of a stranger's authority: %+v", r)
		}
		other := authority.Auth(t, "one")
		pair, err := other.KeyPair()
		if err != nil {
			t.Fatal(err)
		}
		if r := as(egress.NewIdentity(&pair, stranger.Pool)); r.Code != egress.CodeTLS || r.Code.Class() != domain.ClassTLS {
			t.Errorf("a receiver of another authority: %+v", r)
		}
	}
}

// A certificate that the receiver refuses is told so.
func TestRefusedCertificate(t *testing.T) {
	t.Parallel()
	authority, stranger := receiverauthtest.New(t), receiverauthtest.New(t)
	server := httptest.NewUnstartedServer(http.NotFoundHandler())
	server.TLS = authority.Server(t)
	server.TLS.MaxVersion = tls.VersionTLS12
	server.StartTLS()
	defer server.Close()
	c := client(t, egress.Options{RootCAs: authority.Pool})
	of := stranger.Auth(t, "x")
	pair, err := of.KeyPair()
	if err != nil {
		t.Fatal(err)
	}
	r := c.Post(t.Context(), &egress.Request{URL: server.URL, Identity: egress.NewIdentity(&pair, authority.Pool)})
	if r.Code != egress.CodeTLS || !strings.Contains(r.Err.Text(), "refuses the certificate") {
		t.Errorf("%+v %s", r, r.Err.Text())
	}
}

// A body is kept whole, up to what is read, when that is asked for.
func TestWholeBody(t *testing.T) {
	t.Parallel()
	for length, want := range map[int]int{10: 10, egress.MaxRead - 1: egress.MaxRead - 1, egress.MaxRead * 4: egress.MaxRead} {
		url, _ := receiver(t, func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, strings.Repeat("x", length)) })
		if r := client(t, egress.Options{}).Post(t.Context(), &egress.Request{URL: url, Whole: true}); len(r.Body) != want {
			t.Errorf("of %d bytes %d are kept, want %d", length, len(r.Body), want)
		}
	}
}
