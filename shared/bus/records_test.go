package bus_test

import (
	"fmt"
	"testing"
	"time"

	"waybill.dev/shared/bus"
	"waybill.dev/shared/domain"
)

func batch(n int) *domain.RecordBatch {
	now := time.UnixMilli(1_770_000_000_123).UTC()
	b := &domain.RecordBatch{}
	for i := range n {
		key := domain.EventKey{Account: "default", ID: fmt.Sprintf("evt_01980f2c7a607c3e9d5a4f1b2c3d%04x", i), ReceivedAt: now}
		b.Settled = append(b.Settled, key)
		b.Outcomes = append(b.Outcomes, domain.Outcome{
			Delivery: domain.NewDeliveryID(key, webhook), Account: "default", Webhook: webhook, EventID: key.ID,
			EventType: domain.ShipmentDelivered, EventSeq: uint64(i), Status: domain.StatusDelivered, Rev: 2, Attempts: 1,
			RunAttempts: 1, RunStartedAt: now, UpdatedAt: now,
			Attempt: &domain.Attempt{ID: domain.AttemptID(), Number: 1, StartedAt: now, Duration: time.Millisecond, Status: 200, ResponseBody: `{"ok":true}`},
		})
	}
	return b
}

// BenchmarkRecords measures one outcome on its way through the bus's encoding.
func BenchmarkRecords(b *testing.B) {
	const n = 100
	encoded, err := bus.EncodeRecords(batch(n))
	if err != nil {
		b.Fatal(err)
	}
	b.Run("encode", func(b *testing.B) {
		in := batch(n)
		b.ReportAllocs()
		for range b.N {
			if _, err := bus.EncodeRecords(in); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/outcome")
		b.ReportMetric(float64(len(encoded))/n, "bytes/outcome")
	})
	b.Run("decode", func(b *testing.B) {
		b.ReportAllocs()
		for range b.N {
			if _, err := bus.ParseRecords(encoded); err != nil {
				b.Fatal(err)
			}
		}
		b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/outcome")
	})
}
