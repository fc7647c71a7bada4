package observe_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"waybill.dev/services/gateway/gatewaytest"
	"waybill.dev/services/gateway/internal/route"
	"waybill.dev/shared/apikey"
	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/storetest"
	"waybill.dev/shared/store/traffic"
)

// Every request at full speed is counted by its consumer and status, to the last one, and each
// has a row or is among those that have none.
func TestEveryRequestCounts(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind, 50)
		r.serve()
		r.start()
		const clients, each = 8, 300
		var mu sync.Mutex
		want := map[string]int64{}
		var running sync.WaitGroup
		for c := range clients {
			running.Go(func() {
				own := map[string]int64{}
				client := &http.Client{Transport: &http.Transport{}}
				defer client.CloseIdleConnections()
				for i := range each {
					path, key, consumer, status := fmt.Sprintf("/open/%d", 200+i%3), "", "anonymous", 200+i%3
					switch (i + c) % 5 {
					case 0:
						path, status = "/nothing/here", 404
					case 1:
						path, status, key, consumer = "/keyed/503", 503, "key-of-bakery", "bakery"
					case 2:
						path, status, key, consumer = "/keyed/200", 200, "key-of-florist", "florist"
					case 3:
						path, status = "/keyed/200", 401
					}
					if got := send(t, client, http.MethodGet, r.url+path, "", "X-Api-Key", key); got != status {
						t.Errorf("%s: %d", path, got)
					}
					own[fmt.Sprintf("%s %d", consumer, status)]++
				}
				mu.Lock()
				defer mu.Unlock()
				for key, n := range own {
					want[key] += n
				}
			})
		}
		running.Wait()
		var got map[string]int64
		var all, notKept int64
		gatewaytest.Within(t, soon, "all calls are counted", func() bool {
			got, all, notKept = r.counted(domain.LocalDeployment)
			return all == clients*each
		})
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("calls (-want +got):\n%s", diff)
		}
		if kept := int64(len(r.rows(domain.LocalDeployment))); kept+notKept != all || kept < 50 {
			t.Errorf("%d kept and %d not, of %d", kept, notKept, all)
		}
	})
}

// send sends a request and reads its answer.
func send(t *testing.T, client *http.Client, method, url, body string, header ...string) (status int) {
	t.Helper()
	request, err := http.NewRequestWithContext(context.Background(), method, url, strings.NewReader(body))
	if err != nil {
		t.Error(err)
		return 0
	}
	for i := 0; i < len(header); i += 2 {
		if header[i+1] != "" {
			request.Header.Set(header[i], header[i+1])
		}
	}
	response, err := client.Do(request)
	if err != nil {
		t.Error(err)
		return 0
	}
	defer response.Body.Close()
	_, _ = io.Copy(io.Discard, response.Body)
	return response.StatusCode
}

// What was counted while the database was away is there when it is back, once, whether a batch
// came through or not.
func TestDatabaseAway(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind, 1000)
		tell := r.recorder.Of("shop", "b1")
		r.start()
		await := func(what string) {
			t.Helper()
			before := r.store.tried()
			gatewaytest.Within(t, soon, what, func() bool { return r.store.tried() > before+1 })
		}
		sent := int64(0)
		for _, state := range []struct{ before, after error }{{errAway, nil}, {nil, errAway}, {errAway, nil}, {nil, nil}} {
			r.store.set(state.before, state.after)
			for range 30 {
				tell(ended(t, 200))
				sent++
			}
			if state.before != nil || state.after != nil {
				await("batches fail")
			}
		}
		var all, notKept int64
		gatewaytest.Within(t, soon, "all calls are counted", func() bool {
			_, all, notKept = r.counted("shop")
			return all == sent
		})
		// The last write ends what was pending; nothing is counted afterwards.
		r.stop()
		if _, all, notKept = r.counted("shop"); all != sent || int64(len(r.rows("shop")))+notKept != sent {
			t.Errorf("%d calls, %d rows and %d without, want %d", all, len(r.rows("shop")), notKept, sent)
		}
	})
}

