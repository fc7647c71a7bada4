package local_test

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/iotest"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/config"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/services/gateway/internal/routefile"
	"waybill.dev/services/gateway/internal/site"
)

func folder(t *testing.T, f files) string {
	t.Helper()
	r := &rig{t: t, dir: t.TempDir()}
	r.write(f)
	return r.dir
}

// Whatever is wrong is told at once, with the file and the operation.
func TestFaults(t *testing.T) {
	t.Parallel()
	mcp := func(id string, operations ...m) operation {
		return operation{method: "POST", path: "/" + id, id: id, handler: runtimeHandler("mcpServerHandler", m{"operations": operations})}
	}
	dir := folder(t, files{
		"policies.json": policies(
			[]m{{"name": "odd", "allowedOrigins": []string{"app.example", "https://a.*.example"}}},
			[4]any{"in", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "1")},
			[4]any{"out", "set-headers-outbound", "SetHeadersOutboundPolicy", setHeader("X-One", "1")},
			[4]any{"unused", "rate-limit-inbound", "RateLimitInboundPolicy", m{}},
		),
		"a.oas.json": document(
			static("GET", "/v1/webhooks", "ownPath"), static("DELETE", "/v1/webhooks/fixed", "ownParameter"), static("GET", "/docs/{anything}/", "ownSlash"),
			static("GET", "/inbound", "wrongWayIn").with("policies", m{"inbound": []string{"out"}}),
			static("GET", "/outbound", "wrongWayOut").with("policies", m{"outbound": []string{"in"}}),
			calls("GET", "/export", "noExport"),
			operation{method: "GET", path: "/module", id: "noModule", handler: m{"module": "$import(./modules/unknown)", "export": "echo"}},
			operation{method: "GET", path: "/handler", id: "noHandler", handler: runtimeHandler("unknownHandler", m{})},
			operation{method: "GET", path: "/options", id: "badOptions", handler: runtimeHandler("redirectHandler", m{"location": "/x", "stauts": 301})},
		),
		"b.oas.json": document(mcp("noFile", m{"file": "c.oas.json", "id": "x"}), mcp("noOperation", m{"file": "a.oas.json", "id": "x"})),
	})
	o := options(dir, module{"echo": echo}, io.Discard)
	_, err := local.New(o)
	routes, faults, checked := local.Check(local.Options{Dir: dir, Modules: o.Modules, Reserved: o.Reserved, Variables: o.Variables})
	if err == nil || checked != nil || routes != nil {
		t.Fatalf("New: %v; Check: %v, %v", err, routes, checked)
	}
	want := []struct{ file, operation, text string }{
		{"policies.json", "", "unused"},
		{"policies.json", "", `"app.example"`},
		{"policies.json", "", `"https://a.*.example"`},
		{"a.oas.json", "ownPath", "Waybill itself serves this path, as /v1/webhooks"},
		{"a.oas.json", "ownParameter", "as /v1/webhooks/{id}"},
		{"a.oas.json", "ownSlash", "as /docs/{file}"},
		{"a.oas.json", "wrongWayIn", "outbound"},
		{"a.oas.json", "wrongWayOut", "inbound"},
		{"a.oas.json", "noExport", "registered"},
		{"a.oas.json", "noModule", "registered"},
		{"a.oas.json", "noHandler", "@gateway/runtime"},
		{"a.oas.json", "badOptions", "/stauts"},
		{"b.oas.json", "noFile", "c.oas.json"},
		{"b.oas.json", "noOperation", "a.oas.json"},
	}
	for _, w := range want {
		if !slices.ContainsFunc(faults, func(f routefile.Fault) bool {
			return f.File == w.file && f.Operation == w.operation && strings.Contains(f.Message, w.text)
		}) {
			t.Errorf("no fault of %s %s with %q", w.file, w.operation, w.text)
		}
	}
	for _, fault := range faults {
		if !strings.Contains(err.Error(), "\n"+fault.Error()) {
			t.Errorf("the error of New lacks %v", fault)
		}
	}
	if strings.Count(err.Error(), "Waybill itself") != 3 {
		t.Errorf("want one fault for each of three paths:\n%v", err)
	}
}

