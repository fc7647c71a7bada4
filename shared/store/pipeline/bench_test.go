package store_test

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
)

// benchStores opens a migrated store on each database, with the durability of a real
// installation.
func benchStores(b *testing.B, run func(b *testing.B, s *store.Store, cpu func() time.Duration)) {
	b.Helper()
	b.Run("postgres", func(b *testing.B) {
		c, err := pgtest.Start(b.Context(), "")
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { _ = c.Stop() })
		run(b, benchStore(b, c.URL("postgres")), func() time.Duration { return processTime(b, c.Pid()) })
	})
	b.Run("sqlite", func(b *testing.B) {
		run(b, benchStore(b, "sqlite:"+filepath.Join(b.TempDir(), "waybill.db")), func() time.Duration { return processTime(b, 0) })
	})
}

// processTime returns the processor time that this process and the server's backends have
// used: other work on the machine does not show in it.
func processTime(b *testing.B, postmaster int) time.Duration {
	b.Helper()
	var self syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &self); err != nil {
		b.Fatal(err)
	}
	total := time.Duration(self.Utime.Nano() + self.Stime.Nano())
	if postmaster == 0 {
		return total
	}
	children, err := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/children", postmaster, postmaster))
	if err != nil {
		b.Fatal(err)
	}
	for pid := range strings.FieldsSeq(string(children)) {
		text, err := os.ReadFile("/proc/" + pid + "/stat")
		if err != nil {
			continue // ended meanwhile
		}
		fields := strings.Fields(string(text[bytes.LastIndexByte(text, ')')+1:]))
		user, _ := strconv.Atoi(fields[11])
		system, _ := strconv.Atoi(fields[12])
		total += time.Duration(user+system) * (time.Second / 100) // the kernel's unit
	}
	return total
}