// A row that no database takes does not keep the counts from being written.
func TestRowsThatFail(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 1000)
	r.store.set(errors.New("a column is too short"), nil)
	tell := r.recorder.Of("shop", "b1")
	for range 10 {
		tell(ended(t, 200))
	}
	r.start()
	gatewaytest.Within(t, soon, "the batch has failed", func() bool { return r.store.tried() > 0 })
	r.store.set(nil, nil)
	gatewaytest.Within(t, soon, "the calls are counted", func() bool {
		_, all, notKept := r.counted("shop")
		return all == 10 && notKept == 10
	})
	if len(r.rows("shop")) > 0 {
		t.Error("the rows are there")
	}
	want := `# HELP waybill_gateway_request_logs_total Requests by what became of their row in the log: kept; not_kept, which is above the rate or dropped; and dropped among them, because the database was away for too long.
# TYPE waybill_gateway_request_logs_total counter
waybill_gateway_request_logs_total{result="dropped"} 10
waybill_gateway_request_logs_total{result="kept"} 0
waybill_gateway_request_logs_total{result="not_kept"} 10
`
	gatewaytest.Within(t, soon, "metrics say so", func() bool {
		return testutil.GatherAndCompare(r.registry, strings.NewReader(want), "waybill_gateway_request_logs_total") == nil
	})
}

// What is counted when the process ends is written.
func TestEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 10)
	r.start()
	r.recorder.Of("shop", "b1")(ended(t, 200))
	r.stop()
	if _, all, _ := r.counted("shop"); all != 1 {
		t.Errorf("%d calls", all)
	}
}

// A write that the end of the process cuts off is made once more, and is no trouble to tell of.
func TestEndCutsAWriteOff(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 10)
	hangs := make(chan struct{})
	r.store.hangs = hangs
	r.start()
	r.recorder.Of("shop", "b1")(ended(t, 200))
	<-hangs
	r.stop()
	if _, all, _ := r.counted("shop"); all != 1 || r.logs.String() != "" {
		t.Errorf("%d calls, and the log has %s", all, r.logs)
	}
}

// Above the rate failed requests come first, up to a half, and of the others each has the same
// chance.
func TestSample(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ failed, good, keptFailed, keptGood int }{
		"below the rate":       {60, 140, 60, 140},
		"few failed":           {3, 5000, 3, 197},
		"many failed":          {1000, 5000, 100, 100},
		"none failed":          {0, 5000, 0, 200},
		"all failed":           {5000, 0, 200, 0},
		"many failed, few not": {5000, 20, 180, 20},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, storetest.SQLite(), 200)
			tell := r.recorder.Of("shop", "b1")
			for i := range max(c.failed, c.good) {
				if i < c.failed {
					tell(ended(t, 500))
				}
				if i < c.good {
					tell(ended(t, 200))
				}
			}
			r.start()
			gatewaytest.Within(t, soon, "the calls are counted", func() bool { _, all, _ := r.counted("shop"); return all == int64(c.failed+c.good) })
			_, _, notKept := r.counted("shop")
			rows := map[int]int{}
			for _, row := range r.rows("shop") {
				rows[row.Status]++
			}
			if rows[500] != c.keptFailed || rows[200] != c.keptGood || int(notKept) != c.failed+c.good-c.keptFailed-c.keptGood {
				t.Errorf("%v are kept, %d are not", rows, notKept)
			}
		})
	}
}

// The sample of a busy time is of all of it.
func TestSampleIsFair(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 200)
	tell := r.recorder.Of("shop", "b1")
	const n = 20_000
	for i := range n {
		record := ended(t, 200)
		record.BytesIn = int64(i)
		tell(record)
	}
	r.start()
	gatewaytest.Within(t, soon, "the calls are counted", func() bool { _, all, _ := r.counted("shop"); return all == n })
	late := 0
	for _, row := range r.rows("shop") {
		if row.BytesIn >= n/2 {
			late++
		}
	}
	if late < 50 || late > 150 { // 100 expected, with a deviation of 7
		t.Errorf("%d of 200 are of the second half", late)
	}
}

// A deployment with many requests leaves the few of others their place in the log, and has what they leave.
func TestSampleOfManyDeployments(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 200)
	loud := r.recorder.Of("loud", "b1")
	const n = 5000
	for range n {
		loud(ended(t, 200))
		loud(ended(t, 500))
	}
	for _, name := range []string{"quiet-1", "quiet-2"} {
		tell := r.recorder.Of(name, "b1")
		tell(ended(t, 500))
		tell(ended(t, 200))
		tell(ended(t, 200))
	}
	r.start()
	gatewaytest.Within(t, soon, "the calls are counted", func() bool { _, all, _ := r.counted("loud"); return all == 2*n })
	for name, want := range map[string]int{"quiet-1": 3, "quiet-2": 3, "loud": 194} {
		if rows := r.rows(name); len(rows) != want {
			t.Errorf("%d requests of %s are kept, want %d", len(rows), name, want)
		}
	}
}

