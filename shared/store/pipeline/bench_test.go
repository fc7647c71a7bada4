package pipeline_test

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

// kilobyte is an event of 1 KB.
func kilobyte() domain.Event {
	id, _ := uuid.NewV7()
	head := `{"id":"evt_` + id.String() + `","type":"shipment.created","timestamp":"2025-06-10T12:00:00Z","data":{"shipmentId":"`
	return domain.Event{
		Account: "default", ID: "evt_" + id.String(), Type: domain.ShipmentCreated, Timestamp: "2025-06-10T12:00:00Z",
		Payload: []byte(head + strings.Repeat("x", 1024-len(head)-3) + `"}}`),
	}
}

// BenchmarkAccept is 64 callers with one event each at a time, whose submissions share
// the commits of one worker, as in api's group commit.
func BenchmarkAccept(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		s := pipeline.New(db)
		type call struct {
			sub  pipeline.Submission
			done chan error
		}
		calls := make(chan call, 64)
		var commits atomic.Int64
		var workers sync.WaitGroup
		workers.Go(func() {
			for first := range calls {
				group := []call{first}
				for more := true; more && len(group) < 1000; {
					select {
					case c, ok := <-calls:
						if more = ok; ok {
							group = append(group, c)
						}
					default:
						more = false
					}
				}
				subs := make([]pipeline.Submission, len(group))
				for i, c := range group {
					subs[i] = c.sub
				}
				_, err := s.Accept(b.Context(), subs)
				commits.Add(1)
				for _, c := range group {
					c.done <- err
				}
			}
		})
		b.ResetTimer()
		start := cpu()
		var callers sync.WaitGroup
		var left atomic.Int64
		left.Store(int64(b.N))
		for range 64 {
			callers.Go(func() {
				done := make(chan error, 1)
				for left.Add(-1) >= 0 {
					calls <- call{pipeline.Submission{Account: "default", Events: []domain.Event{kilobyte()}}, done}
					if err := <-done; err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		callers.Wait()
		b.StopTimer()
		b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-µs/event")
		close(calls)
		workers.Wait()
		b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
		b.ReportMetric(float64(b.N)/float64(commits.Load()), "events/commit")
	})
}

// BenchmarkAcceptOne commits one event at a time, as at a low rate: what a commit costs
// besides its events.
func BenchmarkAcceptOne(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		s := pipeline.New(db)
		start := cpu()
		for b.Loop() {
			sub := pipeline.Submission{Account: "default", Events: []domain.Event{kilobyte()}}
			if _, err := s.Accept(b.Context(), []pipeline.Submission{sub}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-µs/event")
	})
}

// BenchmarkAcceptBatch is one caller with batches of 1000.
func BenchmarkAcceptBatch(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		s := pipeline.New(db)
		start := cpu()
		for b.Loop() {
			sub := pipeline.Submission{Account: "default"}
			for range 1000 {
				sub.Events = append(sub.Events, kilobyte())
			}
			if _, err := s.Accept(b.Context(), []pipeline.Submission{sub}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N*1000), "cpu-µs/event")
		b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkOutbox is the outbox's whole life: events are accepted in commits of a size, and
// settled in batches that end in the middle of commits, one event in eight a batch later than
// the others, as with receivers of different speed.
func BenchmarkOutbox(b *testing.B) {
	const batch = 256
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		s, r := pipeline.New(db), recorder.New(db)
		for _, size := range []int{1, 10, 50, 500} {
			b.Run(strconv.Itoa(size), func(b *testing.B) {
				var stored, late []domain.EventKey
				settle := func(keys []domain.EventKey) {
					if _, err := r.Record(b.Context(), []domain.RecordBatch{{Settled: keys}}); err != nil {
						b.Fatal(err)
					}
				}
				events := 0
				start := cpu()
				for b.Loop() {
					subs := make([]pipeline.Submission, size)
					for i := range subs {
						subs[i] = pipeline.Submission{Account: "default", Events: []domain.Event{kilobyte()}}
					}
					receipts, err := s.Accept(b.Context(), subs)
					if err != nil {
						b.Fatal(err)
					}
					for _, receipt := range receipts {
						accepted := receipt.Events[0]
						stored = append(stored, domain.EventKey{Account: "default", ID: accepted.ID, ReceivedAt: accepted.ReceivedAt})
					}
					events += size
					for len(stored) >= batch {
						now := late
						late = nil
						for i, key := range stored[:batch] {
							if i%8 == 0 {
								late = append(late, key)
							} else {
								now = append(now, key)
							}
						}
						stored = slices.Clone(stored[batch:])
						settle(now)
					}
				}
				settle(append(stored, late...))
				b.ReportMetric(float64((cpu()-start).Microseconds())/float64(events), "cpu-µs/event")
			})
		}
	})
}