// Faults of how files are written do not hide those of what they want, nor are they told
// twice.
func TestFaultsOfBothKinds(t *testing.T) {
	t.Parallel()
	dir := folder(t, files{
		"policies.json": policies(nil, [4]any{"limit", "rate-limit-inbound", "RateLimitInboundPolicy", m{}}),
		"a.oas.json": document(
			static("POST", "/resource", "notGet").with("mcp", m{"type": "resource"}),
			static("GET", "/v1/events", "ownPath").with("mcp", m{"type": "widget"}),
			static("GET", "/limited", "unknownPolicy").with("policies", m{"inbound": []string{"limit", "unknown"}}),
			operation{method: "GET", path: "/handler", id: "noHandler", handler: runtimeHandler("unknownHandler", m{})},
			operation{method: "GET", path: "/unset", id: "unset", handler: runtimeHandler("staticHandler", m{"body": "$env(UNSET)"})},
			operation{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"operations": []m{{"file": "b.oas.json", "id": "x"}, {"file": "c.oas.json", "id": "x"}}})},
		),
		"b.oas.json": "{",
	})
	_, faults, err := local.Check(options(dir, nil, io.Discard))
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, fault := range faults {
		got = append(got, strings.TrimSuffix(fault.File+" "+fault.Operation, " "))
	}
	slices.Sort(got)
	want := []string{
		"a.oas.json mcp", "a.oas.json noHandler", "a.oas.json notGet", "a.oas.json ownPath", "a.oas.json ownPath", "a.oas.json unknownPolicy",
		"a.oas.json unset", "b.oas.json",
		"policies.json", "policies.json", "policies.json", // each of three options is missing
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("faults (-want +got):\n%s\n%v", diff, faults)
	}
}

func TestCheckLists(t *testing.T) {
	t.Parallel()
	dir := folder(t, files{
		"policies.json": policies(nil, [4]any{"in", "set-headers-inbound", "SetHeadersInboundPolicy", setHeader("X-One", "1")}),
		"b.oas.json":    document(calls("POST", "/b/{x}", "echo")),
		"a.oas.json":    document(static("GET", "/a", "a").with("mcp", m{"type": "resource"}).with("policies", m{"inbound": []string{"in"}})),
	})
	o := options(dir, module{"echo": echo}, io.Discard)
	routes, faults, err := local.Check(local.Options{Dir: dir, Modules: o.Modules, Variables: o.Variables})
	if err != nil || len(faults) > 0 {
		t.Fatal(err, faults)
	}
	for i := range routes {
		if len(routes[i].Inbound) == 0 {
			routes[i].Inbound = nil
		}
		if len(routes[i].Outbound) == 0 {
			routes[i].Outbound = nil
		}
	}
	want := []site.Info{
		{File: "a.oas.json", Operation: "a", Method: "GET", Path: "/a", Handler: "@gateway/runtime staticHandler", Inbound: []string{"in"}, MCP: "resource"},
		{File: "b.oas.json", Operation: "echo", Method: "POST", Path: "/b/{x}", Handler: "test echo"},
	}
	if diff := cmp.Diff(want, routes); diff != "" {
		t.Errorf("routes (-want +got):\n%s", diff)
	}
}

