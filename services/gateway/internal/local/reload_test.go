package local_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
)

// live is how soon a change must be served.
const live = time.Second

// slow is what a busy machine may take beside that, under the race detector.
const slow = 4 * time.Second

func TestGoodChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(static("GET", "/x", "before")), "page.txt": "before"}, nil)
	r.do(http.MethodGet, "/x", "").want(200, "before")
	serves := func(path, body string) func() bool {
		return func() bool { a := r.do(http.MethodGet, path, ""); return a.status == 200 && a.body == body }
	}
	r.write(files{"a.oas.json": document(static("GET", "/x", "after"))})
	gatewaytest.Within(t, live+slow, "the change is served", serves("/x", "after"))
	// A second file, which comes first; the file of an answer; a file that goes away.
	r.write(files{"0.oas.json": document(
		operation{method: "GET", path: "/page", id: "page", handler: runtimeHandler("staticHandler", m{"file": "page.txt", "contentType": "text/plain"})},
		static("GET", "/{x}", "first"),
	)})
	gatewaytest.Within(t, live+slow, "the new file is served", serves("/x", "first"))
	r.do(http.MethodGet, "/page", "").want(200, "before")
	r.write(files{"page.txt": "another"})
	gatewaytest.Within(t, live+slow, "the file of an answer is served", serves("/page", "another"))
	if err := os.Remove(filepath.Join(r.dir, "0.oas.json")); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Within(t, live+slow, "what is left is served", serves("/x", "after"))
	r.do(http.MethodGet, "/page", "").problem(404, "NOT_FOUND")
}

// A folder as a cluster mounts it: what is there by name is a link into a folder whose
// link is changed.
func TestMountedFolder(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{
		"..one/a.oas.json": document(static("GET", "/x", "one")), "..two/a.oas.json": document(static("GET", "/x", "two")),
	}, nil)
	r.do(http.MethodGet, "/x", "").problem(404, "NOT_FOUND")
	link := func(to, name string) {
		t.Helper()
		hidden := filepath.Join(r.dir, ".link")
		if err := os.Symlink(to, hidden); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(hidden, filepath.Join(r.dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	link("..one", "..data")
	link("..data/a.oas.json", "a.oas.json")
	gatewaytest.Within(t, live+slow, "the first is served", func() bool { return r.do(http.MethodGet, "/x", "").body == "one" })
	link("..two", "..data")
	gatewaytest.Within(t, live+slow, "the second is served", func() bool { return r.do(http.MethodGet, "/x", "").body == "two" })
}

// A bad change is logged, fault by fault, and nothing changes; a good one comes after it.
func TestBadChange(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(static("GET", "/x", "before"))}, nil)
	r.write(files{"a.oas.json": document(
		static("GET", "/v1/webhooks/{name}", "own"),
		operation{method: "GET", path: "/y", id: "redirect", handler: runtimeHandler("redirectHandler", m{})},
		calls("GET", "/z", "missing"),
		static("GET", "/x", "after"),
	)})
	logged := func(texts ...string) func() bool {
		return func() bool {
			for _, text := range texts {
				if !strings.Contains(r.logs.String(), text) {
					return false
				}
			}
			return true
		}
	}
	gatewaytest.Within(t, 2*live+slow, "each fault is logged", logged(`"operation":"own"`, `"operation":"redirect"`, `"operation":"missing"`, `"file":"a.oas.json"`))
	r.do(http.MethodGet, "/x", "").want(200, "before")
	count := strings.Count(r.logs.String(), `"level":"ERROR"`)
	if count != 3 {
		t.Errorf("%d errors are logged, want one for each of three faults:\n%s", count, r.logs)
	}
	r.write(files{"a.oas.json": "{"})
	gatewaytest.Within(t, 2*live+slow, "the next faults are logged", func() bool { return strings.Count(r.logs.String(), `"level":"ERROR"`) > count })
	r.do(http.MethodGet, "/x", "").want(200, "before")
	r.write(files{"a.oas.json": document(static("GET", "/x", "after"))})
	gatewaytest.Within(t, live+slow, "the good change is served", func() bool { return r.do(http.MethodGet, "/x", "").body == "after" })
	if refused := metric(t, r, `waybill_gateway_reloads_total{result="refused"}`); refused != "2" {
		t.Errorf("%s refused changes are counted, want 2", refused)
	}
}

// A folder that goes away changes nothing, and is heard of once.
func TestFolderGone(t *testing.T) {
	t.Parallel()
	r := newRig(t, files{"a.oas.json": document(static("GET", "/x", "here"))}, nil)
	away := r.dir + ".away"
	if err := os.Rename(r.dir, away); err != nil {
		t.Fatal(err)
	}
	gatewaytest.Within(t, live+slow, "it is logged", func() bool { return strings.Contains(r.logs.String(), "can't be read") })
	r.do(http.MethodGet, "/x", "").want(200, "here")
	if err := os.Rename(away, r.dir); err != nil {
		t.Fatal(err)
	}
	r.write(files{"a.oas.json": document(static("GET", "/x", "back"))})
	gatewaytest.Within(t, live+slow, "it is watched again", func() bool { return r.do(http.MethodGet, "/x", "").body == "back" })
	if count := strings.Count(r.logs.String(), "can't be read"); count != 1 {
		t.Errorf("it is logged %d times", count)
	}
}

