package traffic_test

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

func TestMain(m *testing.M) { os.Exit(storetest.Main(m)) }

// TestSuite is what gateways and readers of their traffic rely on, on both databases.
func TestSuite(t *testing.T) {
	storetest.Run(t, newBench, map[string]storetest.Tests[*bench]{
		"counts": {
			"are summed by minute, hour and day":     testCounts,
			"of a batch that comes again count once": testRepeat,
			"of many writers are all there":          testWriters,
			"of too many consumers go together":      testConsumers,
			"are bounded in an answer":               testMost,
		},
		"requests": {
			"are kept whole":                    testRequest,
			"are found by each filter":          testFilters,
			"are listed page by page":           testPages,
			"have cursors of their list alone":  testCursors,
			"are searched span by span":         testSearch,
			"are told of, the newest first":     testRecent,
			"that are not kept are counted":     testNotKept,
			"with any bytes in them are stored": testBytes,
		},
		"retention": {"ends each kind in its time": testRetention},
	})
}

type bench struct {
	*storetest.Bench
	traffic *traffic.Traffic
}

func newBench(b *storetest.Bench) *bench { return &bench{b, traffic.New(b.DB)} }

func (b *bench) write(t *testing.T, batch *traffic.Batch) {
	t.Helper()
	if batch.Writer == "" {
		batch.Writer, batch.Number = "one", int64(b.Next())
	}
	if err := b.traffic.Write(t.Context(), batch); err != nil {
		t.Fatalf("write: %v", err)
	}
}

