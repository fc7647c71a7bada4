package rollout_test

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
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/hosts"
	"waybill.dev/services/gateway/internal/rollout"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/services/gateway/internal/tenant"
	"waybill.dev/services/gateway/internal/upstream"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/edge"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/deployments"
	"waybill.dev/shared/store/deployments/deploymentstest"
	"waybill.dev/shared/store/storetest"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// loopback lets back ends be on this machine, over HTTP.
func loopback() *egress.Policy {
	return &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
}

// tables are the real ones, which a test may cut a gateway off from.
type tables struct {
	*deployments.Deployments

	away    atomic.Bool
	sources atomic.Int64 // how many were read
}

func (t *tables) err() error {
	if t.away.Load() {
		return fmt.Errorf("read: %w", domain.ErrUnavailable)
	}
	return nil
}

func (t *tables) GatewayVersion(ctx context.Context) (int64, error) {
	if err := t.err(); err != nil {
		return 0, err
	}
	return t.Deployments.GatewayVersion(ctx)
}

func (t *tables) Source(ctx context.Context, deployment, build string) (deployments.Source, error) {
	if err := t.err(); err != nil {
		return deployments.Source{}, err
	}
	t.sources.Add(1)
	return t.Deployments.Source(ctx, deployment, build)
}

// rig is a database with deployments, and a gateway that serves them.
type rig struct {
	t      testing.TB
	db     *store.Store
	tables *tables
	nats   *bustest.Server
	*rollout.Rollout
	handler http.Handler
	logs    *gatewaytest.Logs
	other   atomic.Int64 // requests that are for no deployment

	finding http.Handler // finds the deployment of a request, and does not ask it
	found   http.Handler
}

// newRig makes one. Change may change the options of the gateway, which does not run yet.
func newRig(t testing.TB, kind storetest.Kind, change func(*rollout.Options)) *rig {
	t.Helper()
	keys, err := seal.Parse(seal.Generate())
	if err != nil {
		t.Fatal(err)
	}
	r := &rig{t: t, db: kind.Fresh(t).Open(t, store.Options{Keys: keys}), logs: &gatewaytest.Logs{}, nats: bustest.Start(t)}
	r.tables = &tables{Deployments: deployments.New(r.db)}
	options := rollout.Options{
		Store: r.tables, Bus: r.connect(), Compile: compile(loopback()),
		Guard:         upstream.NewGuard(loopback(), func() []string { return nil }, egress.Options{}),
		Authenticator: gatewaytest.Keys{}, Edge: &edge.Edge{},
		Logger: slog.New(slog.NewJSONHandler(r.logs, nil)), Registerer: prometheus.NewRegistry(),
	}
	if change != nil {
		change(&options)
	}
	r.Rollout = rollout.New(options)
	r.handler = hosts.New("gateway.test", r.Rollout, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		r.other.Add(1)
		w.WriteHeader(http.StatusTeapot)
	}))
	nothing := http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
	r.finding = hosts.New("gateway.test", finding{r, nothing}, nothing)
	return r
}

// finding finds sites, and gives requests to nothing instead.
type finding struct {
	*rig
	nothing http.Handler
}

func (f finding) Deployment(name string) hosts.Site {
	found := f.Rollout.Deployment(name)
	f.found = found.Handler
	return hosts.Site{Account: found.Account, Handler: f.nothing}
}

// waitTime is how long a test waits for what takes a moment.
const waitTime = 20 * time.Second

func (r *rig) connect() *bus.Bus {
	r.t.Helper()
	b, err := bus.Connect(bus.Options{URL: r.nats.URL(), Name: "gateway", Logger: slog.New(slog.DiscardHandler), MACKeys: [][]byte{make([]byte, 32)}})
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(b.Close)
	return b
}

// run runs the gateway until the test ends, and waits until it is ready.
func (r *rig) run() *rig {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Run(ctx) }()
	r.t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	gatewaytest.Within(r.t, waitTime, "ready", r.Ready)
	return r
}

// update has the gateway look for changes now.
func (r *rig) update() {
	r.t.Helper()
	if err := r.Update(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
}

// compile makes sites as a gateway does, with all that the policy allows.
func compile(policy *egress.Policy) func(context.Context, *deployments.Source, bool) (*site.Site, error) {
	return func(ctx context.Context, source *deployments.Source, _ bool) (*site.Site, error) {
		made, faults := tenant.Rules{Egress: policy}.Make(ctx, source.Format, source.Archive, &source.Build, source.Variables)
		if len(faults) > 0 {
			return nil, faults
		}
		return made, nil
	}
}

// packed is an archive of files.
func packed(t testing.TB, files map[string]string) []byte {
	t.Helper()
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for name, text := range files {
		w, err := z.Create(name)
		if err == nil {
			_, err = io.WriteString(w, text)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return b.Bytes()
}

const document = `{"openapi":"3.1.0","info":{"title":"T","version":"1"},"paths":{PATHS}}`

// static is the path item of a GET that is answered with a text.
func static(path, text string) string {
	return fmt.Sprintf(`%q:{"get":{"operationId":%q,"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":%q}}}}}`, path, "o"+strings.ReplaceAll(path, "/", "_"), text)
}

// forward is the path item of a GET and POST that a back end answers.
func forward(path, back string) string {
	var methods []string
	for _, method := range []string{"get", "post"} {
		methods = append(methods, fmt.Sprintf(`%q:{"operationId":%q,"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"urlForwardHandler","options":{"baseUrl":%q}}}}`,
			method, method+strings.ReplaceAll(path, "/", "_"), back))
	}
	return fmt.Sprintf("%q:{%s}", path, strings.Join(methods, ","))
}

// deployed is a deployment of the paths.
func deployed(t testing.TB, project string, paths ...string) deploymentstest.Deployment {
	t.Helper()
	files := map[string]string{"routes.oas.json": strings.Replace(document, "PATHS", strings.Join(paths, ","), 1)}
	return deploymentstest.Deployment{Account: domain.DefaultAccount, Project: project, Branch: "main", Format: "zip", Archive: packed(t, files)}
}

// get asks the gateway in this process.
func (r *rig) get(host, path string, header ...string) *httptest.ResponseRecorder {
	request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
	request.Host = host
	for i := 0; i < len(header); i += 2 {
		request.Header.Set(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	r.handler.ServeHTTP(w, request)
	return w
}

// at returns the host of a deployment.
func at(d deploymentstest.Deployment) string { return d.Name() + ".gateway.test" }
