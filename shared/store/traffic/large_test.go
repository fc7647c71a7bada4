package traffic_test

import (
	"flag"
	"fmt"
	"slices"
	"strconv"
	"testing"
	"time"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

var (
	large    = flag.Int("rows", 30_000, "how many requests TestLargeLog has in the log")
	asked    = flag.Int("asked", 20, "how often TestLargeLog asks for each filter")
	filledAs = flag.Duration("filling", 10*time.Minute, "how long TestLargeLog fills the log at most")
)

// The log of a day, of five deployments, the first of which has half of it.
const (
	dayOfLog  = 24 * time.Hour
	busiest   = "large-0"
	rowsAtOne = 100_000
)

// fillLog adds n requests, in the order of their time, for at most as long as the flag says. It
// returns how many there are.
func fillLog(t *testing.T, db *store.Store, tables *traffic.Traffic, n int) int {
	t.Helper()
	now := db.Now()
	seed := &traffic.Batch{Writer: "seed", Number: 1} // there is a partition for each hour then
	for hour := range 25 {
		seed.Rows = append(seed.Rows, traffic.Request{Deployment: "seed", At: now.Add(-time.Duration(hour) * time.Hour), RequestID: strconv.Itoa(hour), Severity: domain.SeverityInfo})
	}
	if err := tables.Write(t.Context(), seed); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	for from := 0; from < n; from += rowsAtOne {
		if time.Since(began) > *filledAs {
			return from
		}
		most := min(rowsAtOne, n-from)
		err := db.Writing(t.Context()).Exec(`INSERT INTO gateway_requests (deployment, at, id, request_id, client_request_id, build_id, method, host, path, route_path, status, micros,
			consumer, severity, network, bytes_in, bytes_out, back_end_host, back_end_status, back_end_micros, mcp_method, mcp_tool, entry_count, entries, messages, truncated)
		SELECT deployment, at, i, md5(i::text)::uuid::text, '', '0190c0f0-0000-7000-8000-000000000001', method, deployment || '.gateway.localhost', '/orders/' || i % 1000, '/orders/' || i % 40, status, 1200 + i % 9000,
			'consumer-' || i % 200, CASE WHEN status >= 500 THEN 'error' WHEN status >= 400 THEN 'warn' ELSE 'info' END, '203.0.113.0/24', 0, 512, '', 0, 0, '', '', CASE WHEN status >= 400 THEN 2 ELSE 1 END,
			CASE WHEN status >= 400 THEN '[{"t":1,"s":"warn","o":"policy key","m":"' || message || '"}]' ELSE '' END, CASE WHEN status >= 400 THEN message ELSE '' END, false
		FROM (SELECT i, 'large-' || CASE WHEN i % 2 = 0 THEN 0 ELSE 1 + i / 2 % 4 END AS deployment, ?::timestamptz + i * ?::interval AS at,
			CASE WHEN r < 2 THEN 500 + r WHEN r < 60 THEN 401 WHEN r < 80 THEN 302 ELSE 200 END AS status,
			CASE WHEN r % 10 = 0 THEN 'POST' WHEN r % 100 = 1 THEN 'DELETE' ELSE 'GET' END AS method,
			CASE WHEN i % 500000 = 0 THEN 'The flux capacitor is empty.' WHEN r < 2 THEN 'The back end can''t be reached.' ELSE 'The request was refused with 401 UNAUTHENTICATED.' END AS message
			FROM (SELECT i, (i * 7919 + i / 1000) % 1000 AS r FROM generate_series(?::bigint, ?::bigint) AS i) AS numbered) AS made`,
			now.Add(-dayOfLog), fmt.Sprintf("%d microseconds", dayOfLog.Microseconds()/int64(n)), from, from+most-1).Error
		if err != nil {
			t.Fatal(err)
		}
	}
	return n
}

// TestLargeLog reads a log of a day. With many rows it says what each filter takes:
//
//	go test -run '^TestLargeLog$' -v -rows 4000000 -asked 200 ./store/traffic
func TestLargeLog(t *testing.T) { //nolint:paralleltest // it measures
	db := storetest.Postgres().Fresh(t).Open(t, store.Options{})
	tables := traffic.New(db)
	began := time.Now()
	rows := fillLog(t, db, tables, *large)
	if err := db.Writing(t.Context()).Exec("ANALYZE gateway_requests").Error; err != nil {
		t.Fatal(err)
	}
	t.Logf("%d rows, %d MB, filled in %s", rows, onDisk(t, db)>>20, time.Since(began).Round(time.Second))

	now := db.Now()
	route, rare, nowhere := "/orders/0", "/orders/7", "/nowhere"
	hour := func(f traffic.RequestFilter) traffic.RequestFilter {
		f.Since, f.Until = now.Add(-13*time.Hour), now.Add(-12*time.Hour)
		return f
	}
	for _, one := range []struct {
		about  string
		filter traffic.RequestFilter
	}{
		{"the newest", traffic.RequestFilter{}},
		{"an hour", hour(traffic.RequestFilter{})},
		{"5xx", traffic.RequestFilter{Class: 5}},
		{"4xx", traffic.RequestFilter{Class: 4}},
		{"3xx", traffic.RequestFilter{Class: 3}},
		{"2xx", traffic.RequestFilter{Class: 2}},
		{"POST", traffic.RequestFilter{Method: "POST"}},
		{"GET", traffic.RequestFilter{Method: "GET"}},
		{"a method that nobody used", traffic.RequestFilter{Method: "PATCH"}},
		{"a path", traffic.RequestFilter{RoutePath: &route}},
		{"a path with 5xx", traffic.RequestFilter{RoutePath: &rare, Class: 5}},
		{"a path that is none", traffic.RequestFilter{RoutePath: &nowhere}},
		{"errors", traffic.RequestFilter{Severity: domain.SeverityError}},
		{"warnings", traffic.RequestFilter{Severity: domain.SeverityWarn}},
		{"all of it", hour(traffic.RequestFilter{Severity: domain.SeverityWarn, Class: 4, Method: "POST", RoutePath: &route})},
		{"search, an hour", hour(traffic.RequestFilter{Search: "flux"})},
		{"search, an hour, nothing found", hour(traffic.RequestFilter{Search: "no such text"})},
		{"search among errors", traffic.RequestFilter{Severity: domain.SeverityError, Search: "no such text"}},
		{"search among 4xx", traffic.RequestFilter{Class: 4, Search: "no such text"}},
		{"search on a path", traffic.RequestFilter{RoutePath: &route, Search: "no such text"}},
		{"search among GET", traffic.RequestFilter{Method: "GET", Search: "no such text"}},
		{"search among 2xx", traffic.RequestFilter{Class: 2, Search: "no such text"}},
	} {
		one.filter.Deployment, one.filter.Limit = busiest, 100
		times := *asked
		if one.filter.Search != "" {
			times = max(1, times/20)
		}
		var found int
		took := measured(times, func() {
			list, _, err := tables.ListRequests(t.Context(), one.filter)
			if err != nil {
				t.Fatal(err)
			}
			found = len(list)
		})
		t.Logf("%-32s %3d found, p50 %s, p99 %s", one.about, found, took[len(took)/2], took[len(took)*99/100])
	}

	walked, pages, cursor := 0, []time.Duration{}, ""
	for {
		began := time.Now()
		list, next, err := tables.ListRequests(t.Context(), traffic.RequestFilter{Deployment: busiest, Limit: 200, Cursor: cursor})
		if err != nil {
			t.Fatal(err)
		}
		pages = append(pages, time.Since(began).Round(10*time.Microsecond))
		walked += len(list)
		if cursor = next; cursor == "" {
			break
		}
	}
	slices.Sort(pages)
	t.Logf("%-32s %d rows in %d pages, p99 %s", "the cursor to the end", walked, len(pages), pages[len(pages)*99/100])
	if walked != (rows+1)/2 {
		t.Errorf("the cursor leads to %d rows of %d", walked, (rows+1)/2)
	}

	before := onDisk(t, db)
	began = time.Now()
	if err := tables.Maintain(t.Context(), 12*time.Hour); err != nil {
		t.Fatal(err)
	}
	after := onDisk(t, db)
	t.Logf("half of the retention: %d MB become %d MB in %s", before>>20, after>>20, time.Since(began).Round(time.Millisecond))
	if after > before*6/10 {
		t.Errorf("of %d bytes %d are left", before, after)
	}
}

// measured returns how long each of so many runs took, the shortest first.
func measured(times int, run func()) []time.Duration {
	list := make([]time.Duration, times)
	for i := range list {
		began := time.Now()
		run()
		list[i] = time.Since(began).Round(10 * time.Microsecond)
	}
	slices.Sort(list)
	return list
}

// onDisk returns what the log takes there, with its indexes.
func onDisk(t *testing.T, db *store.Store) (bytes int64) {
	t.Helper()
	err := db.Reading(t.Context()).Raw("SELECT coalesce(sum(pg_total_relation_size(inhrelid)), 0) FROM pg_inherits WHERE inhparent = 'gateway_requests'::regclass").Scan(&bytes).Error
	if err != nil {
		t.Fatal(err)
	}
	return bytes
}
