package system

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// A dispatcher that falls silent is shown as silent, one that says goodbye is gone, and what is
// no heartbeat is nothing.
func TestDispatchers(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		d := NewDispatchers()
		for _, body := range []string{`{"id":"a"}`, `{"id":"b"}`, `{"id":"c"}`, `{"id":"c","gone":true}`, `{`, `{"id":""}`, `[]`} {
			d.heard([]byte(body))
		}
		<-time.After(liveTime)
		d.heard([]byte(`{"id":"b","reads":2}`))
		<-time.After(time.Second)
		all, live := d.list(time.Now())
		if len(all) != 2 || live != 1 || all[0].ID != "a" || all[0].Live || !all[1].Live {
			t.Errorf("%d alive of %+v", live, all)
		}
		<-time.After(knownTime)
		if all, live := d.list(time.Now()); len(all) != 0 || live != 0 {
			t.Errorf("%d alive of %+v", live, all)
		}
		for i := range maxKnown + 10 {
			d.heard(fmt.Appendf(nil, `{"id":"%d"}`, i))
		}
		if all, _ := d.list(time.Now()); len(all) != maxKnown {
			t.Errorf("%d are remembered", len(all))
		}
	})
}

func TestMeasured(t *testing.T) {
	t.Parallel()
	r := prometheus.NewRegistry()
	calls := prometheus.NewCounterVec(prometheus.CounterOpts{Name: "waybill_gateway_calls_total", Help: "Calls."}, []string{"method", "route", "class"})
	took := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "waybill_gateway_call_seconds", Help: "How long calls take.", Buckets: []float64{0.001, 0.01, 1}}, []string{"method", "route"})
	r.MustRegister(calls, took)
	calls.WithLabelValues("GET", "/a", "2xx").Add(9)
	calls.WithLabelValues("GET", "/a", "5xx").Add(2)
	calls.WithLabelValues("POST", "/a", "5xx").Add(5)
	for range 99 {
		took.WithLabelValues("GET", "/a").Observe(0.005)
	}
	took.WithLabelValues("GET", "/slow").Observe(5)
	for _, want := range []routeLine{
		{RouteLine{Method: "GET", Path: "/a"}, 11, 2, "≤ 10ms"}, {RouteLine{Method: "GET", Path: "/slow"}, 0, 0, "over 4 s"}, {RouteLine{Method: "GET", Path: "/never"}, 0, 0, ""},
	} {
		got := measured(want.RouteLine, gather(r))
		if got.Calls != want.Calls || got.Failed != want.Failed || got.P95 != want.P95 {
			t.Errorf("%+v, want %+v", got, want)
		}
	}
}
