package recorder_test

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/recorder"
	"waybill.dev/shared/store/storetest"
)

// kept is as long as the transcript of an ordinary attempt.
var kept = bytes.Repeat([]byte{1, 0xff}, 110)

// BenchmarkRecord writes 500 outcomes with their attempts: of first attempts, which is
// the good path, of second ones, and of first ones of what was held.
func BenchmarkRecord(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, cpu func() time.Duration) {
		s := recorder.New(db)
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
						Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: time.Millisecond, Status: 200, Class: domain.ClassOK, ResponseBody: "ok", Transcript: kept},
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

func mustRecord(b *testing.B, s *recorder.Recorder, work domain.RecordBatch) {
	b.Helper()
	r, err := s.Record(b.Context(), []domain.RecordBatch{work})
	if err != nil {
		b.Fatal(err)
	}
	if r.Attempts != 500 {
		b.Fatalf("result %+v", r)
	}
}
