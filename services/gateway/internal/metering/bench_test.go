package metering_test

import (
	"log/slog"
	"syscall"
	"testing"
	"time"

	"waybill.dev/services/gateway/internal/metering"
	"waybill.dev/services/gateway/internal/observe"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/store"
	tables "waybill.dev/shared/store/metering"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

// BenchmarkRequest measures what metering adds to a request: the check before the handler and the
// count after it.
func BenchmarkRequest(b *testing.B) {
	db := storetest.SQLite().Fresh(b).Open(b, store.Options{})
	logger := slog.New(slog.DiscardHandler)
	counts := observe.New(observe.Options{Store: traffic.New(db), Logger: logger})
	r := &rig{db: db, plans: tables.New(db), now: time.Now}
	r.furnishFor(b, 1<<50)
	m := metering.New(metering.Options{Store: r.plans, Counts: counts, Logger: logger})
	b.ReportAllocs()
	before := processTime(b)
	for b.Loop() {
		end, err := m.Begin(b.Context(), who("c1"), use(1), route.Dims{Deployment: "shop", Route: "/a", Method: "GET"})
		if err != nil {
			b.Fatal(err)
		}
		end(true, "200")
	}
	b.ReportMetric(float64((processTime(b)-before).Nanoseconds())/float64(b.N), "cpu-ns/op")
}

// processTime is the processor time of this process: other work on the machine does not show in it.
func processTime(b *testing.B) time.Duration {
	b.Helper()
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		b.Fatal(err)
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
