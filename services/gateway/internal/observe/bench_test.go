package observe_test

import (
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/shared/store/storetest"
)

// BenchmarkPath is what a static route costs, without and with counts and a log: the difference
// is what they take in the path of a request. The writer runs beside, on SQLite.
func BenchmarkPath(b *testing.B) {
	dir := b.TempDir()
	gatewaytest.Files{"a.oas.json": `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{"/static":{"get":{"operationId":"static",
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"hello","contentType":"text/plain"}}}}}}}`}.Write(b, dir)
	for name, with := range map[string]bool{"without": false, "with": true} {
		b.Run(name, func(b *testing.B) {
			options := gatewaytest.Options(dir, io.Discard)
			if with {
				r := newRig(b, storetest.SQLite(), 200)
				r.start()
				options.Traffic = r.recorder
			}
			routes, err := local.New(options)
			if err != nil {
				b.Fatal(err)
			}
			request := httptest.NewRequest(http.MethodGet, "/static", http.NoBody)
			b.ReportAllocs()
			began := processor(b)
			for b.Loop() {
				routes.ServeHTTP(httptest.NewRecorder(), request)
			}
			b.ReportMetric(float64(processor(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// processor returns the time that this process has used, in ns: other work on the machine does not
// show in it.
func processor(b *testing.B) int64 {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return used.Utime.Nano() + used.Stime.Nano()
}
