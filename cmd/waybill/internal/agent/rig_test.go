package agent_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/cmd/waybill/internal/agent"
	"waybill.dev/services/gateway"
	"waybill.dev/shared/authenticator"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/tunnels"
	"waybill.dev/shared/tunnel"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

const account = domain.DefaultAccount

// rig is a database and a bus, gateways on them, and a service that only agents reach.
type rig struct {
	t       testing.TB
	db      *store.Store
	keys    *seal.Keyring
	nats    *bustest.Server
	tunnels *tunnels.Tunnels
	hasher  *authenticator.Hasher
	service *httptest.Server
	logs    *logs
	slow    atomic.Int64 // requests that the service is slow to answer
}

// eachDatabase runs a test on both databases.
func eachDatabase(t *testing.T, test func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		test(t, newRig(t, kind))
	})
}

func newRig(t testing.TB, kind storetest.Kind) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, keys: keys, nats: bustest.Start(t), logs: &logs{}}
	r.db = kind.Fresh(t).Open(t, store.Options{Keys: keys})
	r.tunnels = tunnels.New(r.db)
	if r.hasher, err = authenticator.NewHasher(keys.Derive(tunnel.Purpose)); err != nil {
		t.Fatal(err)
	}
	r.service = httptest.NewServer(http.HandlerFunc(r.serve))
	t.Cleanup(r.service.Close)
	return r
}

// serve is the service. It says what it was asked, and does what the query asks for.
func (r *rig) serve(w http.ResponseWriter, q *http.Request) {
	body, err := io.ReadAll(q.Body)
	if err != nil {
		return
	}
	if wait, err := time.ParseDuration(q.URL.Query().Get("wait")); err == nil {
		r.slow.Add(1)
		select {
		case <-time.After(wait):
		case <-q.Context().Done():
			return
		}
	}
	var size int
	if _, err := fmt.Sscan(q.URL.Query().Get("size"), &size); err == nil {
		w.Header().Set("Content-Length", strconv.Itoa(size))
		_, _ = w.Write(bytes.Repeat([]byte("x"), size))
		return
	}
	w.Header().Set("X-Seen", q.Method+" "+q.URL.RequestURI())
	w.Header().Set("X-Forwarded", q.Header.Get("X-Forwarded-Host"))
	w.WriteHeader(http.StatusTeapot)
	_, _ = w.Write(body)
}

// gatewayOf is a gateway that runs.
type gatewayOf struct {
	*rig

	url  string
	stop func()
}

func (r *rig) gateway(name string) *gatewayOf {
	t := r.t
	t.Helper()
	log := slog.New(slog.NewJSONHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug}))
	b, err := bus.Connect(bus.Options{URL: r.nats.URL(), Name: "gateway", Logger: log, MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		t.Fatal(err)
	}
	service, err := gateway.New(gateway.Options{
		Store: r.db, Bus: b, Keyring: r.keys, Egress: &egress.Policy{HTTP: true, Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}}, Own: b.Addresses, Process: name, Logger: log, Registerer: prometheus.NewRegistry(),
	})
	if err != nil {
		t.Fatal(err)
	}
	server := httptest.NewServer(service.Handler(nil))
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	g := &gatewayOf{rig: r, url: server.URL}
	g.stop = sync.OnceFunc(func() {
		server.Close()
		cancel()
		if err := <-ended; err != nil {
			t.Errorf("Run: %v", err)
		}
		b.Close()
	})
	t.Cleanup(g.stop)
	within(t, 20*time.Second, "the gateway is ready", func() bool {
		answer, err := http.Get(server.URL + "/readyz")
		if err != nil {
			return false
		}
		defer func() { _ = answer.Body.Close() }()
		return answer.StatusCode == http.StatusOK
	})
	return g
}

