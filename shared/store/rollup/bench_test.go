package rollup_test

import (
	"fmt"
	"strconv"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/rollup"
	"waybill.dev/shared/store/storetest"
)

// tallied counts 1000 attempts of so many webhooks.
func tallied(webhooks int) *rollup.Tally {
	t := &rollup.Tally{}
	at := time.Now()
	for i := range 1000 {
		id := domain.WebhookID(fmt.Sprintf("00000000-0000-4000-8000-%012d", i%webhooks))
		t.Attempt("default", id, domain.ShipmentCreated, &domain.Attempt{Number: 1, StartedAt: at, Duration: time.Duration(i) * 10 * time.Microsecond, Status: 200})
	}
	return t
}

// BenchmarkTally counts 1000 attempts, and encodes the counts.
func BenchmarkTally(b *testing.B) {
	for _, webhooks := range []int{1, 10, 1000} {
		b.Run(strconv.Itoa(webhooks), func(b *testing.B) {
			size := 0
			for b.Loop() {
				size = len(tallied(webhooks).Encode())
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/attempt")
			b.ReportMetric(float64(size), "bytes")
		})
	}
}

// BenchmarkMerge merges the deltas of 100 batches of 1000 attempts.
func BenchmarkMerge(b *testing.B) {
	const batches = 100
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		r := rollup.New(db)
		writing, _ := db.Handles()
		for _, webhooks := range []int{1, 10, 1000} {
			b.Run(strconv.Itoa(webhooks), func(b *testing.B) {
				encoded := tallied(webhooks).Encode()
				var spent time.Duration
				for b.Loop() {
					b.StopTimer()
					for range batches {
						if _, err := writing.ExecContext(b.Context(), rollup.InsertDelta, db.Moment(time.Now()), encoded); err != nil {
							b.Fatal(err)
						}
					}
					start := cpu()
					b.StartTimer()
					for more := true; more; {
						var err error
						if _, more, err = r.Merge(b.Context()); err != nil {
							b.Fatal(err)
						}
					}
					b.StopTimer()
					spent += cpu() - start
					b.StartTimer()
				}
				b.ReportMetric(float64(spent.Nanoseconds())/float64(b.N*batches*1000), "cpu-ns/attempt")
			})
		}
	})
}
