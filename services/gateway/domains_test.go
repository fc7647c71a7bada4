package gateway_test

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/letsencrypt/pebble/v2/ca"
	memory "github.com/letsencrypt/pebble/v2/db"
	"github.com/letsencrypt/pebble/v2/va"
	"github.com/letsencrypt/pebble/v2/wfe"
	"github.com/miekg/dns"
	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway"
	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/receiverauth/receiverauthtest"
	"waybill.dev/shared/store/domains"
	"waybill.dev/shared/store/storetest"
)

// authority is a certificate authority in this process. It looks for proofs at one gateway.
type authority struct {
	directory string
	trusted   *x509.CertPool // by its address
	roots     *x509.CertPool // of the certificates that it gives
	orders    atomic.Int64   // that it has taken or answered with 429
	enough    atomic.Bool    // it answers orders with 429
}

// newAuthority starts one that looks for proofs at the ports.
func newAuthority(t *testing.T, httpPort, tlsPort int, validity time.Duration) *authority {
	t.Helper()
	quiet := slog.NewLogLogger(slog.DiscardHandler, slog.LevelError)
	db := memory.NewMemoryStore()
	issuing := ca.New(quiet, db, "", "ecdsa", 0, 1, map[string]ca.Profile{"default": {Description: "all", ValidityPeriod: uint64(validity.Seconds())}})
	front := wfe.New(quiet, db, va.New(quiet, httpPort, tlsPort, false, resolver(t), db), issuing, []string{"authority.test"}, false, false, 1, 1)
	a := &authority{roots: x509.NewCertPool()}
	handler := front.Handler()
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/order-plz" {
			w = &taking{w, a}
			if a.enough.Load() {
				a.orders.Add(1)
				w.Header().Set("Content-Type", "application/problem+json")
				w.Header().Set("Replay-Nonce", "none")
				w.WriteHeader(http.StatusTooManyRequests)
				_, _ = io.WriteString(w, `{"type":"urn:ietf:params:acme:error:rateLimited","detail":"too many certificates already issued","status":429}`)
				return
			}
		}
		handler.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	a.directory, a.trusted = server.URL+"/dir", x509.NewCertPool()
	a.trusted.AddCert(server.Certificate())
	block, _ := pem.Decode(issuing.GetRootCert(0).PEM())
	root, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	a.roots.AddCert(root)
	return a
}

// taking counts the orders that an authority takes. It refuses some requests for their nonce, as
// every client must expect; these are sent again.
type taking struct {
	http.ResponseWriter
	by *authority
}

func (t *taking) WriteHeader(status int) {
	if status == http.StatusCreated {
		t.by.orders.Add(1)
	}
	t.ResponseWriter.WriteHeader(status)
}

// resolver starts a name server for which every host is this machine, and returns its address.
func resolver(t *testing.T) string {
	t.Helper()
	listener := listenOn(t)
	server := &dns.Server{Listener: listener, Handler: dns.HandlerFunc(func(w dns.ResponseWriter, question *dns.Msg) {
		answer := new(dns.Msg)
		answer.SetReply(question)
		if q := question.Question[0]; q.Qtype == dns.TypeA {
			answer.Answer = append(answer.Answer, &dns.A{Hdr: dns.RR_Header{Name: q.Name, Rrtype: dns.TypeA, Class: dns.ClassINET, Ttl: 1}, A: net.IPv4(127, 0, 0, 1)})
		}
		_ = w.WriteMsg(answer)
	})}
	ended := make(chan error, 1)
	go func() { ended <- server.ActivateAndServe() }()
	t.Cleanup(func() {
		_ = server.Shutdown()
		<-ended
	})
	return listener.Addr().String()
}

// listening is a gateway with servers in front of it.
type listening struct {
	*rig
	http, tls net.Listener
}

func listenOn(t *testing.T) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func port(l net.Listener) int { return int(netip.MustParseAddrPort(l.Addr().String()).Port()) }

// listen puts servers in front of a gateway that runs.
func (r *rig) listen(plain, encrypted net.Listener) *listening {
	r.t.Helper()
	for l, config := range map[net.Listener]*tls.Config{plain: nil, encrypted: r.service.TLS()} {
		server := &http.Server{Handler: r.handler, TLSConfig: config, ErrorLog: slog.NewLogLogger(slog.DiscardHandler, slog.LevelError), ReadHeaderTimeout: 20 * time.Second}
		go func() {
			if config == nil {
				_ = server.Serve(l)
			} else {
				_ = server.ServeTLS(l, "", "")
			}
		}()
		r.t.Cleanup(func() { _ = server.Close() })
	}
	return &listening{r, plain, encrypted}
}