// Without memory for more kinds of calls, consumers are counted together, and none is lost.
func TestManyConsumers(t *testing.T) {
	t.Parallel()
	r := newRig(t, storetest.SQLite(), 0)
	r.store.set(errAway, nil)
	tell := r.recorder.Of("shop", "b1")
	const n = 100_050
	at := time.Now()
	for i := range n {
		record := &route.Record{At: at, Status: 200}
		record.Calls(&apikey.Principal{Consumer: strconv.Itoa(i)})
		tell(record)
	}
	calls := r.recorder.Calls()
	others := calls[traffic.CallKey{Deployment: "shop", Consumer: domain.ConsumerOther, Minute: at.Unix() / 60, Status: 200}]
	if len(calls) != 100_001 || others == nil || others.Calls != 50 {
		t.Errorf("%d kinds of calls, %+v of others", len(calls), others)
	}
}

// ended is a request that has just ended.
func ended(t *testing.T, status int) *route.Record {
	t.Helper()
	return &route.Record{At: time.Now(), Took: time.Millisecond, RequestID: fmt.Sprintf("%p", new(int)), Method: "GET", Path: "/", RoutePath: "/", Status: status}
}

// What a request's log says of it, by its way through the gateway; and that nothing else of the
// request is in any column.
func TestLogOfARequest(t *testing.T) {
	t.Parallel()
	storetest.Each(t, func(t *testing.T, kind storetest.Kind) {
		r := newRig(t, kind, 1000)
		r.serve()
		r.start()
		mcp := `{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"keyed","arguments":{"status":"503"}}}`
		cases := logCases(mcp)
		client := &http.Client{Transport: &http.Transport{}}
		defer client.CloseIdleConnections()
		for id, c := range cases {
			if got := send(t, client, c.method, r.url+c.path+"?query=secret-query", c.body, "X-Api-Key", c.key, "X-Request-Id", id,
				"X-Custom", "secret-header", "Cookie", "secret-cookie", "Content-Type", "application/json", "Accept", c.accept, "MCP-Protocol-Version", c.version); got != c.status {
				t.Errorf("%s: %d, want %d", id, got, c.status)
			}
		}
		gatewaytest.Within(t, soon, "all requests are in the log", func() bool { return len(r.rows(domain.LocalDeployment)) == len(cases) })
		for id, c := range cases {
			row, err := r.store.GetRequest(context.Background(), domain.LocalDeployment, id)
			if err != nil {
				t.Errorf("%s: %v", id, err)
				continue
			}
			if got := describe(row); !fits(got, c.want) {
				t.Errorf("%s:\n%s\nwant:\n%s", id, got, c.want)
			}
			if row.Network != "127.0.0.0/24" || row.Host != strings.TrimPrefix(r.url, "http://") || row.Took <= 0 || time.Since(row.At) > time.Hour {
				t.Errorf("%s: %+v", id, row)
			}
		}
		r.stop()
		if text := r.everything(); strings.Contains(text, "secret") || strings.Contains(text, "key-of") || strings.Contains(text, "query=") {
			t.Errorf("what must not be stored is: %s", text)
		}
	})
}

type logCase struct {
	method, path, key, body, accept, version string
	status                                   int
	want                                     string
}

