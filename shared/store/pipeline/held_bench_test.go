package pipeline_test

import (
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

// BenchmarkCountOpen counts with a million deliveries in the hold queue, and looks for the last answers.
func BenchmarkCountOpen(b *testing.B) {
	storetest.Benchmark(b, func(b *testing.B, db *store.Store, _ func() time.Duration) {
		s := pipeline.New(db)
		made, _, err := s.CreateWebhook(b.Context(), domain.Webhook{Account: "default", URL: "https://x.example", Events: domain.EventTypes(), Active: true, Secret: domain.NewSecret()}, nil)
		if err != nil {
			b.Fatal(err)
		}
		id := made.ID
		writing, _ := db.Handles()
		now := time.Now()
		if err := db.PrepareDays(b.Context(), store.DaysAround(now)...); err != nil {
			b.Fatal(err)
		}
		query := `INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, in_lane, reason, test, updated_at)
			SELECT $1, 'held' || i, 'default', $2, 'evt_' || i, 'shipment.created', 'retrying', 2, 0, 0, true, 'circuitOpen', false, $3 FROM generate_series(1, 1000000) AS i`
		if db.SQLite() {
			query = `WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000) ` +
				`INSERT INTO deliveries (day, id, account, webhook_id, event_id, event_type, status, rev, attempts, run_attempts, in_lane, reason, test, updated_at)
			SELECT $1, 'held' || i, 'default', $2, 'evt_' || i, 'shipment.created', 'retrying', 2, 0, 0, 1, 'circuitOpen', 0, $3 FROM n`
		}
		if _, err := writing.ExecContext(b.Context(), query, db.Date(now), string(id), db.Moment(now)); err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			counts, err := s.CountOpen(b.Context(), "default", pipeline.MostCounted, id)
			if err != nil || counts[id].Held != pipeline.MostCounted {
				b.Fatal(counts, err)
			}
			if _, err := s.LastAnswers(b.Context(), id, 5); err != nil {
				b.Fatal(err)
			}
		}
	})
}