// another returns one more gateway on the same database and bus.
func (r *rig) another(change func(*gateway.Options)) *rig {
	r.t.Helper()
	other := &rig{t: r.t, db: r.db, keys: r.keys, nats: r.nats, logs: &gatewaytest.Logs{}}
	var err error
	if other.bus, err = bus.Connect(bus.Options{URL: r.nats.URL(), Name: "other", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}}); err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(other.bus.Close)
	options := gateway.Options{
		Store: r.db, Bus: other.bus, Keyring: r.keys, Egress: &egress.Policy{}, Own: other.bus.Addresses,
		Logger: slog.New(slog.NewJSONHandler(other.logs, nil)), Registerer: prometheus.NewRegistry(),
	}
	change(&options)
	if other.service, err = gateway.New(options); err != nil {
		r.t.Fatal(err)
	}
	other.handler = other.service.Handler(nil)
	return other
}

// domain gives a hostname to the default account, and tells gateways.
func (r *rig) domain(hostname string) domain.CustomDomain {
	r.t.Helper()
	made, err := domains.New(r.db).CreateCustomDomain(r.t.Context(), domain.CustomDomain{Account: domain.DefaultAccount, Hostname: hostname}, true)
	if err != nil {
		r.t.Fatal(err)
	}
	r.bus.Announce(bus.SubjectGateway, nil)
	return made
}

// passes lets a hostname pass from the default account to another one, which has a newer proof, and tells gateways.
func (r *rig) passes(hostname string) {
	r.t.Helper()
	ctx, tables := r.t.Context(), domains.New(r.db)
	writing, _ := r.db.Handles()
	if _, err := writing.ExecContext(ctx, "INSERT INTO accounts (id, name, created_at) VALUES ('acme', 'acme', $1)", r.db.Moment(r.db.Now())); err != nil {
		r.t.Fatal(err)
	}
	waits, err := tables.CreateCustomDomain(ctx, domain.CustomDomain{Account: "acme", Hostname: hostname}, false)
	if err != nil {
		r.t.Fatal(err)
	}
	for range 2 {
		noted, err := tables.NoteAnswer(ctx, waits, domains.Answer{Known: true, Proofs: []string{waits.Token}})
		if err != nil || !noted.Changed {
			r.t.Fatalf("%+v, %v", noted, err)
		}
		if _, err := writing.ExecContext(ctx, "UPDATE gateway_domains SET notice_at = $1 WHERE notice_at IS NOT NULL", r.db.Moment(r.db.Now().Add(-domain.DomainNoticeTime))); err != nil {
			r.t.Fatal(err)
		}
	}
	r.bus.Announce(bus.SubjectGateway, nil)
}

// handshake connects as a client that trusts the roots, and returns the certificate that it got.
func (l *listening) handshake(name string, roots *x509.CertPool) (*x509.Certificate, error) {
	dialer := tls.Dialer{NetDialer: &net.Dialer{Timeout: 20 * time.Second}, Config: &tls.Config{ServerName: name, RootCAs: roots, MinVersion: tls.VersionTLS12}}
	ctx, cancel := context.WithTimeout(context.Background(), 25*time.Second)
	defer cancel()
	conn, err := dialer.DialContext(ctx, "tcp", l.tls.Addr().String())
	if err != nil {
		return nil, err
	}
	defer conn.Close()
	return conn.(*tls.Conn).ConnectionState().PeerCertificates[0], nil
}

// ordering returns what gives a gateway the authority, which looks for proofs of one kind.
func ordering(a *authority, challenges ...string) func(*gateway.Options) {
	return func(o *gateway.Options) {
		o.ACME = gateway.ACME{Directory: a.directory, Trusted: a.trusted, Challenges: challenges, RenewEvery: 100 * time.Millisecond}
	}
}