func logCases(mcp string) map[string]logCase {
	return map[string]logCase{
		"static": {method: "GET", path: "/static", status: 200, want: "anonymous info GET /static /static 200 in 0 out 5\n"},
		"head":   {method: "HEAD", path: "/static", status: 200, want: "anonymous info HEAD /static /static 200 in 0 out 0\n"},
		"named":  {method: "GET", path: "/keyed/201", key: "key-of-bakery", status: 201, want: "bakery info GET /keyed/201 /keyed/{status} 201 in 0 out 6\n"},
		"admin":  {method: "GET", path: "/keyed/200", key: "key-of-nobody", status: 200, want: "bootstrap info GET /keyed/200 /keyed/{status} 200 in 0 out 6\n"},
		"no-key": {
			method: "GET", path: "/keyed/200", key: "secret-key", status: 401,
			want: "anonymous warn GET /keyed/200 /keyed/{status} 401 in 0 out +\nwarn policy key: The request was refused with 401 UNAUTHENTICATED.\n",
		},
		"no-route":  {method: "GET", path: "/nothing/%C3%A9", status: 404, want: "anonymous warn GET /nothing/%C3%A9  404 in 0 out +\n"},
		"no-method": {method: "DELETE", path: "/static", status: 405, want: "anonymous warn DELETE /static /static 405 in 0 out +\n"},
		"a-key-in-the-path": {
			method: "GET", path: "/wbk_0123456789ABCDEFGHIJKLMNOPQRSTUV_secret99", status: 404, want: "anonymous warn GET /wbk_****  404 in 0 out +\n",
		},
		"stream": {method: "GET", path: "/stream", status: 202, want: "anonymous info GET /stream /stream 202 in 0 out 6\n"},
		"panic": {
			method: "GET", path: "/panic", status: 500,
			want: "anonymous error GET /panic /panic 500 in 0 out +\nerror handler: The request has failed with 500 INTERNAL.\n",
		},
		"wall": {
			method: "GET", path: "/walled", status: 403,
			want: "anonymous warn GET /walled /walled 403 in 0 out +\nwarn policy wall: The request was refused with 403 FORBIDDEN.\n",
		},
		"checked": {
			method: "POST", path: "/checked", body: `{"secret":1}`, status: 200,
			want: "anonymous warn POST /checked /checked 200 in 12 out 1\nwarn policy check: The request does not match the documentation of its route. {\"faults\":1,\"contentType\":false}\n",
		},
		"forward": {
			method: "POST", path: "/back/secre%74s", key: "key-of-florist", body: "secret-body", status: 418,
			want: "florist warn POST /back/secre%74s /back/{x} 418 in 11 out 9 back end BACK 418\n",
		},
		"away": {
			method: "POST", path: "/away", body: "secret-body", status: 502,
			want: "anonymous error POST /away /away 502 in 11 out + back end 127.0.0.1:1 0\nerror handler: The back end can't be reached. {\"reason\":\"connect_refused\"}\n",
		},
		"tool": {
			method: "POST", path: "/mcp", key: "key-of-bakery", body: mcp, status: 200, accept: "application/json, text/event-stream", version: "2025-06-18",
			want: "bakery error POST /mcp /mcp 200 in + out + mcp tools/call keyed\n" +
				"error mcp: The operation keyed has answered with 503. {\"durationMs\":+}\n" +
				"debug mcp: An MCP request was answered. {\"method\":\"tools/call\",\"version\":\"2025-06-18\",\"code\":0,\"bytes\":+}\n",
		},
	}
}

// fits reports whether a text is as wanted, where + stands for any number and BACK for an address.
func fits(text, want string) bool {
	pattern := strings.NewReplacer(`\+`, `[0-9.]+`, "BACK", `127\.0\.0\.1:[0-9]+`).Replace(regexp.QuoteMeta(want))
	return regexp.MustCompile("^" + pattern + "$").MatchString(text)
}

// describe returns what a row says, without times.
func describe(row traffic.Request) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %s %s %s %d in %d out %d", row.Consumer, row.Severity, row.Method, row.Path, row.RoutePath, row.Status, row.BytesIn, row.BytesOut)
	if row.BackEnd.Host != "" {
		fmt.Fprintf(&b, " back end %s %d", row.BackEnd.Host, row.BackEnd.Status)
	}
	if row.MCPMethod != "" {
		fmt.Fprintf(&b, " mcp %s %s", row.MCPMethod, row.MCPTool)
	}
	b.WriteString("\n")
	for _, e := range row.Entries {
		fmt.Fprintf(&b, "%s %s: %s", e.Severity, e.Source, e.Message)
		if e.Attributes != nil {
			fmt.Fprintf(&b, " %s", e.Attributes)
		}
		b.WriteString("\n")
	}
	return b.String()
}

// everything returns all that is in the tables, as text.
func (r *rig) everything() string {
	r.t.Helper()
	var b strings.Builder
	for _, table := range []string{"gateway_calls", "gateway_not_kept", "gateway_writers", "gateway_requests"} {
		rows, err := r.db.Beneath(r.t).QueryContext(context.Background(), "SELECT * FROM "+table) //nolint:unqueryvet // all that is there
		if err != nil {
			r.t.Fatal(err)
		}
		columns, _ := rows.Columns()
		for rows.Next() {
			values := make([]any, len(columns))
			for i := range values {
				values[i] = new(any)
			}
			if err := rows.Scan(values...); err != nil {
				r.t.Fatal(err)
			}
			for _, value := range values {
				fmt.Fprintf(&b, "%s ", *value.(*any))
			}
		}
		if err := errors.Join(rows.Err(), rows.Close()); err != nil {
			r.t.Fatal(err)
		}
	}
	return b.String()
}
