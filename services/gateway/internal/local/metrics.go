package local

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/services/gateway/internal/site"
)

type metrics struct {
	calls   *prometheus.CounterVec
	latency *prometheus.HistogramVec
	reloads *prometheus.CounterVec
	routes  prometheus.Gauge
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		calls: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_gateway_calls_total", Help: "Calls of gateway routes by route, origin (http, or mcp for calls through an MCP server) and class of status.",
		}, []string{"method", "route", "origin", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "waybill_gateway_call_seconds", Help: "Duration of the policies and the handler of a gateway route.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"method", "route"}),
		reloads: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_gateway_reloads_total", Help: "Changes of the route files: done, or refused because of a fault.",
		}, []string{"result"}),
		routes: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_gateway_routes", Help: "Routes that the route files define.",
		}),
	}
	r.MustRegister(m.calls, m.latency, m.reloads, m.routes)
	for _, result := range []string{"done", "refused"} {
		m.reloads.WithLabelValues(result)
	}
	return m
}

// enter creates the metrics of a site's routes before any of them is called, and returns the
// function that counts calls.
func (m *metrics) enter(routes []site.Info) (called func(route int, inside bool, status int, took time.Duration)) {
	counts := make([]*routeMetrics, len(routes))
	for i, r := range routes {
		counts[i] = m.routeMetrics(r.Method, r.Path)
	}
	m.routes.Set(float64(len(routes)))
	return func(route int, inside bool, status int, took time.Duration) {
		counts[route].called(inside, status, took)
	}
}

// leave deletes the metrics of removed routes. Requests of such a route that are still in flight
// are not counted.
func (m *metrics) leave(before, now []site.Info) {
	there := make(map[[2]string]bool, len(now))
	for _, r := range now {
		there[[2]string{r.Method, r.Path}] = true
	}
	for _, r := range before {
		if !there[[2]string{r.Method, r.Path}] {
			m.calls.DeletePartialMatch(prometheus.Labels{"method": r.Method, "route": r.Path})
			m.latency.DeleteLabelValues(r.Method, r.Path)
		}
	}
}

// routeMetrics are the metrics of one route, looked up once.
type routeMetrics struct {
	calls   [2][4]prometheus.Counter // by origin, then class from 2xx on
	latency prometheus.Observer
}

func (m *metrics) routeMetrics(method, template string) *routeMetrics {
	rm := &routeMetrics{latency: m.latency.WithLabelValues(method, template)}
	for i, origin := range []string{"http", "mcp"} {
		for class := range rm.calls[i] {
			rm.calls[i][class] = m.calls.WithLabelValues(method, template, origin, strconv.Itoa(class+2)+"xx")
		}
	}
	return rm
}

func (m *routeMetrics) called(inside bool, status int, took time.Duration) {
	origin := 0
	if inside {
		origin = 1
	}
	// A stream has no status yet; as it has begun, it counts as 2xx.
	m.calls[origin][max(0, status/100-2)].Inc()
	m.latency.Observe(took.Seconds())
}