// A gateway that has ordered nothing answers the authority, by either challenge. The hostname is
// served soon after its account has it.
func TestAnyGatewayAnswersTheAuthority(t *testing.T) {
	t.Parallel()
	for _, challenge := range []string{"http-01", "tls-alpn-01"} {
		t.Run(challenge, func(t *testing.T) {
			t.Parallel()
			plain, encrypted := listenOn(t), listenOn(t)
			a := newAuthority(t, port(plain), port(encrypted), time.Hour)
			orders := newRig(t, ordering(a, challenge))
			orders.run()
			// It has an authority to answer, and can't reach it to order.
			answers := orders.another(func(o *gateway.Options) {
				o.ACME = gateway.ACME{Directory: a.directory, Trusted: x509.NewCertPool(), Challenges: []string{challenge}}
			})
			answers.run()
			served := answers.listen(plain, encrypted)
			t.Cleanup(func() {
				if t.Failed() {
					t.Log(orders.logs.String())
				}
			})
			began := time.Now()
			orders.domain("api.example.org")
			gatewaytest.Within(t, 30*time.Second, "the certificate is there", func() bool {
				state, err := domains.New(orders.db).CertificateState(t.Context(), "api.example.org")
				return err == nil && !state.ValidTo.IsZero()
			})
			// It is noted a moment before it is stored, and another gateway may have looked in between.
			gatewaytest.Within(t, 20*time.Second, "the hostname is served", func() bool {
				c, err := served.handshake("api.example.org", a.roots)
				return err == nil && c.DNSNames[0] == "api.example.org"
			})
			t.Logf("served %s after it was verified", time.Since(began).Round(time.Millisecond))
			if n := a.orders.Load(); n != 1 {
				t.Errorf("%d orders", n)
			}
			list, _, err := domains.New(orders.db).ListCustomDomains(t.Context(), domain.DefaultAccount, page)
			if err != nil || list[0].Certificate.Status(time.Now()) != domain.CertificateActive || list[0].Certificate.Source != domain.CertificateACME {
				t.Errorf("listed: %+v, %v", list, err)
			}
			// Nothing of an order that is over is left, and other paths are the deployment's.
			response, err := http.Get("http://" + plain.Addr().String() + "/.well-known/acme-challenge/x")
			if err != nil || response.StatusCode != http.StatusNotFound {
				t.Errorf("a proof of no order: %v, %v", response, err)
			}
			_ = response.Body.Close()
			if strings.Contains(orders.logs.String(), "PRIVATE KEY") {
				t.Error("the log has a key")
			}
		})
	}
}

// However many clients come at once, over however many gateways, there is one order a name.
func TestOneOrderForManyHandshakes(t *testing.T) {
	t.Parallel()
	storetest.Each(t, oneOrder)
}

func oneOrder(t *testing.T, kind storetest.Kind) {
	plain, encrypted := listenOn(t), listenOn(t)
	a := newAuthority(t, port(plain), port(encrypted), time.Hour)
	one := newRigOn(t, kind, ordering(a))
	one.run()
	two := one.another(ordering(a))
	two.run()
	gateways := []*listening{one.listen(plain, encrypted), two.listen(listenOn(t), listenOn(t))}
	names := []string{"a.example.org", "b.example.org"}
	for _, name := range names {
		one.domain(name)
	}
	for i, g := range gateways {
		gatewaytest.Within(t, 20*time.Second, "gateway "+strconv.Itoa(i)+" knows the names", func() bool { return g.known(names[1]) })
	}
	var clients sync.WaitGroup
	var failed atomic.Int64
	for i := range 100 {
		clients.Go(func() {
			if _, err := gateways[i%2].handshake(names[i/2%2], a.roots); err != nil {
				failed.Add(1)
				t.Log(err)
			}
		})
	}
	clients.Wait()
	if failed.Load() > 0 {
		t.Log(one.logs, two.logs)
	}
	if failed.Load() > 0 || a.orders.Load() != int64(len(names)) {
		t.Errorf("%d handshakes failed, %d orders for %d names", failed.Load(), a.orders.Load(), len(names))
	}
}

// known reports whether a gateway has heard of a custom domain: its own paths are not answered there.
func (l *listening) known(host string) bool {
	return l.ask("GET", host, "/readyz").Code == http.StatusNotFound
}

// A certificate is renewed before it ends, without anybody asking.
func TestRenewal(t *testing.T) {
	t.Parallel()
	storetest.Each(t, renewal)
}

func renewal(t *testing.T, kind storetest.Kind) {
	plain, encrypted := listenOn(t), listenOn(t)
	a := newAuthority(t, port(plain), port(encrypted), 12*time.Second)
	r := newRigOn(t, kind, ordering(a))
	r.run()
	g := r.listen(plain, encrypted)
	r.domain("api.example.org")
	var first *x509.Certificate
	gatewaytest.Within(t, 30*time.Second, "the hostname is served", func() bool {
		var err error
		first, err = g.handshake("api.example.org", a.roots)
		return err == nil
	})
	gatewaytest.Within(t, 40*time.Second, "another certificate is served", func() bool {
		c, err := g.handshake("api.example.org", a.roots)
		return err == nil && c.SerialNumber.Cmp(first.SerialNumber) != 0 && c.NotAfter.After(first.NotAfter)
	})
}