// A folder that was asked for must be there; the default one may be missing.
func TestMissingFolder(t *testing.T) {
	t.Parallel()
	missing := filepath.Join(t.TempDir(), "missing")
	o := options(missing, nil, io.Discard)
	if _, err := local.New(o); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a missing folder: %v", err)
	}
	// Of the shipped routes, the handlers are Waybill's own.
	own := module{}
	for _, name := range []string{
		"listWebhooks", "registerWebhook", "getWebhook", "updateWebhook", "deleteWebhook", "testWebhook", "replayWebhook", "listDeliveries",
		"getDelivery", "retryDelivery", "explainDelivery", "listEvents", "publishEvents", "getEvent", "listRejected", "getOpenAPI",
		"getAsyncAPI", "listEventTypes", "receiverGuide", "askWhyNotDelivered",
		"whoAmI", "listAccounts", "createAccount", "getAccount", "createAdminKey", "getProject", "updateProject", "listProjects", "createProject", "listAuditLogs",
		"listBuckets", "createBucket", "getBucket", "updateBucket", "deleteBucket",
		"listEnvironments", "getEnvironment", "listVariables", "createVariable", "updateVariable", "deleteVariable",
		"listConsumers", "createConsumer", "getConsumer", "updateConsumer", "deleteConsumer",
		"createDeploymentSource", "getDeploymentStatus", "listDeployments", "getDeployment", "deleteDeployment", "redeploy", "listBuilds", "getBuildLogs",
		"listRecentCalls", "getCallStatistics", "listRequestLogs", "getRequestLog",
		"getStatistics", "getWebhookHealth", "testWebhookFilter", "retryDeliveries", "listJobs", "getJob", "cancelJob",
		"rollKeys", "listKeys", "createKey", "createKeys", "getKey", "updateKey", "deleteKey",
		"listManagers", "createManager", "getManager", "deleteManager", "rotateWebhookSecret", "listSigningKeys", "rotateSigningKeys", "listExpiring",
		"listMeters", "createMeter", "getMeter", "updateMeter", "deleteMeter", "queryMeter", "queryMeterByBody", "listMeterGroupValues", "listFeatures", "createFeature", "getFeature", "archiveFeature", "listPlans", "createPlan", "getPlan", "updatePlan", "deletePlan", "publishPlan", "archivePlan", "getSubscription", "setSubscription", "deleteSubscription", "getAccess",
		"listTunnels", "createTunnel", "getTunnel", "deleteTunnel", "rotateTunnelToken", "getTunnelTeardown", "getTunnelServices", "configureTunnelServices", "getTunnelProvisioning",
		"listCustomDomains", "createCustomDomain", "updateCustomDomain", "deleteCustomDomain", "verifyCustomDomain", "putCustomDomainCertificate", "deleteCustomDomainCertificate",
		"listClientMtlsCaCertificates", "createClientMtlsCaCertificate", "getClientMtlsCaCertificate", "updateClientMtlsCaCertificate", "deleteClientMtlsCaCertificate",
		"readFeed", "listCursors", "getCursor", "setCursor", "deleteCursor", "acknowledgeProblem", "reopenProblem",
	} {
		own[name] = echo
	}
	// A guide of the documentation is a handler of its own.
	guides := module{"searchDocs": echo, "readDoc": echo}
	shipped, err := fs.ReadFile(config.Files(), "docs.oas.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, found := range regexp.MustCompile(`"export": "([a-z-]+\.md)"`).FindAllSubmatch(shipped, -1) {
		guides[string(found[1])] = echo
	}
	other := folder(t, files{"settings.json": "{}", "large.bin": strings.Repeat("x", 100)})
	for _, dir := range []string{missing, other, ""} {
		o := options(dir, nil, io.Discard)
		o.Modules["waybill"], o.Modules["docs"], o.Fallback = own, guides, true
		if _, err := local.New(o); err != nil {
			t.Errorf("the shipped routes instead of those of %q: %v", dir, err)
		}
		routes, _, err := local.Check(o)
		if err != nil || !slices.ContainsFunc(routes, func(i site.Info) bool { return i.Method == http.MethodPost && i.Path == "/mcp" }) {
			t.Errorf("the shipped routes lack POST /mcp: %v %v", routes, err)
		}
		if !slices.ContainsFunc(routes, func(i site.Info) bool { return i.Path == "/mcp/docs" }) {
			t.Errorf("the shipped routes lack POST /mcp/docs: %v", routes)
		}
	}
}

