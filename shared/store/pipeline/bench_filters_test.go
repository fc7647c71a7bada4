package pipeline_test

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/pgtest"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/pipeline"
	"waybill.dev/shared/store/storetest"
)

var deliveriesOfFilters = flag.Int("deliveries", 20_000, "how many deliveries BenchmarkFilters lists from")

// BenchmarkFilters reads pages of the lists under every filter, from a week of deliveries of
// one account on Postgres. The longest of several pages counts: none may take over 100 ms.
//
//	go test -run - -bench Filters -benchtime 5x -timeout 1h -deliveries 10000000 ./store/pipeline
func BenchmarkFilters(b *testing.B) {
	c, err := pgtest.Start(b.Context(), "", "max_wal_size=4GB")
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Stop() })
	db := storetest.Database{URL: c.URL("postgres")}.Open(b, store.Options{})
	week := fillWeek(b, db, *deliveriesOfFilters)
	s := pipeline.New(db)
	yes, no := true, false
	rare, usual := week.webhooks[0], week.webhooks[1]
	deliveries := map[string]pipeline.DeliveryFilter{
		"none": {}, "webhook": {Webhook: usual}, "status=delivered": {Status: domain.StatusDelivered}, "status=failed": {Status: domain.StatusFailed},
		"status=held": {Status: domain.StatusHeld}, "class=ok": {Class: domain.ClassOK}, "class=timeout": {Class: domain.ClassTimeout},
		"class=dns": {Class: domain.ClassDNS}, "class=auth": {Class: domain.ClassAuth}, "statusCode=200": {StatusCode: 200}, "statusCode=201": {StatusCode: 201},
		"statusCode=503": {StatusCode: 503}, "statusCode=418": {StatusCode: 418}, "reason": {Reason: domain.ReasonExhausted}, "reason=webhookDeleted": {Reason: domain.ReasonWebhookDeleted},
		"reason=overCapacity": {Reason: domain.ReasonOverCap}, "test=true": {Test: &yes}, "test=false": {Test: &no}, "type": {Type: domain.ShipmentCreated},
		"type, rare": {Type: domain.ShipmentException}, "shipment": {Shipment: "shp_42"}, "shipment, large": {Shipment: "shp_large"},
		"shipment, unknown": {Shipment: "nowhere"}, "shipment and class": {Shipment: "shp_large", Class: domain.ClassDNS},
		"webhook and class": {Webhook: usual, Class: domain.ClassDNS}, "webhook and type": {Webhook: usual, Type: domain.ShipmentException},
		"rare webhook and type": {Webhook: rare, Type: domain.ShipmentException}, "class and type": {Class: domain.Class5xx, Type: domain.ShipmentException},
		"type and class, none": {Type: domain.ShipmentCreated, StatusCode: 202}, "failed until": {Status: domain.StatusFailed, Until: week.from.Add(24 * time.Hour)},
	}
	for name, f := range deliveries {
		f.Account = "default"
		page := func(cursor string) (string, int) {
			f.Cursor = cursor
			list, next, err := s.ListDeliveries(b.Context(), f)
			if err != nil {
				b.Fatal(err)
			}
			return next, len(list)
		}
		b.Run("deliveries/"+name, func(b *testing.B) { pages(b, page) })
	}
	for name, f := range map[string]pipeline.EventFilter{
		"none": {}, "type, rare": {Type: domain.ShipmentException}, "source=nats": {Source: domain.SourceNATS}, "shipment": {Shipment: "shp_42"},
		"shipment, large": {Shipment: "shp_large"}, "shipment and source": {Shipment: "shp_large", Source: domain.SourceNATS},
	} {
		f.Account = "default"
		page := func(cursor string) (string, int) {
			f.Cursor = cursor
			list, next, err := s.ListEvents(b.Context(), f)
			if err != nil {
				b.Fatal(err)
			}
			return next, len(list)
		}
		b.Run("events/"+name, func(b *testing.B) { pages(b, page) })
	}
}

// pages reads the first pages of a list, again from the start when it has ended.
func pages(b *testing.B, page func(cursor string) (next string, n int)) {
	b.Helper()
	cursor, rows := page("") // what is not in memory yet
	var longest time.Duration
	for b.Loop() {
		began := time.Now()
		next, n := page(cursor)
		longest = max(longest, time.Since(began))
		cursor, rows = next, rows+n
	}
	b.ReportMetric(float64(longest.Microseconds())/1000, "ms/longest")
	b.ReportMetric(float64(rows)/float64(b.N+1), "rows/page")
}

// weekOf is what fillWeek has made.
type weekOf struct {
	from     time.Time
	webhooks []domain.WebhookID // the first one gets one delivery in 10,000
}