// An authority that has had enough is left alone, and the domain says what it said.
func TestAuthorityHasHadEnough(t *testing.T) {
	t.Parallel()
	plain, encrypted := listenOn(t), listenOn(t)
	a := newAuthority(t, port(plain), port(encrypted), time.Hour)
	a.enough.Store(true)
	r := newRig(t, ordering(a))
	r.run()
	g := r.listen(plain, encrypted)
	r.domain("api.example.org")
	tables := domains.New(r.db)
	gatewaytest.Within(t, 30*time.Second, "the failure is noted", func() bool {
		state, err := tables.CertificateState(t.Context(), "api.example.org")
		return err == nil && state.Failures > 0
	})
	before := a.orders.Load()
	for range 20 {
		if _, err := g.handshake("api.example.org", a.roots); err == nil {
			t.Error("there is a certificate")
		}
	}
	state, err := tables.CertificateState(t.Context(), "api.example.org")
	if err != nil || state.Failures != 1 || !strings.Contains(state.Error, "too many certificates") || time.Until(state.RetryOn) < 50*time.Minute {
		t.Errorf("%+v, %v", state, err)
	}
	if n := a.orders.Load(); n != before {
		t.Errorf("%d orders more", n-before)
	}
	list, _, err := tables.ListCustomDomains(t.Context(), domain.DefaultAccount, page)
	if err != nil || list[0].Certificate.Status(time.Now()) != domain.CertificateFailed {
		t.Errorf("listed: %+v, %v", list, err)
	}
}

// own returns the operator's certificate, and who trusts it.
func own(tb testing.TB) (func(*tls.ClientHelloInfo) (*tls.Certificate, error), *receiverauthtest.Authority) {
	tb.Helper()
	a := receiverauthtest.New(tb)
	chain, key := a.Issue(tb, "waybill", time.Now().Add(time.Hour))
	pair, err := tls.X509KeyPair([]byte(chain), []byte(key))
	if err != nil {
		tb.Fatal(err)
	}
	return func(*tls.ClientHelloInfo) (*tls.Certificate, error) { return &pair, nil }, a
}

// A name gets the certificate that was uploaded for it, or the operator's. What is changed holds
// for the next handshake. A connection for the host of a tenant is for that host alone.
func TestCertificateOfAName(t *testing.T) {
	t.Parallel()
	certificate, operator := own(t)
	r := newRig(t, func(o *gateway.Options) { o.Certificate = certificate })
	r.run()
	g := r.listen(listenOn(t), listenOn(t))
	r.domain("api.example.org")
	tables := domains.New(r.db)
	users := receiverauthtest.New(t)
	upload := func(serial string) {
		t.Helper()
		chain, key := users.Issue(t, serial, time.Now().Add(time.Hour))
		err := tables.PutCertificate(t.Context(), domain.DefaultAccount, "api.example.org", domain.UploadedCertificate{Chain: chain, PrivateKey: domain.Secret(key), Fingerprint: serial, ValidTo: time.Now().Add(time.Hour)})
		if err != nil {
			t.Fatal(err)
		}
		r.bus.Announce(bus.SubjectGateway, nil)
	}
	// subject returns whose certificate a name gets.
	subject := func(name string) string {
		dialer := tls.Dialer{Config: &tls.Config{ServerName: name, InsecureSkipVerify: true}}
		conn, err := dialer.DialContext(t.Context(), "tcp", g.tls.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		return conn.(*tls.Conn).ConnectionState().PeerCertificates[0].Subject.CommonName
	}
	becomes := func(name, want string) {
		t.Helper()
		gatewaytest.Within(t, 10*time.Second, name+" gets the certificate of "+want, func() bool { return subject(name) == want })
	}
	for _, name := range []string{"", "localhost", "nobody.example.org", "shop.gateway.localhost", "api.example.org"} {
		if got := subject(name); got != "waybill" {
			t.Errorf("%q gets the certificate of %q", name, got)
		}
	}
	upload("first")
	becomes("api.example.org", "first")
	becomes("API.Example.ORG", "first")
	upload("second")
	becomes("api.example.org", "second")
	if err := tables.DeleteCertificate(t.Context(), domain.DefaultAccount, "api.example.org"); err != nil {
		t.Fatal(err)
	}
	r.bus.Announce(bus.SubjectGateway, nil)
	becomes("api.example.org", "waybill")
	upload("third")
	becomes("api.example.org", "third")
	r.passes("api.example.org")
	becomes("api.example.org", "waybill")

	client := &http.Client{Transport: &http.Transport{ForceAttemptHTTP2: true, TLSClientConfig: &tls.Config{ServerName: "localhost", RootCAs: operator.Pool, MinVersion: tls.VersionTLS12}}}
	defer client.CloseIdleConnections()
	for host, want := range map[string]int{"localhost": http.StatusOK, "api.example.org": http.StatusMisdirectedRequest} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+g.tls.Addr().String()+"/healthz", http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		request.Host = host
		response, err := client.Do(request)
		if err != nil || response.StatusCode != want || response.ProtoMajor != 2 {
			t.Fatalf("%s: %v, %v", host, response, err)
		}
		_ = response.Body.Close()
	}
	old := tls.Dialer{Config: &tls.Config{ServerName: "localhost", RootCAs: operator.Pool, MaxVersion: tls.VersionTLS11, MinVersion: tls.VersionTLS10}}
	if _, err := old.DialContext(t.Context(), "tcp", g.tls.Addr().String()); err == nil {
		t.Error("TLS 1.1 is spoken")
	}
}

