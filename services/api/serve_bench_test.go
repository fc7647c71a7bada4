package api_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	api "waybill.dev/services/api"
	"waybill.dev/shared/bus"
	"waybill.dev/shared/bus/bustest"
	"waybill.dev/shared/egress"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/seal"
	"waybill.dev/shared/store"
)

// BenchmarkServe is one event on its whole way through the service: a connection that is
// kept, the handler, the commit on PostgreSQL, and the bus. 64 callers wait for their answers.
// cpu-us/op is the time of this process's processors for one event, that of the callers and
// of the bus in it, which do as little as they can.
func BenchmarkServe(b *testing.B) {
	cluster, err := pgtest.Start(b.Context(), "", "fsync=off")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = cluster.Stop() })
	address := serveBench(b, cluster.URL("postgres"))
	var left atomic.Int64
	left.Store(int64(b.N))
	b.ReportAllocs()
	b.ResetTimer()
	before := processorTime(b)
	var callers sync.WaitGroup
	for caller := range 64 {
		callers.Go(func() {
			if err := publishAll(address, caller, &left); err != nil {
				b.Error(err)
			}
		})
	}
	callers.Wait()
	b.StopTimer()
	b.ReportMetric(float64((processorTime(b)-before).Microseconds())/float64(b.N), "cpu-us/op")
}

// serveBench runs a service as the binaries do, and returns its address.
func serveBench(b *testing.B, database string) string {
	b.Helper()
	ring, err := seal.Parse(seal.Generate())
	if err != nil {
		b.Fatal(err)
	}
	log := slog.New(slog.NewJSONHandler(io.Discard, nil)) //nolint:sloglint // lines that are written cost, too
	db, err := store.Open(b.Context(), store.Options{URL: database, Keys: ring, Logger: log})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = db.Close() })
	if _, err := db.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	wire, err := bus.Connect(bus.Options{URL: bustest.Start(b).URL(), Name: "api", Logger: log, MACKeys: ring.Derive("bus")})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(wire.Close)
	if err := wire.Ensure(b.Context()); err != nil {
		b.Fatal(err)
	}
	service, err := api.New(api.Options{Store: db, Bus: wire, Logger: log, AdminKey: adminKey, Keyring: ring, Egress: &egress.Policy{}})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(b.Context()))
	ended := make(chan error, 1)
	go func() { ended <- service.Run(ctx) }()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{
		Handler: service.Handler(), ReadHeaderTimeout: 5 * time.Second, ReadTimeout: 15 * time.Second,
		WriteTimeout: 40 * time.Second, IdleTimeout: 60 * time.Second,
	}
	go func() { _ = server.Serve(listener) }()
	b.Cleanup(func() {
		_ = server.Close()
		cancel()
		<-ended
	})
	return listener.Addr().String()
}

// publishAll publishes, one event after the other, until none is left.
func publishAll(address string, caller int, left *atomic.Int64) error {
	conn, err := net.Dial("tcp", address)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	reader := bufio.NewReader(conn)
	note := strings.Repeat("x", 900)
	var request []byte
	for i := 0; left.Add(-1) >= 0; i++ {
		body := fmt.Appendf(nil, `{"id":"e%d-%d","type":"shipment.created","timestamp":"2026-01-02T03:04:05Z","data":{"shipmentId":"s1","note":"%s"}}`, caller, i, note)
		request = fmt.Appendf(request[:0], "POST /v1/events HTTP/1.1\r\nHost: %s\r\nUser-Agent: bench/1\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", address, adminKey, len(body), body)
		if _, err := conn.Write(request); err != nil {
			return err
		}
		if err := accepted(reader); err != nil {
			return err
		}
	}
	return nil
}

// accepted reads an answer that must be 202.
func accepted(reader *bufio.Reader) error {
	length := -1
	for first := true; ; first = false {
		line, err := reader.ReadSlice('\n')
		if err != nil {
			return err
		}
		if first && !strings.HasPrefix(string(line), "HTTP/1.1 202") {
			return fmt.Errorf("answer %q", line)
		}
		if strings.HasPrefix(string(line), "Content-Length: ") {
			if _, err := fmt.Sscanf(string(line), "Content-Length: %d", &length); err != nil {
				return err
			}
		}
		if len(line) == 2 {
			_, err := reader.Discard(length)
			return err
		}
	}
}

func processorTime(b *testing.B) time.Duration {
	b.Helper()
	var usage syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &usage); err != nil {
		b.Fatal(err)
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}