// No option leads out of the folder, be it by a link; what is too long for an answer is a
// fault of the route that names it.
func TestFolder(t *testing.T) {
	t.Parallel()
	file := func(name string) string {
		return document(operation{method: "GET", path: "/x", id: "x", handler: runtimeHandler("staticHandler", m{"file": name})})
	}
	check := func(dir string) error {
		_, faults, err := local.Check(options(dir, nil, io.Discard))
		if len(faults) > 0 {
			return faults
		}
		return err
	}
	if err := check(folder(t, files{"a.oas.json": file("pages/one.txt"), "pages/one.txt": "one"})); err != nil {
		t.Errorf("a file in a folder of the folder: %v", err)
	}
	for _, name := range []string{"../outside.txt", "/etc/hostname", "pages/../../outside.txt", "missing.txt", "pages"} {
		if err := check(folder(t, files{"a.oas.json": file(name), "pages/one.txt": "one"})); err == nil {
			t.Errorf("%s is taken", name)
		}
	}
	if err := check(folder(t, files{"a.oas.json": file("long.txt"), "long.txt": strings.Repeat("x", route.MaxResponse+1)})); err == nil {
		t.Error("a file is taken that is longer than an answer may be")
	}
	outside := filepath.Join(folder(t, files{"secret.txt": "secret"}), "secret.txt")
	dir := folder(t, files{"a.oas.json": file("link.txt")})
	if err := os.Symlink(outside, filepath.Join(dir, "link.txt")); err != nil {
		t.Fatal(err)
	}
	if err := check(dir); err == nil {
		t.Error("a link leads out of the folder")
	}
	if err := check(filepath.Join(dir, "a.oas.json")); err == nil {
		t.Error("a file is taken for a folder")
	}
}

// A function of a program returns an answer, a text, or a value.
func TestFunction(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		value       any
		media, body string
		fails       bool
	}{
		"answer": {value: text(418, "tea"), media: "text/plain", body: "tea"},
		"text":   {value: "<b>ü</b>", media: "text/plain; charset=utf-8", body: "<b>ü</b>"},
		"object": {value: map[string]int{"a": 1}, media: "application/json", body: `{"a":1}`},
		"list":   {value: []string{}, media: "application/json", body: `[]`},
		"null":   {value: nil, media: "application/json", body: `null`},
		"number": {value: 1.5, media: "application/json", body: `1.5`},
		"odd":    {value: make(chan int), fails: true},
		"failed": {value: iotest.ErrTimeout, fails: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			function := site.Function(func(context.Context, *route.Request) (any, error) {
				if err, ok := tc.value.(error); ok {
					return nil, err
				}
				return tc.value, nil
			})
			got, err := function.Handle(t.Context(), &route.Request{})
			if tc.fails {
				if err == nil {
					t.Errorf("no error, but %v", got)
				}
				return
			}
			if err != nil || string(got.Body) != tc.body || got.Header.Get("Content-Type") != tc.media {
				t.Errorf("%v, %v; want %s %s", got, err, tc.media, tc.body)
			}
		})
	}
}

// Metrics and logs name the route as the route file writes it, never the path.
func TestMetrics(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(calls("GET", "/things/{id}", "echo"), calls("GET", "/fails", "fails"))}, module{"echo": echo, "fails": failing("boom")})
	for range 3 {
		r.do(http.MethodGet, "/things/canary", "")
	}
	r.do(http.MethodPost, "/things/canary", "")
	r.do(http.MethodGet, "/fails", "")
	r.do(http.MethodGet, "/nowhere/canary", "")
	for sample, want := range map[string]string{
		`waybill_gateway_calls_total{class="2xx",method="GET",origin="http",route="/things/{id}"}`: "3",
		`waybill_gateway_calls_total{class="5xx",method="GET",origin="http",route="/fails"}`:       "1",
		`waybill_gateway_call_seconds_count{method="GET",route="/things/{id}"}`:                    "3",
		`waybill_gateway_routes`: "2",
	} {
		if got := metric(t, r, sample); got != want {
			t.Errorf("%s is %q, want %s", sample, got, want)
		}
	}
	if logs := r.logs.String(); strings.Contains(logs, "canary") {
		t.Errorf("a path is logged: %s", logs)
	}
}