// counts returns counts as start consumer status calls micros.
func (b *bench) counts(t *testing.T, deployment string, step traffic.Step, consumers ...string) []string {
	t.Helper()
	counts, err := b.traffic.CallCounts(t.Context(), deployment, step, storetest.Noon().Add(-200*24*time.Hour), consumers, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	list := make([]string, len(counts))
	for i, c := range counts {
		list[i] = fmt.Sprintf("%s %s %d %d %d", c.Start.Format("02 15:04"), c.Consumer, c.Status, c.Calls.Calls, c.Micros)
	}
	return list
}

func minute(at time.Time) int64 { return at.Unix() / 60 }

func equal(t *testing.T, what string, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

func testCounts(t *testing.T, b *bench) {
	noon := minute(storetest.Noon())
	b.write(t, &traffic.Batch{Calls: map[traffic.CallKey]*traffic.Calls{
		{Deployment: "shop", Consumer: "bakery", Minute: noon, Status: 200}:       {Calls: 3, Micros: 30},
		{Deployment: "shop", Consumer: "bakery", Minute: noon + 1, Status: 200}:   {Calls: 4, Micros: 40},
		{Deployment: "shop", Consumer: "bakery", Minute: noon, Status: 404}:       {Calls: 1, Micros: 1},
		{Deployment: "shop", Consumer: "florist", Minute: noon, Status: 200}:      {Calls: 5, Micros: 50},
		{Deployment: "shop", Consumer: "bakery", Minute: noon - 1, Status: 200}:   {Calls: 2, Micros: 20},
		{Deployment: "shop2", Consumer: "bakery", Minute: noon, Status: 200}:      {Calls: 9, Micros: 90},
		{Deployment: "shop", Consumer: "bakery", Minute: noon - 720, Status: 200}: {Calls: 7, Micros: 70},
	}})
	b.write(t, &traffic.Batch{Calls: map[traffic.CallKey]*traffic.Calls{{Deployment: "shop", Consumer: "bakery", Minute: noon, Status: 200}: {Calls: 10, Micros: 100}}})
	equal(t, "minutes", b.counts(t, "shop", traffic.Minute1), []string{
		"10 00:00 bakery 200 7 70", "10 11:59 bakery 200 2 20", "10 12:00 bakery 200 13 130", "10 12:00 bakery 404 1 1", "10 12:00 florist 200 5 50", "10 12:01 bakery 200 4 40",
	})
	equal(t, "hours", b.counts(t, "shop", traffic.Hour1, "bakery"), []string{"10 00:00 bakery 200 7 70", "10 11:00 bakery 200 2 20", "10 12:00 bakery 200 17 170", "10 12:00 bakery 404 1 1"})
	equal(t, "days", b.counts(t, "shop", traffic.Day1), []string{"10 00:00 bakery 200 26 260", "10 00:00 bakery 404 1 1", "10 00:00 florist 200 5 50"})
	equal(t, "another deployment's", b.counts(t, "shop2", traffic.Day1), []string{"10 00:00 bakery 200 9 90"})
	since, err := b.traffic.CallCounts(t.Context(), "shop", traffic.Minute1, storetest.Noon().Add(30*time.Second), nil, 10)
	if err != nil || len(since) != 4 {
		t.Errorf("since: %v, %v, want the step of the time and those after it", since, err)
	}
}

func testRepeat(t *testing.T, b *bench) {
	noon := storetest.Noon()
	batch := &traffic.Batch{
		Writer: "two", Number: 7,
		Calls:   map[traffic.CallKey]*traffic.Calls{{Deployment: "shop", Consumer: "c", Minute: minute(noon), Status: 200}: {Calls: 3, Micros: 30}},
		NotKept: map[traffic.DeploymentMinute]int64{{Deployment: "shop", Minute: minute(noon)}: 2},
		Rows:    []traffic.Request{{Deployment: "shop", At: noon, ID: 1, RequestID: "r", Severity: domain.SeverityInfo}},
	}
	for range 3 {
		b.write(t, batch)
	}
	older := *batch
	older.Number = 6
	b.write(t, &older)
	equal(t, "after repeats", b.counts(t, "shop", traffic.Day1), []string{"10 00:00 c 200 3 30"})
	if n, err := b.traffic.NotKept(t.Context(), "shop", time.Time{}, time.Time{}); err != nil || n != 2 {
		t.Errorf("%d not kept (%v), want 2", n, err)
	}
	// Another process has the same numbers, and so has this one when it comes back.
	other := *batch
	other.Writer, other.Rows = "three", nil
	b.write(t, &other)
	equal(t, "of two writers", b.counts(t, "shop", traffic.Day1), []string{"10 00:00 c 200 6 60"})
	// A batch that fails leaves nothing behind, and can be written later.
	broken := &traffic.Batch{
		Writer: "two", Number: 8, Calls: batch.Calls,
		Rows: []traffic.Request{{Deployment: "shop", At: noon, ID: 1, RequestID: "r", Severity: domain.SeverityInfo}},
	}
	if err := b.traffic.Write(t.Context(), broken); !errors.Is(err, domain.ErrConflict) {
		t.Errorf("a row that is there: %v", err)
	}
	equal(t, "after a failure", b.counts(t, "shop", traffic.Day1), []string{"10 00:00 c 200 6 60"})
	broken.Rows = nil
	b.write(t, broken)
	equal(t, "after the failure was mended", b.counts(t, "shop", traffic.Day1), []string{"10 00:00 c 200 9 90"})
}

func testWriters(t *testing.T, b *bench) {
	const writers, batches = 4, 25
	var running sync.WaitGroup
	for w := range writers {
		running.Go(func() {
			own := traffic.New(b.DB)
			for n := range batches {
				calls := map[traffic.CallKey]*traffic.Calls{}
				for c := range 20 {
					calls[traffic.CallKey{Deployment: "shop", Consumer: strconv.Itoa((c * (w + 1)) % 23), Minute: minute(storetest.Noon()), Status: 200}] = &traffic.Calls{Calls: 1, Micros: 2}
				}
				if err := own.Write(t.Context(), &traffic.Batch{Writer: strconv.Itoa(w), Number: int64(n + 1), Calls: calls}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	running.Wait()
	counts, err := b.traffic.CallCounts(t.Context(), "shop", traffic.Day1, storetest.Noon(), nil, 100)
	sum := int64(0)
	for _, c := range counts {
		sum += c.Calls.Calls
	}
	if want := int64(writers * batches * 20); err != nil || sum != want {
		t.Errorf("%d calls (%v), want %d", sum, err, want)
	}
}

func testConsumers(t *testing.T, b *bench) {
	traffic.SetMostConsumers(b.traffic, 3)
	key := func(consumer string, at time.Time) traffic.CallKey {
		return traffic.CallKey{Deployment: "shop", Consumer: consumer, Minute: minute(at), Status: 200}
	}
	one := func(keys ...traffic.CallKey) {
		for _, k := range keys {
			b.write(t, &traffic.Batch{Calls: map[traffic.CallKey]*traffic.Calls{k: {Calls: 1}}})
		}
	}
	noon := storetest.Noon()
	one(key("a", noon), key("b", noon), key("c", noon), key("d", noon), key("e", noon), key("a", noon))
	want := []string{"10 00:00 a 200 2 0", "10 00:00 b 200 1 0", "10 00:00 c 200 1 0", "10 00:00 other 200 2 0"}
	equal(t, "consumers", b.counts(t, "shop", traffic.Day1), want)
	// A process that has just started finds out who is counted apart.
	b.traffic = traffic.New(b.DB)
	traffic.SetMostConsumers(b.traffic, 3)
	one(key("f", noon), key("b", noon))
	want[1], want[3] = "10 00:00 b 200 2 0", "10 00:00 other 200 3 0"
	equal(t, "after a restart", b.counts(t, "shop", traffic.Day1), want)
	one(key("f", noon.Add(24*time.Hour)))
	if got := b.counts(t, "shop", traffic.Day1, "f"); len(got) != 1 {
		t.Errorf("on the next day: %v", got)
	}
}

func testMost(t *testing.T, b *bench) {
	calls := map[traffic.CallKey]*traffic.Calls{}
	for i := range 11 {
		calls[traffic.CallKey{Deployment: "shop", Consumer: strconv.Itoa(i), Minute: minute(storetest.Noon()), Status: 200}] = &traffic.Calls{Calls: 1}
	}
	b.write(t, &traffic.Batch{Calls: calls})
	if _, err := b.traffic.CallCounts(t.Context(), "shop", traffic.Day1, storetest.Noon(), nil, 10); !errors.Is(err, domain.ErrLimit) {
		t.Errorf("more rows than may be: %v", err)
	}
	if got, err := b.traffic.CallCounts(t.Context(), "shop", traffic.Day1, storetest.Noon(), nil, 11); err != nil || len(got) != 11 {
		t.Errorf("as many as may be: %d, %v", len(got), err)
	}
}

// request is one with every field set.
func request() traffic.Request {
	at := storetest.Noon().Add(-time.Minute + 123456*time.Microsecond)
	return traffic.Request{
		Deployment: "shop", At: at, ID: 1 << 62, RequestID: "7b0c", ClientRequestID: "theirs", BuildID: "b1", Method: "POST",
		Host: "shop.gateway.localhost:8080", Path: "/orders/%C3%A9", RoutePath: "/orders/{id}", Status: 502, Took: 1500 * time.Microsecond,
		Consumer: "bakery", Severity: domain.SeverityError, Network: "203.0.113.0/24", BytesIn: 12, BytesOut: 34,
		BackEnd: traffic.BackEnd{Host: "api.example.com", Status: 500, Took: 1200 * time.Microsecond}, MCPMethod: "tools/call", MCPTool: "order",
		Entries: []traffic.Entry{
			{At: at, Severity: domain.SeverityWarn, Source: "policy check", Message: "The request does not match.", Attributes: []byte(`{"faults":2}`)},
			{At: at.Add(time.Millisecond), Severity: domain.SeverityError, Source: "handler", Message: "The back end can't be reached."},
		},
		EntryCount: 3, Truncated: true,
	}
}

func testRequest(t *testing.T, b *bench) {
	r := request()
	b.write(t, &traffic.Batch{Rows: []traffic.Request{r}})
	got, err := b.traffic.GetRequest(t.Context(), "shop", r.RequestID)
	if err != nil {
		t.Fatal(err)
	}
	equal(t, "request", got, r)
	equal(t, "its last entry", got.Last(), traffic.Entry{
		At: r.At.Add(r.Took), Severity: domain.SeverityError, Source: "gateway", Message: "POST /orders/%C3%A9 was answered with 502",
	})
	list, _, err := b.traffic.ListRequests(t.Context(), traffic.RequestFilter{Deployment: "shop", Limit: 10})
	r.Entries = nil
	equal(t, "list", list, []traffic.Request{r})
	_, missing := b.traffic.GetRequest(t.Context(), "shop2", r.RequestID)
	storetest.WantNotFound(t, "a request of another deployment", errors.Join(missing, err))
	_, missing = b.traffic.GetRequest(t.Context(), "shop", "\x00")
	storetest.WantNotFound(t, "an id that nothing can have", missing)
	// Who uses an id twice sees the newer one.
	again := request()
	again.At, again.Entries, again.EntryCount = again.At.Add(time.Second), nil, 1
	b.write(t, &traffic.Batch{Rows: []traffic.Request{again}})
	if got, err := b.traffic.GetRequest(t.Context(), "shop", r.RequestID); err != nil || !got.At.Equal(again.At) {
		t.Errorf("an id that was used twice: %v, %v", got.At, err)
	}
}

// ids lists the ids of requests.
func ids(list []traffic.Request) string {
	var b strings.Builder
	for _, r := range list {
		b.WriteString(r.RequestID)
	}
	return b.String()
}

func testFilters(t *testing.T, b *bench) {
	noon := storetest.Noon()
	row := func(id, method, path, route string, status int, severity domain.Severity, entries ...string) traffic.Request {
		r := traffic.Request{Deployment: "shop", At: noon.Add(-time.Duration(b.Next()) * time.Second), RequestID: id, Method: method, Path: path, RoutePath: route, Status: status, Severity: severity, Consumer: "c"}
		for _, message := range entries {
			r.Entries = append(r.Entries, traffic.Entry{At: r.At, Severity: severity, Source: "s", Message: message, Attributes: []byte(`{"hidden":1}`)})
		}
		return r
	}
	foreign := row("x", "GET", "/", "/", 200, domain.SeverityInfo)
	foreign.Deployment = "other"
	b.write(t, &traffic.Batch{Rows: []traffic.Request{
		row("a", "GET", "/orders/1", "/orders/{id}", 200, domain.SeverityInfo),
		row("b", "POST", "/orders", "/orders", 201, domain.SeverityWarn, "Slow Answer of 100% or so"),
		row("c", "GET", "/nothing", "", 404, domain.SeverityWarn),
		row("d", "DELETE", "/orders/1", "/orders/{id}", 502, domain.SeverityError, "first", "The Back_End is away"),
		row("e", "GET", "/old", "/old", 301, domain.SeverityInfo), foreign,
	}})
	none, orders := "", "/orders/{id}"
	for name, c := range map[string]struct {
		filter traffic.RequestFilter
		want   string
	}{
		"all":                    {traffic.RequestFilter{}, "abcde"},
		"method":                 {traffic.RequestFilter{Method: "GET"}, "ace"},
		"rare method":            {traffic.RequestFilter{Method: "DELETE"}, "d"},
		"2xx":                    {traffic.RequestFilter{Class: 2}, "ab"},
		"3xx":                    {traffic.RequestFilter{Class: 3}, "e"},
		"4xx":                    {traffic.RequestFilter{Class: 4}, "c"},
		"5xx":                    {traffic.RequestFilter{Class: 5}, "d"},
		"route":                  {traffic.RequestFilter{RoutePath: &orders}, "ad"},
		"no route":               {traffic.RequestFilter{RoutePath: &none}, "c"},
		"severity":               {traffic.RequestFilter{Severity: domain.SeverityWarn}, "bc"},
		"no severity":            {traffic.RequestFilter{Severity: domain.SeverityInfo}, "ae"},
		"lowest severity":        {traffic.RequestFilter{Severity: domain.SeverityDebug}, ""},
		"search":                 {traffic.RequestFilter{Search: "slow answer"}, "b"},
		"search of a last entry": {traffic.RequestFilter{Search: "/ORDERS/1 was"}, "ad"},
		"search of a status":     {traffic.RequestFilter{Search: "with 404"}, "c"},
		"search is no pattern":   {traffic.RequestFilter{Search: "100%"}, "b"},
		"search is none either":  {traffic.RequestFilter{Search: "back_end is"}, "d"},
		"search of no pattern":   {traffic.RequestFilter{Search: "o_d"}, ""},
		"search of an escape":    {traffic.RequestFilter{Search: "!"}, ""},
		"search of attributes":   {traffic.RequestFilter{Search: "hidden"}, ""},
		"since and until":        {traffic.RequestFilter{Since: noon.Add(-4 * time.Second), Until: noon.Add(-3 * time.Second)}, "bc"},
		"several":                {traffic.RequestFilter{RoutePath: &orders, Class: 5, Severity: domain.SeverityError, Method: "DELETE", Search: "AWAY"}, "d"},
	} {
		c.filter.Deployment, c.filter.Limit = "shop", 10
		list, next, err := b.traffic.ListRequests(t.Context(), c.filter)
		if err != nil || ids(list) != c.want || next != "" {
			t.Errorf("%s: %q, %q, %v, want %q", name, ids(list), next, err, c.want)
		}
	}
}

func testPages(t *testing.T, b *bench) {
	rows := make([]traffic.Request, 100)
	var want []string
	for i := range rows {
		// Several at one time, over two hours.
		at := storetest.Noon().Add(30*time.Minute - time.Duration(i/7)*10*time.Minute)
		rows[i] = traffic.Request{Deployment: "shop", At: at, ID: int64(1000 - i), RequestID: strconv.Itoa(i), Severity: domain.SeverityInfo}
		want = append(want, rows[i].RequestID)
	}
	slices.Reverse(rows)
	b.write(t, &traffic.Batch{Rows: rows})
	for _, limit := range []int{1, 7, 30, 99, 100, 101} {
		filter := traffic.RequestFilter{Deployment: "shop", Limit: limit}
		var got []string
		for {
			list, next, err := b.traffic.ListRequests(t.Context(), filter)
			if err != nil || len(list) == 0 {
				t.Fatalf("%d after %d: %d, %v", limit, len(got), len(list), err)
			}
			for _, r := range list {
				got = append(got, r.RequestID)
			}
			if filter.Cursor = next; next == "" {
				break
			}
		}
		equal(t, fmt.Sprintf("pages of %d", limit), got, want)
	}
}

// testSearch searches a day whose rows are said to take too long to search at once: each page is of one
// span, and all pages together are what is there.
func testSearch(t *testing.T, b *bench) {
	noon := storetest.Noon()
	var rows []traffic.Request
	var want []string
	for i := range 200 { // several at one time, some of them where spans meet
		at := noon.Add(-time.Duration(i/3) * 20 * time.Minute)
		r := traffic.Request{Deployment: "shop", At: at, ID: int64(1000 - i), RequestID: strconv.Itoa(i), Severity: domain.SeverityInfo, Method: "GET", Path: "/", Status: 200}
		if i/3%5 == 0 {
			r.Entries = []traffic.Entry{{At: at, Message: "A needle.", Severity: domain.SeverityInfo}}
			want = append(want, r.RequestID)
		}
		rows = append(rows, r)
	}
	b.write(t, &traffic.Batch{Rows: rows})
	for _, limit := range []int{1, 2, 3, 100} {
		for _, patience := range []time.Duration{0, time.Hour} {
			traffic.SetSearchTime(b.traffic, patience)
			filter := traffic.RequestFilter{Deployment: "shop", Search: "needle", Limit: limit, Method: "GET"}
			var got []string
			pages, empty := 0, 0
			for {
				list, next, err := b.traffic.ListRequests(t.Context(), filter)
				if err != nil || len(list) > limit || pages > 200 {
					t.Fatalf("page %d: %d, %v", pages, len(list), err)
				}
				pages++
				if len(list) == 0 {
					empty++
				}
				for _, r := range list {
					got = append(got, r.RequestID)
				}
				if filter.Cursor = next; next == "" {
					break
				}
			}
			equal(t, fmt.Sprintf("pages of %d within %s", limit, patience), got, want)
			if patience == 0 && (pages < 22 || limit > 2 && empty == 0) || patience > 0 && empty > 0 {
				t.Errorf("%d pages of %d within %s, %d of them empty", pages, limit, patience, empty)
			}
		}
	}
	traffic.SetSearchTime(b.traffic, 0)
	for what, f := range map[string]traffic.RequestFilter{
		"an hour of it":             {Since: noon.Add(-100 * time.Minute), Until: noon.Add(-100*time.Minute + time.Second)},
		"before the oldest":         {Until: noon.Add(-30 * 24 * time.Hour)},
		"after the newest":          {Since: noon.Add(time.Hour)},
		"a deployment without rows": {Deployment: "nobody"},
	} {
		f.Limit, f.Search = 10, "needle"
		if f.Deployment == "" {
			f.Deployment = "shop"
		}
		list, next, err := b.traffic.ListRequests(t.Context(), f)
		if n := len(list); err != nil || next != "" || n != map[bool]int{true: 3}[what == "an hour of it"] {
			t.Errorf("%s: %d, %q, %v", what, n, next, err)
		}
	}
}

func testCursors(t *testing.T, b *bench) {
	at := storetest.Noon()
	var rows []traffic.Request
	for i := range 6 {
		for _, deployment := range []string{"shop", "other"} {
			rows = append(rows, traffic.Request{Deployment: deployment, At: at, ID: int64(i), RequestID: strconv.Itoa(i), Method: "GET", Severity: domain.SeverityInfo})
		}
	}
	b.write(t, &traffic.Batch{Rows: rows})
	first := traffic.RequestFilter{Deployment: "shop", Method: "GET", Limit: 2}
	_, cursor, err := b.traffic.ListRequests(t.Context(), first)
	if err != nil || cursor == "" {
		t.Fatalf("first page: %q, %v", cursor, err)
	}
	route := ""
	for name, change := range map[string]func(*traffic.RequestFilter){
		"another deployment": func(f *traffic.RequestFilter) { f.Deployment = "other" },
		"another method":     func(f *traffic.RequestFilter) { f.Method = "POST" },
		"a route":            func(f *traffic.RequestFilter) { f.RoutePath = &route },
		"a time":             func(f *traffic.RequestFilter) { f.Since = at.Add(-time.Hour) },
		"a search":           func(f *traffic.RequestFilter) { f.Search = "x" },
		"a damaged cursor":   func(f *traffic.RequestFilter) { f.Cursor = "A" + cursor[1:] },
		"another list's": func(f *traffic.RequestFilter) {
			f.Cursor = store.Cursor{List: "e", Account: "shop", ID: "1.1"}.Encode()
		},
		"nonsense": func(f *traffic.RequestFilter) { f.Cursor = "x" },
	} {
		filter := first
		filter.Cursor = cursor
		change(&filter)
		if _, _, err := b.traffic.ListRequests(t.Context(), filter); !errors.Is(err, store.ErrCursor) {
			t.Errorf("%s: %v, want no cursor of the list", name, err)
		}
	}
	first.Cursor, first.Limit = cursor, 4 // pages may have another length
	if list, next, err := b.traffic.ListRequests(t.Context(), first); err != nil || ids(list) != "3210" || next != "" {
		t.Errorf("the rest: %s, %q, %v", ids(list), next, err)
	}
}

func testRecent(t *testing.T, b *bench) {
	noon := storetest.Noon()
	var rows []traffic.Request
	for i, consumer := range []string{"a", "b", "c", "a", "b"} {
		rows = append(rows, traffic.Request{Deployment: "shop", At: noon.Add(-time.Duration(i) * time.Hour), RequestID: strconv.Itoa(i), Consumer: consumer, Severity: domain.SeverityInfo})
	}
	b.write(t, &traffic.Batch{Rows: rows})
	for _, c := range []struct {
		hours     int
		consumers []string
		limit     int
		want      string
	}{{24, nil, 10, "01234"}, {24, nil, 2, "01"}, {24, []string{"b"}, 10, "14"}, {24, []string{"c", "a"}, 10, "023"}, {2, nil, 10, "012"}, {24, []string{"z"}, 10, ""}} {
		list, err := b.traffic.RecentCalls(t.Context(), "shop", noon.Add(-time.Duration(c.hours)*time.Hour), c.consumers, c.limit)
		if err != nil || ids(list) != c.want {
			t.Errorf("%+v: %s, %v", c, ids(list), err)
		}
	}
}

func testNotKept(t *testing.T, b *bench) {
	noon := storetest.Noon()
	b.write(t, &traffic.Batch{NotKept: map[traffic.DeploymentMinute]int64{{"shop", minute(noon)}: 5, {"shop", minute(noon) + 1}: 7, {"other", minute(noon)}: 100}})
	b.write(t, &traffic.Batch{NotKept: map[traffic.DeploymentMinute]int64{{"shop", minute(noon)}: 1}})
	for _, c := range []struct {
		since, until time.Time
		want         int64
	}{
		{want: 13},
		{since: noon.Add(30 * time.Second), want: 13},
		{since: noon.Add(time.Minute), want: 7},
		{until: noon.Add(59 * time.Second), want: 6},
		{until: noon.Add(-time.Second)},
	} {
		if n, err := b.traffic.NotKept(t.Context(), "shop", c.since, c.until); err != nil || n != c.want {
			t.Errorf("%v to %v: %d, %v, want %d", c.since, c.until, n, err, c.want)
		}
	}
}

func testBytes(t *testing.T, b *bench) {
	r := request()
	r.Path, r.Host, r.Consumer, r.Entries[0].Message = "/\x00\xff", "h\xc3", "\x00", "a\x00b\nc"
	b.write(t, &traffic.Batch{Rows: []traffic.Request{r}})
	got, err := b.traffic.GetRequest(t.Context(), "shop", r.RequestID)
	if err != nil || got.Path != "/\uFFFD\uFFFD" || got.Host != "h\uFFFD" || got.Consumer != "\uFFFD" || got.Entries[0].Message != "a\uFFFDb\nc" {
		t.Errorf("%q %q %q %v, %v", got.Path, got.Host, got.Consumer, got.Entries, err)
	}
}

func testRetention(t *testing.T, b *bench) {
	noon := storetest.Noon()
	calls, notKept := map[traffic.CallKey]*traffic.Calls{}, map[traffic.DeploymentMinute]int64{}
	var rows []traffic.Request
	for _, ago := range []time.Duration{time.Minute, 3 * time.Hour, 30 * time.Hour, 9 * 24 * time.Hour, 101 * 24 * time.Hour} {
		at := noon.Add(-ago)
		calls[traffic.CallKey{Deployment: "shop", Consumer: "c", Minute: minute(at), Status: 200}] = &traffic.Calls{Calls: 1}
		notKept[traffic.DeploymentMinute{Deployment: "shop", Minute: minute(at)}] = 1
		rows = append(rows, traffic.Request{Deployment: "shop", At: at, RequestID: ago.String(), Severity: domain.SeverityInfo})
	}
	b.write(t, &traffic.Batch{Calls: calls, NotKept: notKept, Rows: rows})
	for range 2 {
		if err := b.traffic.Maintain(t.Context(), 24*time.Hour); err != nil {
			t.Fatal(err)
		}
	}
	left := []int{len(b.counts(t, "shop", traffic.Minute1)), len(b.counts(t, "shop", traffic.Hour1)), len(b.counts(t, "shop", traffic.Day1))}
	equal(t, "counts by minute, hour and day", left, []int{1, 3, 3})
	if n, err := b.traffic.NotKept(t.Context(), "shop", time.Time{}, time.Time{}); err != nil || n != 2 {
		t.Errorf("%d not kept, %v, want 2", n, err)
	}
	list, _, err := b.traffic.ListRequests(t.Context(), traffic.RequestFilter{Deployment: "shop", Limit: 10})
	if err != nil || len(list) != 2 {
		t.Errorf("%d requests, %v, want 2", len(list), err)
	}
	if !b.DB.SQLite() && partitions(t, b) != 5 { // of now, the two hours after it, and of the two that are kept
		t.Errorf("%d partitions", partitions(t, b))
	}
	// A clock that is behind finds room again for what was dropped.
	b.write(t, &traffic.Batch{Rows: []traffic.Request{{Deployment: "shop", At: noon.Add(-30 * time.Hour), RequestID: "late", Severity: domain.SeverityInfo}}})
	if _, err := b.traffic.GetRequest(t.Context(), "shop", "late"); err != nil {
		t.Errorf("a late row: %v", err)
	}
	b.Clock.Advance(25 * time.Hour)
	if err := b.traffic.Maintain(t.Context(), 24*time.Hour); err != nil {
		t.Fatal(err)
	}
	writing, _ := b.DB.Handles()
	if n := number(t, writing, "SELECT count(*) FROM gateway_writers"); n != 0 {
		t.Errorf("%d writers, want none that has not written for a day", n)
	}
}

func partitions(t *testing.T, b *bench) int {
	t.Helper()
	writing, _ := b.DB.Handles()
	return number(t, writing, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'gateway_requests'::regclass")
}

func number(t *testing.T, db *sql.DB, query string) (n int) {
	t.Helper()
	if err := db.QueryRowContext(context.WithoutCancel(t.Context()), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
