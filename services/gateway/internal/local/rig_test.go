package local_test

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.uber.org/goleak"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/site"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/egress"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// keys are the one key "good", with the scope mcp:use.
func keys() gatewaytest.Keys {
	return gatewaytest.Keys{"good": {Account: "default", ID: "test", Type: apikey.TypeKey, Scopes: []domain.Scope{domain.ScopeMCP}}}
}

// rig is a gateway over a folder of route files.
type rig struct {
	t        testing.TB
	dir      string
	gateway  *local.Routes
	registry *prometheus.Registry
	logs     *gatewaytest.Logs
	url      string
	client   *http.Client
}

type files = gatewaytest.Files

type module map[string]route.Handler

func options(dir string, m module, logs io.Writer) local.Options {
	o := gatewaytest.Options(dir, logs)
	o.Modules = map[string]map[string]route.Handler{"test": m}
	o.Variables = site.Variables{"SET": "value of SET"}
	o.Egress = &egress.Policy{Allow: []netip.Prefix{netip.MustParsePrefix("127.0.0.0/8")}, HTTP: true}
	o.Authenticator = keys()
	o.Reserved = []string{"/v1/webhooks", "/v1/webhooks/{id}", "/v1/events", "/v1/deliveries/{id}", "/docs/{file}"}
	return o
}

// newRig serves the files; what runs ends with the test.
func newRig(t testing.TB, f files, m module) *rig {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir(), logs: &gatewaytest.Logs{}, registry: prometheus.NewRegistry()}
	r.write(f)
	o := options(r.dir, m, r.logs)
	o.Registerer = r.registry
	r.gateway, r.url = gatewaytest.Serve(t, o)
	// A client of its own: it must neither follow redirects nor share connections.
	transport := &http.Transport{MaxIdleConnsPerHost: 64, DisableCompression: true}
	r.client = &http.Client{Transport: transport, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	t.Cleanup(transport.CloseIdleConnections)
	return r
}

func (r *rig) write(f files) {
	r.t.Helper()
	f.Write(r.t, r.dir)
}

// answer is a response that was read whole.
type answer struct {
	t      testing.TB
	status int
	header http.Header
	body   string
}

func (r *rig) do(method, path, body string, header ...string) answer {
	r.t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, r.url+path, strings.NewReader(body))
	if err != nil {
		r.t.Fatal(err)
	}
	return r.send(request, header...)
}

func (r *rig) send(request *http.Request, header ...string) answer {
	r.t.Helper()
	for i := 0; i < len(header); i += 2 {
		request.Header.Add(header[i], header[i+1])
	}
	response, err := r.client.Do(request)
	if err != nil {
		r.t.Fatal(err)
	}
	defer response.Body.Close()
	content, err := io.ReadAll(response.Body)
	if err != nil {
		r.t.Fatal(err)
	}
	if response.Header.Get("X-Request-Id") == "" {
		r.t.Errorf("%s %s: no X-Request-Id", request.Method, request.URL)
	}
	return answer{t: r.t, status: response.StatusCode, header: response.Header, body: string(content)}
}

// problem fails the test unless the answer is that problem.
func (a answer) problem(status int, code string) {
	a.t.Helper()
	var body struct {
		Status          int
		Code, RequestID string
	}
	if err := json.Unmarshal([]byte(a.body), &body); err != nil || a.status != status || body.Status != status || body.Code != code ||
		body.RequestID == "" || a.header.Get("Content-Type") != "application/problem+json" {
		a.t.Errorf("got %d %s (%v), want the problem %d %s", a.status, a.body, err, status, code)
	}
}

// want fails the test unless the answer has the status and the body.
func (a answer) want(status int, body string) {
	a.t.Helper()
	if a.status != status || a.body != body {
		a.t.Errorf("got %d %q, want %d %q", a.status, a.body, status, body)
	}
}

// object is a JSON object whose members keep their order.
type object []member

type member struct {
	name  string
	value any
}

func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		name, err := json.Marshal(m.name)
		if err != nil {
			return nil, err
		}
		value, err := json.Marshal(m.value)
		if err != nil {
			return nil, err
		}
		b.Write(name)
		b.WriteByte(':')
		b.Write(value)
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

type m = map[string]any

// operation is one of a route file.
type operation struct {
	method, path, id string
	pattern          bool // the path mode is url-pattern
	route            m    // x-gateway-route, but for the handler
	handler          m
}

// static answers with its own id.
func static(method, path, id string) operation {
	return operation{method: method, path: path, id: id, handler: runtimeHandler("staticHandler", m{"body": id, "contentType": "text/plain"})}
}

// calls answers with an export of the module test.
func calls(method, path, export string) operation {
	return operation{method: method, path: path, id: export, handler: m{"module": "$import(./modules/test)", "export": export}}
}

func runtimeHandler(export string, options m) m {
	return m{"module": "$import(@gateway/runtime)", "export": export, "options": options}
}

// with returns the operation with a member of x-gateway-route.
func (o operation) with(name string, value any) operation {
	o.route = maps.Clone(o.route)
	if o.route == nil {
		o.route = m{}
	}
	o.route[name] = value
	return o
}

// document writes a route file.
func document(operations ...operation) string {
	var paths object
	for _, o := range operations {
		extension := maps.Clone(o.route)
		if extension == nil {
			extension = m{}
		}
		extension["handler"] = o.handler
		op := m{"x-gateway-route": extension, "responses": m{"200": m{"description": "Good."}}}
		if o.id != "" {
			op["operationId"] = o.id
		}
		at := slices.IndexFunc(paths, func(p member) bool { return p.name == o.path })
		if at < 0 {
			item := object{}
			if o.pattern {
				item = object{{"x-gateway-path", m{"pathMode": "url-pattern"}}}
			}
			at, paths = len(paths), append(paths, member{o.path, item})
		}
		item, _ := paths[at].value.(object)
		item = append(item, member{strings.ToLower(o.method), op})
		paths[at].value = item
	}
	if paths == nil {
		paths = object{}
	}
	text, err := json.Marshal(object{{"openapi", "3.1.0"}, {"info", m{"title": "Test", "version": "1"}}, {"paths", paths}})
	if err != nil {
		panic(err) // it consists of text
	}
	return string(text)
}

// policies writes policies.json; each policy is a name, a type, an export and options.
func policies(cors []m, list ...[4]any) string {
	var all []m
	for _, p := range list {
		all = append(all, m{"name": p[0], "policyType": p[1], "handler": m{"module": "$import(@gateway/runtime)", "export": p[2], "options": p[3]}})
	}
	content := m{"policies": all}
	if all == nil {
		content["policies"] = []m{}
	}
	if cors != nil {
		content["corsPolicies"] = cors
	}
	text, err := json.Marshal(content)
	if err != nil {
		panic(err) // it consists of text
	}
	return string(text)
}

// metric returns the value of a sample of /metrics, written as it is there; "" for none.
func metric(t testing.TB, r *rig, sample string) string {
	t.Helper()
	recorder := httptest.NewRecorder()
	promhttp.HandlerFor(r.registry, promhttp.HandlerOpts{}).ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	for line := range strings.Lines(recorder.Body.String()) {
		if value, ok := strings.CutPrefix(line, sample+" "); ok {
			return strings.TrimSpace(value)
		}
	}
	return ""
}

// backEnd starts a server that answers everything.
func backEnd(t testing.TB) (url string) {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "forwarded") }))
	t.Cleanup(server.Close)
	return server.URL
}
