package api_test

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"waybill.dev/shared/domain"
	"waybill.dev/shared/store/traffic"
)

// answered has a deployment answer requests, as a gateway tells of them: one a minute back in
// time, by different consumers, every third one with 502.
func (r *rig) answered(deployment string, n int) {
	r.t.Helper()
	now := time.Now().UTC()
	b := &traffic.Batch{Writer: deployment, Number: 1, Calls: map[traffic.CallKey]*traffic.Calls{}, NotKept: map[traffic.DeploymentMinute]int64{{Deployment: deployment, Minute: now.Unix() / 60}: 7}}
	for i := range n {
		at := now.Add(-time.Duration(i) * time.Minute)
		row := traffic.Request{
			Deployment: deployment, At: at, ID: int64(i), RequestID: fmt.Sprintf("%s-%d", deployment, i), BuildID: "b1", Method: "GET", Host: "h", Path: "/orders/1",
			RoutePath: "/orders/{id}", Status: 200, Took: 1500 * time.Microsecond, Consumer: []string{"bakery", "florist"}[i%2], Severity: domain.SeverityInfo, Network: "203.0.113.0/24",
			ClientRequestID: "theirs",
		}
		if i%3 == 2 {
			row.Status, row.Severity, row.BackEnd = 502, domain.SeverityError, traffic.BackEnd{Host: "orders.example", Took: time.Millisecond}
			row.Entries = []traffic.Entry{{At: at, Severity: domain.SeverityError, Source: "handler", Message: "The back end can't be reached.", Attributes: []byte(`{"reason":"connect_refused"}`)}}
		}
		b.Rows = append(b.Rows, row)
		b.Calls[traffic.CallKey{Deployment: deployment, Consumer: row.Consumer, Minute: at.Unix() / 60, Status: row.Status}] = &traffic.Calls{Calls: int64(i + 1)}
	}
	if err := traffic.New(r.store.Store).Write(r.t.Context(), b); err != nil {
		r.t.Fatal(err)
	}
}

