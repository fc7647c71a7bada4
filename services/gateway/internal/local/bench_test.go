package local_test

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/services/gateway/internal/route"
)

// BenchmarkReload is what one reload costs: two policies, 24 routes, and an MCP server.
func BenchmarkReload(b *testing.B) {
	dir := b.TempDir()
	(&rig{t: b, dir: dir}).write(loadVersions(b, backEnd(b))[0])
	g, err := local.New(options(dir, module{"echo": echo}, io.Discard))
	if err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		if err := g.Reload(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkServe is what a route costs beside its handler, among 100 others.
func BenchmarkServe(b *testing.B) {
	var operations []operation
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		for _, id := range []string{"1", "2", "3", "4", "5", "6", "7", "8", "9", "10"} {
			operations = append(operations, static("GET", "/"+name+"/"+id, name+id), static("GET", "/"+name+"/"+id+"/{x}", name+id+"x"))
		}
	}
	dir := b.TempDir()
	instant := gatewaytest.Func(func(context.Context, *route.Request) (*route.Response, error) { return text(200, "x"), nil })
	(&rig{t: b, dir: dir}).write(files{"a.oas.json": document(append(operations, calls("GET", "/z", "instant"))...)})
	g, err := local.New(options(dir, module{"instant": instant}, io.Discard))
	if err != nil {
		b.Fatal(err)
	}
	for _, path := range []string{"/e/10", "/e/10/x", "/z", "/nowhere"} {
		b.Run(path[1:], func(b *testing.B) {
			request := httptest.NewRequest(http.MethodGet, path, http.NoBody)
			b.ReportAllocs()
			for b.Loop() {
				g.ServeHTTP(httptest.NewRecorder(), request)
			}
		})
	}
}
