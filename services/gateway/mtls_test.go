package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/certificate"
	"waybill.dev/shared/certificate/certificatetest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store/clientcas"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

// guarded are routes that ask for a certificate: of one CA, of any or none, and before a back end
// that gets it. The last one asks for none.
const guarded = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
	"/strict":{"get":{"operationId":"strict","x-gateway-route":{"policies":{"inbound":["strict"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}},
	"/optional":{"get":{"operationId":"optional","x-gateway-route":{"policies":{"inbound":["optional"]},"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"BACK"}}}}},
	"/forward":{"get":{"operationId":"forward","x-gateway-route":{"policies":{"inbound":["forward"]},"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"BACK"}}}}},
	"/limited":{"get":{"operationId":"limited","x-gateway-route":{"policies":{"inbound":["strict","limit"]},"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"inside"}}}}},
	"/open":{"get":{"operationId":"open","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"BACK"}}}}}}}`

const guards = `{"policies":[
	{"policyType":"mtls-auth-inbound","name":"strict","handler":{"module":"$import(@gateway/runtime)","export":"MTLSAuthInboundPolicy","options":{"certIssuerDN":"cn = partner ca"}}},
	{"policyType":"mtls-auth-inbound","name":"optional","handler":{"module":"$import(@gateway/runtime)","export":"MTLSAuthInboundPolicy","options":{"allowUnauthenticatedRequests":true,"forward":true}}},
	{"policyType":"mtls-auth-inbound","name":"forward","handler":{"module":"$import(@gateway/runtime)","export":"MTLSAuthInboundPolicy","options":{"certIssuerDN":"CN=Partner CA","forward":true}}},
	{"policyType":"rate-limit-inbound","name":"limit","handler":{"module":"$import(@gateway/runtime)","export":"RateLimitInboundPolicy","options":{"rateLimitBy":"user","requestsAllowed":1,"timeWindowMinutes":60}}}]}`

// mtlsRig is a gateway that listens with TLS. The accounts default and acme have a deployment each.
type mtlsRig struct {
	*rig
	cas         *clientcas.ClientCAs
	addr        string // of the TLS listener
	roots       *x509.CertPool
	shop, other string // hosts of the deployments of default and acme
	deployment  string // the first one
}

func newMTLSRig(t *testing.T, kind storetest.Kind) *mtlsRig {
	t.Helper()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { _ = json.NewEncoder(w).Encode(r.Header) }))
	t.Cleanup(back.Close)
	ca := certificatetest.NewCA(t, "Server CA", nil)
	server := ca.Issue(t, "gateway", func(c *x509.Certificate) {
		c.DNSNames, c.ExtKeyUsage = []string{"*.gateway.localhost"}, []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth}
	}).TLS()
	r := &mtlsRig{roots: x509.NewCertPool()}
	r.roots.AddCert(ca.Certificate)
	var recorder *gateway.Traffic
	r.rig = newRigOn(t, kind, func(o *gateway.Options) {
		recorder = gateway.NewTraffic(gateway.TrafficOptions{Store: traffic.New(o.Store), Rate: 200, Logger: slog.New(slog.DiscardHandler)})
		o.Traffic, o.Certificate = recorder, func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &server, nil }
		o.Egress, o.Own = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}, func() []string { return nil }
	})
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- recorder.Run(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	r.cas = clientcas.New(r.db)
	writing, _ := r.db.Handles()
	if _, err := writing.ExecContext(t.Context(), "INSERT INTO accounts (id, name, created_at) VALUES ('acme', 'acme', $1)", r.db.Moment(r.db.Now())); err != nil {
		t.Fatal(err)
	}
	files := gatewaytest.Files{"a.oas.json": strings.ReplaceAll(guarded, "BACK", back.URL+"/"), "policies.json": guards}
	host := func(account string) string {
		d := deploymentstest.Deployment{Account: account, Project: "shop", Branch: "main", Format: "zip", Archive: zipped(t, files)}
		d.Activate(t, r.db)
		return d.Name() + ".gateway.localhost"
	}
	r.shop, r.other = host("default"), host("acme")
	r.deployment = strings.TrimSuffix(r.shop, ".gateway.localhost")
	r.run()
	r.listen()
	gatewaytest.Within(t, time.Minute, "the deployments are served", func() bool {
		return r.ask("GET", r.shop, "/strict").Code == http.StatusUnauthorized && r.ask("GET", r.other, "/strict").Code == http.StatusUnauthorized
	})
	return r
}

// listen serves as a process does.
func (r *mtlsRig) listen() {
	r.t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		r.t.Fatal(err)
	}
	s := &http.Server{Handler: r.handler, TLSConfig: r.service.TLS(), ConnContext: r.service.ConnContext, ReadHeaderTimeout: time.Minute, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelInfo)}
	served := make(chan error, 1)
	go func() { served <- s.ServeTLS(l, "", "") }()
	r.t.Cleanup(func() { _ = s.Close(); <-served })
	r.addr = l.Addr().String()
}

// upload gives an account a CA, and returns what takes it away again.
func (r *mtlsRig) upload(account, name string, ca *certificatetest.Issuer) (remove func()) {
	r.t.Helper()
	made, err := r.cas.CreateClientCA(r.t.Context(), account, name, ca.Raw, ca.NotAfter)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bus.Announce(bus.SubjectGateway, nil)
	return func() {
		r.t.Helper()
		if err := r.cas.DeleteClientCA(r.t.Context(), account, made.ID); err != nil {
			r.t.Fatal(err)
		}
		r.bus.Announce(bus.SubjectGateway, nil)
	}
}

// caller is a client with connections of its own.
type caller struct {
	*mtlsRig
	http   *http.Client
	config *tls.Config
}

// caller returns a client that shows a certificate, whatever the server has asked for; nil: none.
func (r *mtlsRig) caller(shown *tls.Certificate, change func(*http.Transport)) *caller {
	c := &caller{mtlsRig: r, config: &tls.Config{RootCAs: r.roots, MinVersion: tls.VersionTLS12}}
	if shown != nil {
		c.config.GetClientCertificate = func(*tls.CertificateRequestInfo) (*tls.Certificate, error) { return shown, nil }
	}
	transport := &http.Transport{TLSClientConfig: c.config, ForceAttemptHTTP2: true, DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, r.addr)
	}}
	if change != nil {
		change(transport)
	}
	r.t.Cleanup(transport.CloseIdleConnections)
	c.http = &http.Client{Transport: transport, Timeout: time.Minute}
	return c
}

func http1(t *http.Transport) {
	t.ForceAttemptHTTP2 = false
	t.TLSClientConfig.NextProtos = []string{"http/1.1"}
}

// reply is an answer, and how it came.
type reply struct {
	status int
	body   string
	tls    *tls.ConnectionState
	reused bool // the connection was there before
}

// get asks for a path. For is the Host of the request, when that is another one than the
// connection's.
func (c *caller) get(host, path, hostOfRequest string, header ...string) reply {
	c.t.Helper()
	var got reply
	ctx := httptrace.WithClientTrace(c.t.Context(), &httptrace.ClientTrace{GotConn: func(i httptrace.GotConnInfo) { got.reused = i.Reused }})
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "https://"+host+path, http.NoBody)
	if err != nil {
		c.t.Fatal(err)
	}
	request.Host = hostOfRequest
	for i := 0; i < len(header); i += 2 {
		request.Header[header[i]] = []string{header[i+1]} // spelled as it is
	}
	response, err := c.http.Do(request)
	if err != nil {
		c.t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	got.status, got.body, got.tls = response.StatusCode, string(body), response.TLS
	return got
}

func (c *caller) want(what, path string, status int) reply {
	c.t.Helper()
	got := c.get(c.shop, path, "")
	if got.status != status {
		c.t.Errorf("%s: %d %s, want %d", what, got.status, got.body, status)
	}
	return got
}

// known waits until a client of the CA is let in.
func (r *mtlsRig) known(ca *certificatetest.Issuer) *certificatetest.Issuer {
	r.t.Helper()
	leaf := ca.Issue(r.t, "till", nil)
	shown := leaf.TLS()
	gatewaytest.Within(r.t, 20*time.Second, "the CA is known", func() bool {
		return r.caller(&shown, nil).get(r.shop, "/strict", "").status == http.StatusOK
	})
	return leaf
}

// A certificate lets in when a CA of the deployment's account has issued it directly, for clients,
// and it is good now. Anything else is 401.
func TestClientCertificates(t *testing.T) {
	t.Parallel()
	storetest.Each(t, clientCertificates)
}

func clientCertificates(t *testing.T, kind storetest.Kind) {
	r := newMTLSRig(t, kind)
	ca, theirs := certificatetest.NewCA(t, "Partner CA", nil), certificatetest.NewCA(t, "Partner CA", nil)
	more := certificatetest.NewCA(t, "Second CA", nil)
	ended := certificatetest.NewCA(t, "Partner CA", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) })
	r.upload("acme", "theirs", theirs)
	r.upload("default", "second", more)
	r.upload("default", "ended", ended)
	r.upload("default", "partners", ca)
	leaf := r.known(ca)
	below := ca.NewCA(t, "Below")
	rows := []struct {
		what    string
		shown   *certificatetest.Issuer
		others  []*certificatetest.Issuer
		because string
	}{
		{"none", nil, nil, "none was shown"},
		{"signed by itself", (*certificatetest.Issuer)(nil).Issue(t, "till", nil), nil, "no CA of the account has issued it"},
		{"of another account's CA", theirs.Issue(t, "till", nil), []*certificatetest.Issuer{theirs}, "no CA of the account has issued it"},
		{"expired", ca.Issue(t, "till", func(c *x509.Certificate) { c.NotAfter = time.Now().Add(-time.Minute) }), nil, "not good at this time"},
		{"early", ca.Issue(t, "till", func(c *x509.Certificate) { c.NotBefore = time.Now().Add(time.Minute) }), nil, "not good at this time"},
		{"for servers", ca.Issue(t, "till", func(c *x509.Certificate) { c.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth} }), nil, "not for clients"},
		{"by an intermediate", below.Issue(t, "till", nil), []*certificatetest.Issuer{below, ca}, "no CA of the account has issued it"},
		{"by a leaf", leaf.Issue(t, "till", nil), []*certificatetest.Issuer{leaf, ca}, "no CA of the account has issued it"},
		{"same subject, another key", certificatetest.NewCA(t, "Partner CA", nil).Issue(t, "till", nil), []*certificatetest.Issuer{ca}, "no CA of the account has issued it"},
		{"the CA itself", ca, nil, "of a CA itself"},
		{"an intermediate itself", below, []*certificatetest.Issuer{ca}, "of a CA itself"},
		{"of a CA that has ended", ended.Issue(t, "till", nil), nil, ""},
		{"of another CA of the account", more.Issue(t, "till", nil), nil, "certIssuerDN"},
	}
	for _, version := range []uint16{tls.VersionTLS12, tls.VersionTLS13} {
		for _, change := range []func(*http.Transport){nil, http1} {
			for _, row := range rows {
				var shown *tls.Certificate
				if row.shown != nil {
					pair := row.shown.TLS(row.others...)
					shown = &pair
				}
				c := r.caller(shown, change)
				c.config.MinVersion, c.config.MaxVersion = version, version
				for range 2 { // the second verdict is remembered
					if got := c.want(row.what, "/strict", http.StatusUnauthorized); !strings.Contains(got.body, `"UNAUTHENTICATED"`) || strings.Contains(got.body, "Partner") {
						t.Errorf("%s: %s", row.what, got.body)
					}
				}
			}
			shown := leaf.TLS()
			c := r.caller(&shown, change)
			c.config.MinVersion, c.config.MaxVersion = version, version
			c.want("the right one", "/strict", http.StatusOK)
			if got := c.want("the right one again", "/strict", http.StatusOK); !got.reused {
				t.Error("the connection was not kept")
			}
		}
	}
	log := traffic.New(r.db)
	for _, row := range rows {
		gatewaytest.Within(t, 20*time.Second, "the log tells of "+row.what, func() bool { return logged(t, log, r.deployment, row.because) })
	}
}

// logged reports whether the log of a deployment says why a certificate was refused.
func logged(t *testing.T, log *traffic.Traffic, deployment, because string) bool {
	t.Helper()
	calls, err := log.RecentCalls(t.Context(), deployment, time.Now().Add(-time.Hour), []string{domain.ConsumerAnonymous}, 1000)
	if err != nil {
		t.Fatal(err)
	}
	for _, call := range calls {
		one, err := log.GetRequest(t.Context(), deployment, call.RequestID)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range one.Entries {
			if strings.HasPrefix(e.Message, "The client certificate was refused: ") && strings.Contains(e.Message, because) {
				return true
			}
		}
	}
	return false
}

// The back end gets the certificate where the policy says so. Callers can't make it up, in any
// spelling.
func TestForwardedCertificate(t *testing.T) {
	t.Parallel()
	r := newMTLSRig(t, storetest.SQLite())
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	r.upload("default", "partners", ca)
	leaf := r.known(ca)
	shown := leaf.TLS()
	c := r.caller(&shown, http1)
	forged := []string{
		"Client-Cert", ":Zm9yZ2Vk:", "Client-Cert-Subject", "CN=forged", "Client-Cert-Fingerprint", "forged", "Client-Cert-Chain", "forged",
		"client_cert", "forged", "Client_Cert_Subject", "forged", "Client-Certain", "kept",
	}
	header := func(host, path string, c *caller) map[string][]string {
		t.Helper()
		got := c.get(host, path, "", forged...)
		seen := map[string][]string{}
		if err := json.Unmarshal([]byte(got.body), &seen); err != nil || got.status != http.StatusOK {
			t.Fatalf("%s: %d %s", path, got.status, got.body)
		}
		return seen
	}
	want := map[string]string{
		"Client-Cert": ":" + base64.StdEncoding.EncodeToString(leaf.Raw) + ":", "Client-Cert-Subject": "CN=till",
		"Client-Cert-Fingerprint": certificate.Fingerprint(leaf.Certificate), "Client-Certain": "kept",
	}
	for _, path := range []string{"/forward", "/optional"} {
		check(t, path, header(r.shop, path, c), want)
	}
	check(t, "/open", header(r.shop, "/open", c), map[string]string{"Client-Certain": "kept"})
	check(t, "/optional without", header(r.shop, "/optional", r.caller(nil, http1)), map[string]string{"Client-Certain": "kept"})
}

// check compares the headers that speak of certificates.
func check(t *testing.T, what string, got map[string][]string, want map[string]string) {
	t.Helper()
	for name, values := range got {
		if plain := strings.ReplaceAll(strings.ToLower(name), "_", "-"); strings.HasPrefix(plain, "client-cert") && fmt.Sprint(values) != "["+want[name]+"]" {
			t.Errorf("%s: the back end got %s: %v", what, name, values)
		}
	}
	for name, value := range want {
		if fmt.Sprint(got[name]) != "["+value+"]" {
			t.Errorf("%s: %s is %v, want %s", what, name, got[name], value)
		}
	}
}

// Without TLS of the gateway's own there is no certificate, whatever headers say.
func TestCertificateOnPlainHTTP(t *testing.T) {
	t.Parallel()
	r := newMTLSRig(t, storetest.SQLite())
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	r.upload("default", "partners", ca)
	leaf := r.known(ca)
	w := r.ask(http.MethodGet, r.shop, "/strict", "X-Forwarded-Proto", "https", "Client-Cert", ":"+base64.StdEncoding.EncodeToString(leaf.Raw)+":",
		"X-Forwarded-Client-Cert", "Subject=CN=till", "X-SSL-Client-Verify", "SUCCESS")
	if w.Code != http.StatusUnauthorized || w.Header().Get("WWW-Authenticate") != "ClientCertificate" {
		t.Errorf("%d %v", w.Code, w.Header())
	}
	if w := r.ask(http.MethodGet, r.shop, "/optional", "Client-Cert", ":x:"); w.Code != http.StatusOK || strings.Contains(w.Body.String(), "Client-Cert") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// A CA that was deleted lets nobody in any more, on connections that are open, too. One that is
// uploaded lets in on connections that have shown a certificate already.
func TestDeletedCA(t *testing.T) {
	t.Parallel()
	storetest.Each(t, deletedCA)
}

func deletedCA(t *testing.T, kind storetest.Kind) {
	r := newMTLSRig(t, kind)
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	remove := r.upload("default", "partners", ca)
	shown := r.known(ca).TLS()
	one, two := r.caller(&shown, http1), r.caller(&shown, nil)
	for _, c := range []*caller{one, two} {
		c.want("before", "/strict", http.StatusOK)
	}
	for _, remove := range []func(){remove, nil} {
		if remove == nil {
			remove = r.upload("default", "again", ca)
			gatewaytest.Within(t, 20*time.Second, "the CA is known again", func() bool { return one.get(r.shop, "/strict", "").status == http.StatusOK })
			if got := two.want("again", "/strict", http.StatusOK); !got.reused {
				t.Error("the connection was not kept")
			}
		}
		began := time.Now()
		remove()
		for _, c := range []*caller{one, two} {
			gatewaytest.Within(t, 20*time.Second, "the CA is forgotten", func() bool {
				got := c.get(r.shop, "/strict", "")
				if !got.reused {
					t.Error("the connection was not kept")
				}
				return got.status == http.StatusUnauthorized
			})
		}
		took := time.Since(began)
		t.Logf("refused %v after the deletion", took)
		if took > 3*time.Second { // 1 s is promised; others work on the machine of a test
			t.Errorf("refused %v after the deletion", took)
		}
	}
}

// anyHost gives the last session to whoever connects, whatever the host.
type anyHost struct {
	mu   sync.Mutex
	last *tls.ClientSessionState
}

func (a *anyHost) Get(string) (*tls.ClientSessionState, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.last, a.last != nil
}

func (a *anyHost) Put(_ string, s *tls.ClientSessionState) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.last = s
}

// Sessions are resumed where nobody is asked for a certificate, and nowhere else: not with a
// session of another host, and not after the CA was deleted.
func TestResumption(t *testing.T) {
	t.Parallel()
	r := newMTLSRig(t, storetest.SQLite())
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	remove := r.upload("default", "partners", ca)
	shown := r.known(ca).TLS()
	sessions := map[uint16]*anyHost{tls.VersionTLS12: {}, tls.VersionTLS13: {}}
	connect := func(version uint16, with *tls.Certificate, host string) reply {
		t.Helper()
		return r.caller(with, func(transport *http.Transport) {
			transport.DisableKeepAlives = true
			transport.TLSClientConfig.MinVersion, transport.TLSClientConfig.MaxVersion = version, version
			transport.TLSClientConfig.ClientSessionCache = sessions[version]
		}).get(host, "/strict", "")
	}
	for version := range sessions {
		connect(version, nil, r.other)
		if got := connect(version, nil, r.other); !got.tls.DidResume || got.status != http.StatusUnauthorized {
			t.Errorf("%x: a host without CAs: resumed %t, %d", version, got.tls.DidResume, got.status)
		}
		if got := connect(version, nil, r.shop); got.tls.DidResume || got.status != http.StatusUnauthorized {
			t.Errorf("%x: with the session of another host: resumed %t, %d", version, got.tls.DidResume, got.status)
		}
		for range 2 {
			if got := connect(version, &shown, r.shop); got.tls.DidResume || got.status != http.StatusOK {
				t.Errorf("%x: with a certificate: resumed %t, %d", version, got.tls.DidResume, got.status)
			}
		}
		if got := connect(version, nil, r.shop); got.tls.DidResume || got.status != http.StatusUnauthorized {
			t.Errorf("%x: after one with a certificate: resumed %t, %d", version, got.tls.DidResume, got.status)
		}
		if got := connect(version, nil, r.other); got.status != http.StatusUnauthorized {
			t.Errorf("%x: another host after one with a certificate: %d", version, got.status)
		}
	}
	remove()
	for version := range sessions {
		gatewaytest.Within(t, 20*time.Second, "the CA is forgotten", func() bool { return connect(version, &shown, r.shop).status == http.StatusUnauthorized })
		if got := connect(version, &shown, r.shop); got.status != http.StatusUnauthorized {
			t.Errorf("%x: after the deletion: %d", version, got.status)
		}
	}
}

// A connection is for the hosts of one account: a browser that sends requests for others over it
// is told to open one for them.
func TestCoalescedConnections(t *testing.T) {
	t.Parallel()
	r := newMTLSRig(t, storetest.SQLite())
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	r.upload("default", "partners", ca)
	r.upload("acme", "partners", ca)
	shown := r.known(ca).TLS()
	c := r.caller(&shown, nil)
	if got := c.want("its host", "/strict", http.StatusOK); got.tls.NegotiatedProtocol != "h2" {
		t.Errorf("the protocol is %s", got.tls.NegotiatedProtocol)
	}
	for _, host := range []string{r.other, "gateway.localhost", "localhost"} {
		if got := c.get(r.shop, "/strict", host); got.status != http.StatusMisdirectedRequest || !strings.Contains(got.body, `"MISDIRECTED"`) {
			t.Errorf("%s: %d %s", host, got.status, got.body)
		}
	}
	if got := c.get(r.other, "/strict", ""); got.status != http.StatusOK {
		t.Errorf("over a connection of its own: %d %s", got.status, got.body)
	}
}

// The subject of the certificate is the caller for limits and statistics when there is no key.
func TestCertificateIsTheCaller(t *testing.T) {
	t.Parallel()
	r := newMTLSRig(t, storetest.SQLite())
	ca := certificatetest.NewCA(t, "Partner CA", nil)
	r.upload("default", "partners", ca)
	r.known(ca)
	for _, name := range []string{"one", "two"} {
		shown, again := ca.Issue(t, name, nil).TLS(), ca.Issue(t, name, nil).TLS()
		r.caller(&shown, nil).want("the first request of "+name, "/limited", http.StatusOK)
		r.caller(&again, nil).want("the second request of "+name, "/limited", http.StatusTooManyRequests)
	}
	log := traffic.New(r.db)
	gatewaytest.Within(t, 20*time.Second, "the calls are counted", func() bool {
		calls, err := log.RecentCalls(t.Context(), r.deployment, time.Now().Add(-time.Hour), []string{"cert:CN=one"}, 10)
		if err != nil {
			t.Fatal(err)
		}
		return len(calls) == 2
	})
}
