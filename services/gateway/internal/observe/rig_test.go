package observe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// soon is how long what must come about within a moment may take on a busy machine.
const soon = 30 * time.Second

// outage is a store that is away as long as it is told so.
type outage struct {
	*traffic.Traffic

	mu     sync.Mutex
	before error // what is answered instead of writing
	after  error // what is answered although the batch was written
	writes int
	hangs  chan struct{} // not nil: it is told of a write, which then lasts as long as its context
}

func (o *outage) set(before, after error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.before, o.after = before, after
}

func (o *outage) Write(ctx context.Context, b *traffic.Batch) error {
	o.mu.Lock()
	before, after, hangs := o.before, o.after, o.hangs
	o.hangs = nil
	o.writes++
	o.mu.Unlock()
	if hangs != nil {
		close(hangs)
		<-ctx.Done()
		return ctx.Err()
	}
	if before != nil {
		return before
	}
	return errors.Join(o.Traffic.Write(ctx, b), after)
}

func (o *outage) tried() int {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.writes
}

var errAway = fmt.Errorf("write: %w", domain.ErrUnavailable)

// rig is a gateway whose requests are counted in a database.
type rig struct {
	t        testing.TB
	db       storetest.Database
	store    *outage
	recorder *observe.Recorder
	registry *prometheus.Registry
	logs     *gatewaytest.Logs
	url      string
	stop     func() // ends the recorder
}

// newRig serves the routes below. The recorder runs once start is called.
func newRig(t testing.TB, kind storetest.Kind, rate float64) *rig {
	t.Helper()
	r := &rig{t: t, db: kind.Fresh(t), registry: prometheus.NewRegistry(), logs: &gatewaytest.Logs{}}
	r.store = &outage{Traffic: traffic.New(r.db.Open(t, store.Options{}))}
	r.recorder = observe.New(observe.Options{Store: r.store, Rate: rate, Logger: slog.New(slog.NewJSONHandler(r.logs, nil)), Registerer: r.registry})
	return r
}

func (r *rig) start() {
	r.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.recorder.Run(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			r.t.Errorf("Run: %v", err)
		}
	})
	r.t.Cleanup(r.stop)
}

// serve serves the routes of this file.
func (r *rig) serve() {
	r.t.Helper()
	back := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusTeapot)
		_, _ = io.WriteString(w, "forwarded")
	}))
	r.t.Cleanup(back.Close)
	dir := r.t.TempDir()
	gatewaytest.Files{
		"a.oas.json":    strings.NewReplacer("BACK", back.URL, "NOWHERE", "http://127.0.0.1:1", "RUNTIME", `"module":"$import(@gateway/runtime)"`, "TEST", `"module":"$import(./modules/test)"`).Replace(routes),
		"policies.json": policies,
	}.Write(r.t, dir)
	options := gatewaytest.Options(dir, io.Discard)
	options.Egress = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	options.Authenticator = keys()
	options.Traffic = r.recorder
	options.Modules = map[string]map[string]route.Handler{"test": {
		"status": gatewaytest.Func(func(_ context.Context, q *route.Request) (*route.Response, error) {
			status, err := strconv.Atoi(q.Params["status"])
			return &route.Response{Status: status, Body: []byte("answer")}, err
		}),
		"panics": gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { panic("secret-of-the-panic") }),
		"stream": gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
			return &route.Response{Stream: func(_ context.Context, w http.ResponseWriter) {
				w.WriteHeader(http.StatusAccepted)
				_, _ = io.WriteString(w, "one")
				_, _ = io.WriteString(w, "two")
			}}, nil
		}),
	}}
	_, r.url = gatewaytest.Serve(r.t, options)
}

// keys are two consumers with a key each, and the bootstrap key.
func keys() gatewaytest.Keys {
	return gatewaytest.Keys{
		"key-of-bakery":  {Account: "default", ID: "partners/bakery", Type: apikey.TypeKey, Bucket: "partners", Consumer: "bakery"},
		"key-of-florist": {Account: "default", ID: "partners/florist", Type: apikey.TypeKey, Bucket: "partners", Consumer: "florist"},
		"key-of-nobody":  {Account: "default", ID: "bootstrap", Type: apikey.TypeBootstrap},
	}
}