func benchStore(b *testing.B, url string) *store.Store {
	b.Helper()
	s := openStore(b, store.Options{URL: url})
	if _, err := s.Migrate(b.Context()); err != nil {
		b.Fatal(err)
	}
	return s
}

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
	benchStores(b, func(b *testing.B, s *store.Store, cpu func() time.Duration) {
		type call struct {
			sub  store.Submission
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
				subs := make([]store.Submission, len(group))
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
					calls <- call{store.Submission{Account: "default", Events: []domain.Event{kilobyte()}}, done}
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
	benchStores(b, func(b *testing.B, s *store.Store, cpu func() time.Duration) {
		start := cpu()
		for b.Loop() {
			sub := store.Submission{Account: "default", Events: []domain.Event{kilobyte()}}
			if _, err := s.Accept(b.Context(), []store.Submission{sub}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N), "cpu-µs/event")
	})
}

// BenchmarkAcceptBatch is one caller with batches of 1000.
func BenchmarkAcceptBatch(b *testing.B) {
	benchStores(b, func(b *testing.B, s *store.Store, cpu func() time.Duration) {
		start := cpu()
		for b.Loop() {
			sub := store.Submission{Account: "default"}
			for range 1000 {
				sub.Events = append(sub.Events, kilobyte())
			}
			if _, err := s.Accept(b.Context(), []store.Submission{sub}); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64((cpu()-start).Microseconds())/float64(b.N*1000), "cpu-µs/event")
		b.ReportMetric(float64(b.N)*1000/b.Elapsed().Seconds(), "events/s")
	})
}

// BenchmarkRecord writes 500 outcomes with their attempts: of first attempts, which is
// the good path, of second ones, and of first ones of what was held.
func BenchmarkRecord(b *testing.B) {
	benchStores(b, func(b *testing.B, s *store.Store, cpu func() time.Duration) {
		var webhooks [10]domain.WebhookID
		for i := range webhooks {
			webhooks[i] = domain.WebhookID(uuid.NewString())
		}
		batch := func() domain.RecordBatch {
			var r domain.RecordBatch
			now := time.Now().UTC().Truncate(time.Millisecond)
			for i := range 50 {
				key := domain.EventKey{Account: "default", ID: fmt.Sprintf("evt_%s", uuid.NewString()), ReceivedAt: now.Add(time.Duration(i/10) * time.Millisecond)}
				r.Settled = append(r.Settled, key)
				for _, w := range webhooks {
					r.Outcomes = append(r.Outcomes, domain.Outcome{
						Delivery: domain.NewDeliveryID(key, w), Account: "default", Webhook: w, EventID: key.ID,
						EventType: domain.ShipmentCreated, Status: domain.StatusDelivered, Rev: 2, Attempts: 1, RunAttempts: 1,
						RunStartedAt: now, UpdatedAt: now,
						Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: time.Millisecond, Status: 200, ResponseBody: "ok"},
					})
				}
			}
			return r
		}
		first := func() domain.RecordBatch { return batch() }
		second := func() domain.RecordBatch {
			work := batch()
			mustRecord(b, s, work)
			for i := range work.Outcomes {
				o := &work.Outcomes[i]
				attempt := *o.Attempt
				attempt.ID, attempt.Number = domain.AttemptID(), 2
				o.Rev, o.Attempts, o.Attempt = 4, 2, &attempt
			}
			return work
		}
		held := func() domain.RecordBatch {
			work := batch()
			before := domain.RecordBatch{Outcomes: slices.Clone(work.Outcomes)}
			for i := range before.Outcomes {
				o := &before.Outcomes[i]
				o.Status, o.Rev, o.InLane, o.Attempts, o.RunAttempts, o.Attempt = domain.StatusHeld, domain.FirstOutcome, true, 0, 0, nil
				work.Outcomes[i].Rev = domain.FirstOutcome + 2
			}
			if _, err := s.Record(b.Context(), []domain.RecordBatch{before}); err != nil {
				b.Fatal(err)
			}
			return work
		}
		for name, prepare := range map[string]func() domain.RecordBatch{"first": first, "second": second, "held": held} {
			b.Run(name, func(b *testing.B) {
				const group = 20 // processor time is counted in hundredths of a second
				var spent time.Duration
				n := 0
				for b.Loop() {
					b.StopTimer()
					var works [group]domain.RecordBatch
					for i := range works {
						works[i] = prepare()
					}
					start := cpu()
					b.StartTimer()
					for _, work := range works[:] {
						mustRecord(b, s, work)
					}
					b.StopTimer()
					spent += cpu() - start
					n += group
					b.StartTimer()
				}
				b.ReportMetric(float64(spent.Microseconds())/float64(n*500), "cpu-µs/outcome")
				b.ReportMetric(b.Elapsed().Seconds()*1000/float64(n), "ms/500")
			})
		}
	})
}

func mustRecord(b *testing.B, s *store.Store, work domain.RecordBatch) {
	b.Helper()
	r, err := s.Record(b.Context(), []domain.RecordBatch{work})
	if err != nil {
		b.Fatal(err)
	}
	if r.Attempts != 500 {
		b.Fatalf("result %+v", r)
	}
}

// BenchmarkFindKey looks keys up among a million: some that there are, and some that
// there are not. A single run is of a few.
func BenchmarkFindKey(b *testing.B) {
	benchStores(b, func(b *testing.B, s *store.Store, _ func() time.Duration) {
		keys := keyring{store: s}
		for name, first := range map[string]int{"hit": 0, "miss": -1 << 40} {
			b.Run(name, func(b *testing.B) {
				if b.N == 1 {
					keys.grow(b, 10_000)
				} else {
					keys.grow(b, 1_000_000)
				}
				b.ResetTimer()
				for i := range b.N {
					at := first + (i*7919)%keys.n
					_, _, err := s.FindKey(b.Context(), [][]byte{keyHash(at)})
					if (err == nil) != (first == 0) || err != nil && !errors.Is(err, domain.ErrNotFound) {
						b.Fatalf("key %d: %v", at, err)
					}
				}
			})
		}
	})
}

// keyring fills a store with keys, a thousand a consumer.
type keyring struct {
	store *store.Store
	n     int
}

func (k *keyring) grow(b *testing.B, to int) {
	b.Helper()
	if k.n == 0 {
		if _, err := k.store.CreateBucket(b.Context(), domain.Bucket{Account: domain.DefaultAccount, Name: "bucket"}); err != nil {
			b.Fatal(err)
		}
	}
	for k.n < to {
		keys := make([]domain.APIKey, 1000)
		for i := range keys {
			keys[i].Hash = keyHash(k.n)
			k.n++
		}
		c := domain.Consumer{Account: domain.DefaultAccount, Bucket: "bucket", Name: strconv.Itoa(k.n), Scopes: domain.Scopes()}
		if _, err := k.store.CreateConsumer(b.Context(), c, nil, keys); err != nil {
			b.Fatal(err)
		}
	}
}

func keyHash(i int) []byte {
	hash := sha256.Sum256([]byte(strconv.Itoa(i)))
	return hash[:]
}