// A request is answered by the table that it began with, to its end.
func TestRequestKeepsItsTable(t *testing.T) {
	t.Parallel()
	begun, release := make(chan struct{}), make(chan struct{})
	slowly := gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) {
		begun <- struct{}{}
		<-release
		return text(200, "slow"), nil
	})
	marked := func(with string) files {
		return files{
			"policies.json": policies(nil, [4]any{"mark", "set-headers-outbound", "SetHeadersOutboundPolicy", setHeader("X-Table", with)}),
			"a.oas.json":    document(calls("GET", "/slow", "slow").with("policies", m{"outbound": []string{"mark"}}), static("GET", "/x", with)),
		}
	}
	r := newRig(t, marked("old"), module{"slow": slowly})
	answers := make(chan answer, 1)
	go func() { answers <- r.do(http.MethodGet, "/slow", "") }()
	<-begun
	r.write(marked("new"))
	gatewaytest.Within(t, live+slow, "the change is served", func() bool { return r.do(http.MethodGet, "/x", "").body == "new" })
	close(release)
	if table := (<-answers).header.Get("X-Table"); table != "old" {
		t.Errorf("the request was ended by the %s table", table)
	}
	go func() { <-begun }()
	if table := r.do(http.MethodGet, "/slow", "").header.Get("X-Table"); table != "new" {
		t.Errorf("the next request was answered by the %s table", table)
	}
}

// reloads is how often the routes change under load; the whole test is with 10000.
var reloads = flag.Int("reloads", 100, "reloads under load")

const perReload = 20

// connections is by how many the goroutines of the load's connections, at both ends and to
// the back end, may differ from one moment to the next. What a reload left behind would be
// as many as the reloads.
const connections = 20

// The routes change under load, and no request fails; nothing is left of the old ones.
func TestReloadsUnderLoad(t *testing.T) {
	versions := loadVersions(t, backEnd(t))
	r := newRig(t, versions[0], module{"echo": echo})
	ctx, stop := context.WithCancel(t.Context())
	var load sync.WaitGroup
	// Some requests for each reload: they must not take all of the processor from it.
	turns := make(chan struct{}, 2*perReload)
	var answered atomic.Int64
	const read = `{"jsonrpc":"2.0","id":1,"method":"resources/read","params":{"uri":"test://page"}}`
	asks := []func() (answer, string){
		func() (answer, string) { return r.do(http.MethodGet, "/page", ""), "version" },
		func() (answer, string) { return r.do(http.MethodGet, "/forward/1", ""), "forwarded" },
		func() (answer, string) {
			return r.do(http.MethodPost, "/echo/1", "{}", "X-API-Key", "good"), `"params"`
		},
		func() (answer, string) { return r.do(http.MethodPost, "/mcp", read), "version" },
	}
	for first := range 2 {
		load.Go(func() {
			for n := first; ; n++ {
				select {
				case <-ctx.Done():
					return
				case <-turns:
				}
				if got, want := asks[n%len(asks)](); got.status != 200 || !strings.Contains(got.body, want) {
					t.Errorf("%d %s, want %s", got.status, got.body, want)
					return
				}
				answered.Add(1)
			}
		})
	}
	heap, goroutines := uint64(0), 0
	warm := max(*reloads/10, 20)
	for n := range warm + *reloads {
		if n == warm {
			heap, goroutines = inUse()
		}
		for range perReload {
			select {
			case turns <- struct{}{}:
			default:
			}
		}
		r.write(versions[n%2])
		if err := r.gateway.Reload(); err != nil {
			t.Fatal(err)
		}
	}
	stop()
	load.Wait()
	heapNow, goroutinesNow := inUse()
	t.Logf("%d reloads, %d requests meanwhile; heap %d KiB before, %d KiB after; goroutines %d, %d",
		*reloads, answered.Load(), heap>>10, heapNow>>10, goroutines, goroutinesNow)
	if answered.Load() < int64(*reloads) {
		t.Errorf("only %d requests: that is no load", answered.Load())
	}
	if grown := int64(heapNow) - int64(heap); grown > 4<<20 {
		t.Errorf("memory has grown by %d KiB", grown>>10)
	}
	if goroutinesNow > goroutines+connections {
		t.Errorf("there were %d goroutines, now there are %d", goroutines, goroutinesNow)
	}
}

// loadVersions returns two folders that differ in what they answer and how much they have.
func loadVersions(t testing.TB, to string) []files {
	t.Helper()
	back := m{"baseUrl": to}
	key := [4]any{"key", "api-key-inbound", "ApiKeyInboundPolicy", m{}}
	limit := [4]any{"limit", "rate-limit-inbound", "RateLimitInboundPolicy", m{"rateLimitBy": "user", "requestsAllowed": 1_000_000_000, "timeWindowMinutes": 1}}
	versions := make([]files, 2)
	for i := range versions {
		version := fmt.Sprint("version ", i)
		routes := []operation{
			{method: "POST", path: "/mcp", id: "mcp", handler: runtimeHandler("mcpServerHandler", m{"operations": []m{{"file": "a.oas.json", "id": "page"}}})},
			{method: "GET", path: "/page", id: "page", handler: runtimeHandler("staticHandler", m{"body": version, "contentType": "text/plain"}), route: m{"mcp": m{"type": "resource", "uri": "test://page"}}},
			{method: "GET", path: "/forward/{x}", id: "forward", handler: runtimeHandler("urlForwardHandler", back)},
			calls("POST", "/echo/{x}", "echo").with("policies", m{"inbound": []string{"key", "limit"}}),
		}
		for n := range 20 + i {
			routes = append(routes, static("GET", fmt.Sprintf("/many/%d/{x}", n), fmt.Sprint("many", n)))
		}
		versions[i] = files{"policies.json": policies(nil, key, limit), "a.oas.json": document(routes...)}
	}
	return versions
}

// inUse returns the memory and the goroutines that are in use, after a collection.
func inUse() (heap uint64, goroutines int) {
	runtime.GC()
	runtime.GC() // what pools keep is gone after the second one
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc, runtime.NumGoroutine()
}