const routes = `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{
	"/open/{status}":{"get":{"operationId":"open","x-gateway-route":{"handler":{TEST,"export":"status"}}}},
	"/keyed/{status}":{"get":{"operationId":"keyed","parameters":[{"name":"status","in":"path","required":true,"schema":{"type":"string"}}],
		"x-gateway-route":{"policies":{"inbound":["key"]},"handler":{TEST,"export":"status"}}}},
	"/static":{"get":{"operationId":"static","x-gateway-route":{"handler":{RUNTIME,"export":"staticHandler","options":{"body":"hello","contentType":"text/plain"}}}}},
	"/panic":{"get":{"operationId":"panic","x-gateway-route":{"handler":{TEST,"export":"panics"}}}},
	"/stream":{"get":{"operationId":"stream","x-gateway-route":{"handler":{TEST,"export":"stream"}}}},
	"/away":{"post":{"operationId":"away","x-gateway-route":{"handler":{RUNTIME,"export":"urlRewriteHandler","options":{"rewritePattern":"NOWHERE/x"}}}}},
	"/back/{x}":{"post":{"operationId":"back","x-gateway-route":{"policies":{"inbound":["key"]},"handler":{RUNTIME,"export":"urlForwardHandler","options":{"baseUrl":"BACK"}}}}},
	"/walled":{"get":{"operationId":"walled","x-gateway-route":{"policies":{"inbound":["wall"]},"handler":{RUNTIME,"export":"staticHandler","options":{"body":"x","contentType":"text/plain"}}}}},
	"/checked":{"post":{"operationId":"checked","requestBody":{"required":true,"content":{"application/json":{"schema":{"type":"object","required":["name"]}}}},
		"x-gateway-route":{"policies":{"inbound":["check"]},"handler":{RUNTIME,"export":"staticHandler","options":{"body":"x","contentType":"text/plain"}}}}},
	"/mcp":{"post":{"operationId":"mcp","x-gateway-route":{"policies":{"inbound":["key"]},"handler":{RUNTIME,"export":"mcpServerHandler","options":{"name":"m","debugMode":true,"operations":[{"file":"a.oas.json","id":"keyed"}]}}}}}}}`

const policies = `{"policies":[
	{"name":"key","policyType":"api-key-inbound","handler":{"module":"$import(@gateway/runtime)","export":"ApiKeyInboundPolicy","options":{}}},
	{"name":"wall","policyType":"ip-restriction-inbound","handler":{"module":"$import(@gateway/runtime)","export":"IpRestrictionInboundPolicy","options":{"allow":["192.0.2.0/24"]}}},
	{"name":"check","policyType":"request-validation-inbound","handler":{"module":"$import(@gateway/runtime)","export":"RequestValidationInboundPolicy","options":{"validateBody":"log-only"}}}]}`

// counted returns how many calls there are by consumer and status, as the days have them, and
// how many requests have no row.
func (r *rig) counted(deployment string) (calls map[string]int64, all, notKept int64) {
	r.t.Helper()
	counts, err := r.store.CallCounts(context.Background(), deployment, traffic.Day1, time.Now().Add(-24*time.Hour), nil, 1000)
	if err != nil {
		r.t.Fatal(err)
	}
	calls = map[string]int64{}
	for _, c := range counts {
		calls[c.Consumer+" "+strconv.Itoa(c.Status)] += c.Calls.Calls
		all += c.Calls.Calls
	}
	notKept, err = r.store.NotKept(context.Background(), deployment, time.Time{}, time.Time{})
	if err != nil {
		r.t.Fatal(err)
	}
	return calls, all, notKept
}

// rows returns how many requests were kept.
func (r *rig) rows(deployment string) []traffic.Request {
	r.t.Helper()
	list, _, err := r.store.ListRequests(context.Background(), traffic.RequestFilter{Deployment: deployment, Limit: 100_000})
	if err != nil {
		r.t.Fatal(err)
	}
	return list
}