// What a deployment has answered is told of by the analytics and by the log, to its own account
// alone.
func TestTraffic(t *testing.T) {
	t.Parallel()
	eachDatabase(t, func(t *testing.T, r *rig) {
		r.project("shop")
		shop := r.upload("main").text("deploymentName")
		r.answered(shop, 5)
		r.answered(domain.LocalDeployment, 2)
		path := "/v1/deployments/" + shop

		recent := func(query string) string {
			var list []string
			for _, call := range r.do(http.MethodGet, path+"/recent-calls"+query, "").want(http.StatusOK).items("data") {
				list = append(list, fmt.Sprint(call["consumer"], " ", call["method"], call["routePath"], ":", call["statusCode"]))
			}
			return strings.Join(list, ", ")
		}
		if got, want := recent("?limit=3"), "bakery GET/orders/{id}:200, florist GET/orders/{id}:200, bakery GET/orders/{id}:502"; got != want {
			t.Errorf("recent: %s, want %s", got, want)
		}
		if got, want := recent("?consumers=florist&consumers=nobody"), "florist GET/orders/{id}:200, florist GET/orders/{id}:200"; got != want {
			t.Errorf("recent of one: %s, want %s", got, want)
		}

		var counted struct {
			Data struct {
				Stats   []map[string]any `json:"stats"`
				Details []map[string]any `json:"details"`
			} `json:"data"`
		}
		for _, filter := range []string{"last-hour", "last-24-hours", "last-7-days", "last-30-days", "last-3-months"} {
			r.do(http.MethodGet, path+"/stats-by-status-code?filter="+filter, "").want(http.StatusOK).into(&counted)
			status := func(code, calls float64) map[string]any { return map[string]any{"statusCode": code, "calls": calls} }
			want := []map[string]any{
				{"consumer": "bakery", "totalCalls": 9.0, "callsByStatusCode": []any{status(200, 6), status(502, 3)}},
				{"consumer": "florist", "totalCalls": 6.0, "callsByStatusCode": []any{status(200, 6)}},
			}
			if diff := cmp.Diff(want, counted.Data.Stats); diff != "" {
				t.Errorf("%s (-want +got):\n%s", filter, diff)
			}
		}
		r.do(http.MethodGet, path+"/stats-by-status-code?filter=last-hour", "").into(&counted)
		if len(counted.Data.Details) != 5 {
			t.Errorf("by minute: %v", counted.Data.Details)
		}

		page := r.do(http.MethodGet, path+"/request-logs?limit=2", "").want(http.StatusOK)
		var log struct {
			Pagination struct {
				Cursor string `json:"cursor"`
			} `json:"pagination"`
			NotKept int `json:"notKept"`
		}
		page.into(&log)
		if len(page.items("data")) != 2 || log.Pagination.Cursor == "" || log.NotKept != 7 {
			t.Errorf("first page: %s", page.body)
		}
		if rest := r.do(http.MethodGet, path+"/request-logs?cursor="+log.Pagination.Cursor, "").want(http.StatusOK).items("data"); len(rest) != 3 || rest[0]["requestId"] != shop+"-2" || rest[0]["entries"] != 2.0 {
			t.Errorf("the rest: %v", rest)
		}
		for query, want := range map[string]int{
			"severity=error": 1, "httpStatus=5xx": 1, "httpStatus=2xx&httpMethod=GET": 4, "search=BACK+END": 1, "routePath=": 0, "routePath=%2Forders%2F%7Bid%7D": 5,
			"endTime=" + url.QueryEscape(time.Now().Add(-90*time.Second).Format(time.RFC3339)): 3,
		} {
			if got := r.do(http.MethodGet, path+"/request-logs?"+query, "").want(http.StatusOK).items("data"); len(got) != want {
				t.Errorf("%s: %d, want %d", query, len(got), want)
			}
		}
		for _, query := range []string{
			"severity=bad", "httpStatus=200", "limit=201", "cursor=x", "httpMethod=GET&cursor=" + log.Pagination.Cursor, "x=1",
			"search=x&startTime=2026-01-01T00:00:00Z", "startTime=2026-01-02T00:00:00Z&endTime=2026-01-01T00:00:00Z",
		} {
			r.do(http.MethodGet, path+"/request-logs?"+query, "").want(http.StatusBadRequest)
		}
		r.do(http.MethodGet, path+"/stats-by-status-code", "").want(http.StatusBadRequest)
		r.do(http.MethodGet, "/v1/deployments/local/request-logs?cursor="+log.Pagination.Cursor, "").want(http.StatusBadRequest)

		one := r.do(http.MethodGet, path+"/request-logs/"+shop+"-2", "").want(http.StatusOK)
		entries := one.items("entries")
		if len(entries) != 2 || entries[0]["source"] != "handler" || entries[1]["message"] != "GET /orders/1 was answered with 502" || one.text("remoteNetwork") != "203.0.113.0/24" || one.text("clientRequestId") != "theirs" {
			t.Errorf("one: %s", one.body)
		}
		r.do(http.MethodGet, path+"/request-logs/unknown", "").want(http.StatusNotFound)
		r.browser().signIn(adminKey).get("/console/deployments/"+shop+"/requests/"+shop+"-2").want(t, http.StatusOK, "").has(t, "handler, &#43;0\u202fms · <wb-time>")
		if got := r.do(http.MethodGet, "/v1/deployments/local/request-logs", "").want(http.StatusOK).items("data"); len(got) != 2 {
			t.Errorf("of local: %v", got)
		}

		// A second account sees what it would see of a name that nobody has.
		second := r.secondAccount("second")
		for _, rest := range []string{"/recent-calls", "/stats-by-status-code?filter=last-hour", "/request-logs", "/request-logs/" + shop + "-2"} {
			for _, name := range []string{shop, "local"} {
				foreign := r.do(http.MethodGet, "/v1/deployments/"+name+rest, "", as(second)).want(http.StatusNotFound)
				missing := r.do(http.MethodGet, "/v1/deployments/nobody"+rest, "", as(second)).want(http.StatusNotFound)
				if a, b := foreign.text("detail"), missing.text("detail"); a != b {
					t.Errorf("%s%s: %s, want %s", name, rest, a, b)
				}
			}
		}
		_, weak := r.holder(r.bucket("partners"), "weak", domain.ScopeEventsRead)
		r.do(http.MethodGet, path+"/request-logs", "", as(weak)).want(http.StatusForbidden)
	})
}