// fillWeek writes n deliveries, two an event, over seven days: one in 20 failed, one in
// 100,000 by a look-up of the name, one in 10,000 is a test; one event in 1000 is an exception,
// and one in 500 is of one large shipment.
func fillWeek(b *testing.B, db *store.Store, n int) weekOf {
	b.Helper()
	week := weekOf{from: domain.Day(time.Now()).Add(-6 * 24 * time.Hour)}
	for range 10 {
		week.webhooks = append(week.webhooks, domain.WebhookID(uuid.NewString()))
	}
	events := n / 2
	step := 7 * 24 * time.Hour / time.Duration(events)
	for day := range 7 {
		at := week.from.Add(time.Duration(day) * 24 * time.Hour)
		if err := db.PrepareDays(b.Context(), at); err != nil {
			b.Fatal(err)
		}
		first, last := day*events/7, (day+1)*events/7
		received := func(i int) time.Time { return week.from.Add(time.Duration(i) * step).Truncate(time.Millisecond) }
		fill(b, db, store.Partition("events", at),
			[]string{"day", "account", "id", "type", "occurred_at", "payload", "received_at", "source", "shipment"}, first, last,
			func(i int) [][]any {
				shipment, source := fmt.Sprintf("shp_%d", i/4), domain.SourceREST
				if i%500 == 0 {
					shipment = "shp_large"
				}
				if i%50_000 == 0 {
					source = domain.SourceNATS
				}
				return [][]any{{at, "default", fmt.Sprintf("evt_%d", i), string(kindOf(i)), "2026-01-01T00:00:00Z", []byte(`{}`), received(i), string(source),
					domain.ShipmentKey("default", shipment)}}
			})
		fill(b, db, store.Partition("deliveries", at), []string{
			"day", "id", "account", "webhook_id", "event_id", "event_type", "status", "rev", "attempts", "run_attempts", "in_lane", "reason", "test", "updated_at",
			"last_class", "last_status", "attempt_id", "attempt_number", "attempt_started_at", "attempt_us", "attempt_status", "attempt_class", "attempt_error", "attempt_body",
			"attempt_transcript",
		}, first, last, func(i int) [][]any { return deliveryRows(&week, at, received(i), i) })
		if _, err := db.Postgres().Exec(b.Context(), "ANALYZE "+store.Partition("deliveries", at)); err != nil {
			b.Fatal(err)
		}
	}
	return week
}

func kindOf(i int) domain.EventType {
	if i%1000 == 7 {
		return domain.ShipmentException
	}
	return []domain.EventType{domain.ShipmentCreated, domain.ShipmentInTransit, domain.ShipmentDelivered}[i%3]
}

func deliveryRows(week *weekOf, day, at time.Time, i int) [][]any {
	var rows [][]any
	to := []domain.WebhookID{week.webhooks[1+i%9], week.webhooks[1+(i+1)%9]}
	if i%5000 == 0 {
		to[0] = week.webhooks[0]
	}
	slices.Sort(to)
	for j, w := range to {
		k := 2*i + j
		key := domain.EventKey{Account: "default", ID: fmt.Sprintf("evt_%d", i), ReceivedAt: at}
		status, reason, answer := domain.StatusDelivered, "", 200
		var lastClass, lastStatus, class any
		if k%20 == 0 {
			status, reason, answer, lastClass, lastStatus = domain.StatusFailed, domain.ReasonExhausted, 503, string(domain.Class5xx), 503
			switch {
			case k%100_000 == 0:
				lastClass, class, lastStatus, answer = string(domain.ClassDNS), string(domain.ClassDNS), 0, 0
			case k%60 == 0:
				lastClass, class, lastStatus, answer, status, reason = string(domain.ClassTimeout), string(domain.ClassTimeout), 0, 0, domain.StatusRetrying, ""
			case k%50_020 == 0:
				status, reason = domain.StatusHeld, domain.ReasonInactive
			}
		}
		rows = append(rows, []any{
			day, string(domain.NewDeliveryID(key, w)), "default", string(w), key.ID, string(kindOf(i)), string(status), int64(2), 1, 1, false, reason, k%10_000 == 1, at,
			lastClass, lastStatus, domain.AttemptID(), 1, at, int64(1500), answer, class, "", "ok", kept,
		})
	}
	return rows
}

// kept is as long as the transcript of an ordinary attempt.
var kept = make([]byte, 220)

// fill copies the rows of the numbers from first to last.
func fill(b *testing.B, db *store.Store, table string, columns []string, first, last int, rows func(i int) [][]any) {
	b.Helper()
	var pending [][]any
	i := first
	source := pgx.CopyFromFunc(func() ([]any, error) {
		if len(pending) == 0 {
			if i >= last {
				return nil, nil
			}
			pending = rows(i)
			i++
		}
		row := pending[0]
		pending = pending[1:]
		return row, nil
	})
	if _, err := db.Postgres().CopyFrom(context.WithoutCancel(b.Context()), pgx.Identifier{table}, columns, source); err != nil {
		b.Fatal(err)
	}
}