var unknownNames = flag.Int("unknown-names", 500, "how many handshakes with names that are nobody's TestUnknownNames makes")

// Names that are nobody's cost neither the database nor the authority anything: both may be away. Every
// fourth client comes as the authority does.
func TestUnknownNames(t *testing.T) {
	t.Parallel()
	certificate, operator := own(t)
	a := newAuthority(t, 1, 1, time.Hour)
	r := newRig(t, func(o *gateway.Options) {
		ordering(a)(o)
		o.Certificate = certificate
	})
	var looks atomic.Int64
	storetest.EachStatement(t, r.db, func(text string) {
		if strings.Contains(text, "gateway_acme") || strings.Contains(text, "gateway_domain") {
			looks.Add(1)
		}
	})
	r.run()
	g := r.listen(listenOn(t), listenOn(t))
	if err := r.db.Close(); err != nil {
		t.Fatal(err)
	}
	before := looks.Load()
	if before == 0 {
		t.Error("the gateway has not read its domains at the start")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM([]byte(operator.PEM))
	var clients sync.WaitGroup
	var last atomic.Int64
	began := time.Now()
	for range 8 {
		clients.Go(func() {
			for i := last.Add(1); i <= int64(*unknownNames); i = last.Add(1) {
				name := fmt.Sprintf("n%d.example.org", i)
				config := &tls.Config{ServerName: name, RootCAs: pool, MinVersion: tls.VersionTLS12}
				if i%4 == 0 {
					config.NextProtos = []string{"acme-tls/1"}
				}
				conn, err := tls.Dial("tcp", g.tls.Addr().String(), config)
				switch {
				case err == nil:
					_ = conn.Close()
					t.Errorf("%s is served", name)
				case i%4 != 0 && !strings.Contains(err.Error(), name): // the certificate is for another name
					t.Errorf("%s: %v", name, err)
				}
			}
		})
	}
	clients.Wait()
	took := time.Since(began)
	t.Logf("%d handshakes in %s", *unknownNames, took.Round(time.Millisecond))
	// Whoever comes, a gateway looks now and then whether domains have changed.
	if a.orders.Load() != 0 || looks.Load()-before > 5+int64(took/time.Second) {
		t.Errorf("%d orders, %d statements about domains", a.orders.Load(), looks.Load()-before)
	}
	if logs := r.logs.String(); strings.Contains(logs, "no certificate that can be used") {
		t.Errorf("the log tells of unknown names: %s", logs)
	}
}

// BenchmarkUnknownName is a handshake with a name that is nobody's, both sides of it, while the
// database is closed.
func BenchmarkUnknownName(b *testing.B) {
	certificate, _ := own(b)
	r := newRig(b, func(o *gateway.Options) { o.Certificate = certificate })
	r.run()
	if err := r.db.Close(); err != nil {
		b.Fatal(err)
	}
	config := r.service.TLS()
	client := &tls.Config{InsecureSkipVerify: true}
	b.ReportAllocs()
	i := 0
	for b.Loop() {
		i++
		client := client.Clone()
		client.ServerName = "n" + strconv.Itoa(i) + ".example.org"
		near, far := net.Pipe()
		done := make(chan error, 1)
		go func() { done <- tls.Server(far, config).HandshakeContext(context.Background()) }()
		if err := tls.Client(near, client).HandshakeContext(context.Background()); err != nil {
			b.Fatal(err)
		}
		if err := <-done; err != nil {
			b.Fatal(err)
		}
		_ = near.Close()
		_ = far.Close()
	}
}
