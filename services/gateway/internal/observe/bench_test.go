package observe_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"syscall"
	"testing"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/local"
	"waybill.dev/shared/store/storetest"
)

// BenchmarkPath is what a static route costs, without and with counts and a log: the difference
// is what they take in the path of a request. The writer runs beside, on SQLite.
func BenchmarkPath(b *testing.B) {
	for name, with := range ways() {
		b.Run(name, func(b *testing.B) {
			routes, request := benched(b, with), httptest.NewRequest(http.MethodGet, "/static", http.NoBody)
			b.ReportAllocs()
			began := processor(b)
			for b.Loop() {
				routes.ServeHTTP(httptest.NewRecorder(), request)
			}
			b.ReportMetric(float64(processor(b)-began)/float64(b.N), "cpu-ns/op")
		})
	}
}

// BenchmarkThroughput asks for the same over 32 connections at once: requests/s without and with
// counts and a log. The callers do as little as they can, in the same process.
func BenchmarkThroughput(b *testing.B) {
	for name, with := range ways() {
		b.Run(name, func(b *testing.B) {
			server := httptest.NewServer(benched(b, with))
			b.Cleanup(server.Close)
			address := strings.TrimPrefix(server.URL, "http://")
			b.SetParallelism(32 / runtime.GOMAXPROCS(0))
			b.ResetTimer()
			b.RunParallel(func(pb *testing.PB) {
				if err := askAll(address, pb.Next); err != nil {
					b.Error(err)
				}
			})
			b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "requests/s")
		})
	}
}

// askAll asks on one connection as long as there is more to ask for.
func askAll(address string, more func() bool) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer conn.Close()
	request, answers := []byte("GET /static HTTP/1.1\r\nHost: "+address+"\r\n\r\n"), bufio.NewReader(conn)
	for more() {
		if _, err := conn.Write(request); err != nil {
			return err
		}
		answer, err := http.ReadResponse(answers, nil)
		if err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, answer.Body); err != nil || answer.StatusCode != http.StatusOK {
			return fmt.Errorf("answered with %d: %w", answer.StatusCode, err)
		}
	}
	return nil
}

func ways() map[string]bool { return map[string]bool{"without": false, "with": true} }

// benched is a gateway with one static route, whose requests are counted and kept if that is wanted.
func benched(b *testing.B, counted bool) http.Handler {
	b.Helper()
	dir := b.TempDir()
	gatewaytest.Files{"a.oas.json": `{"openapi":"3.1.0","info":{"title":"Test","version":"1"},"paths":{"/static":{"get":{"operationId":"static",
		"x-gateway-route":{"handler":{"module":"$import(@gateway/runtime)","export":"staticHandler","options":{"body":"hello","contentType":"text/plain"}}}}}}}`}.Write(b, dir)
	options := gatewaytest.Options(dir, io.Discard)
	if counted {
		r := newRig(b, storetest.SQLite(), 200)
		r.start()
		options.Traffic = r.recorder
	}
	routes, err := local.New(options)
	if err != nil {
		b.Fatal(err)
	}
	return routes
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