// announce tells gateways that there is something new, as the api does.
func (r *rig) announce() {
	r.t.Helper()
	b, err := bus.Connect(bus.Options{URL: r.nats.URL(), Name: "api", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		r.t.Fatal(err)
	}
	defer b.Close()
	if err := b.WaitReady(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	b.Announce(bus.SubjectGateway, nil)
	if err := b.Sync(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// dig makes a tunnel with the service orders for the project shop.
func (r *rig) dig() (id string, token domain.Secret) {
	r.t.Helper()
	token = tunnel.NewToken()
	made, err := r.tunnels.CreateTunnel(r.t.Context(), account, "warehouse", r.kept(token))
	if err != nil {
		r.t.Fatal(err)
	}
	if o := r.configure(made.ID, r.service.URL, "production"); o.Status != domain.OperationSuccess {
		r.t.Fatalf("%+v", o)
	}
	return made.ID, token
}

func (r *rig) kept(token domain.Secret) domain.TunnelToken {
	return domain.TunnelToken{Hash: r.hasher.Hashes(token.Reveal())[0], Suffix: tunnel.Suffix(token.Reveal())}
}

func (r *rig) configure(id, endpoint string, environments ...string) domain.TunnelOperation {
	r.t.Helper()
	o, err := r.tunnels.ConfigureTunnel(r.t.Context(), account, id, domain.TunnelServices{Version: 1, Services: []domain.TunnelService{{
		Name: "orders", Endpoint: endpoint, Configurations: []domain.TunnelAccess{{Project: "shop", AccessibleBy: environments}},
	}}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.announce()
	return o
}

func (r *rig) rotate(id string, overlap time.Duration) domain.Secret {
	r.t.Helper()
	token := tunnel.NewToken()
	if _, err := r.tunnels.RotateTunnelToken(r.t.Context(), account, id, r.kept(token), overlap); err != nil {
		r.t.Fatal(err)
	}
	r.announce()
	return token
}

const routes = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{
	"/orders/{id}":{"x-gateway-path":{"pathMode":"open-api"},
		"get":{"operationId":"get","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"service://orders/base"}}}},
		"post":{"operationId":"post","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"$env(ORDERS)"}}}},
		"put":{"operationId":"put","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlRewriteHandler","options":{"rewritePattern":"service://orders/rewritten/${params.id}"}}}}},
	"/plain/{id}":{"post":{"operationId":"plain","x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"$env(PLAIN)"}}}}},
	"/slow":{"get":{"operationId":"slow","x-gateway-route":{"timeoutSeconds":60,"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":"service://orders"}}}}}}}`

// deploy deploys the routes for a branch of a project, and returns the host.
func (r *rig) deploy(project, branch string) (host string) {
	r.t.Helper()
	var raw bytes.Buffer
	w := zip.NewWriter(&raw)
	to, err := w.Create("config/routes.oas.json")
	if err == nil {
		_, err = io.WriteString(to, routes)
	}
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		r.t.Fatal(err)
	}
	d := deploymentstest.Deployment{Account: account, Project: project, Branch: branch, Format: "zip", Archive: raw.Bytes(), Variables: map[string]string{"ORDERS": "service://orders", "PLAIN": r.service.URL}}
	d.Activate(r.t, r.db)
	r.announce()
	return d.Name() + ".gateway.localhost"
}

// answer is what a gateway answers.
type answer struct {
	status int
	body   string
	header http.Header
}

func (g *gatewayOf) ask(method, host, path, body string) answer {
	g.t.Helper()
	a, err := g.try(method, host, path, strings.NewReader(body))
	if err != nil {
		g.t.Fatalf("%s %s: %v", method, path, err)
	}
	return a
}

func (g *gatewayOf) try(method, host, path string, body io.Reader) (answer, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, g.url+path, body)
	if err != nil {
		return answer{}, err
	}
	request.Host = host
	got, err := client.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer func() { _ = got.Body.Close() }()
	content, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, string(content), got.Header}, err
}

var client = &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 512, DisableCompression: true}}

// agentOf is an agent that runs.
type agentOf struct {
	stop  func()
	ended chan error
}

func (g *gatewayOf) agent(token domain.Secret, allow ...string) *agentOf {
	g.t.Helper()
	to, err := url.Parse(g.url)
	if err != nil {
		g.t.Fatal(err)
	}
	o := agent.Options{Gateway: to, Token: token, AllowAny: len(allow) == 0, Version: "test", Logger: slog.New(slog.NewJSONHandler(g.logs, nil))}
	for _, text := range allow {
		origin, err := agent.ParseOrigin(text)
		if err != nil {
			g.t.Fatal(err)
		}
		o.Allow = append(o.Allow, origin)
	}
	ctx, cancel := context.WithCancel(context.Background())
	a := &agentOf{ended: make(chan error, 1)}
	done := make(chan struct{})
	go func() {
		defer close(done)
		a.ended <- agent.Run(ctx, o)
	}()
	a.stop = func() {
		cancel()
		<-done
	}
	g.t.Cleanup(a.stop)
	return a
}

// connections waits until a tunnel has so many.
func (r *rig) connections(id string, n int) {
	r.t.Helper()
	within(r.t, 20*time.Second, fmt.Sprintf("%d connections", n), func() bool {
		got, err := r.tunnels.GetTunnel(context.Background(), account, id)
		return err == nil && len(got.Connections) == n
	})
}

// served waits until a gateway answers from the service.
func (g *gatewayOf) served(host string) {
	g.t.Helper()
	within(g.t, 20*time.Second, "the service is reached", func() bool {
		return g.ask(http.MethodGet, host, "/orders/1", "").status == http.StatusTeapot
	})
}

func within(t testing.TB, limit time.Duration, what string, check func() bool) {
	t.Helper()
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for !check() {
		select {
		case <-deadline.C:
			t.Fatalf("not within %s: %s", limit, what)
		case <-tick.C:
		}
	}
}

// logs gathers what is logged.
type logs struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p) //nolint:wrapcheck // it never fails
}

func (l *logs) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}
