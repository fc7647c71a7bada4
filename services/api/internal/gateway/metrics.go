package gateway

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
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

// enter gives the routes of a table their metrics, before the first of them is called.
func (m *metrics) enter(t *table) {
	for _, rt := range t.routes {
		rt.metrics = m.of(rt.operation.Method, rt.operation.Path)
	}
	m.routes.Set(float64(len(t.routes)))
}

// leave takes the metrics of routes that are gone away. What such a route still has in hand
// is not counted any more.
func (m *metrics) leave(before, now *table) {
	there := make(map[[2]string]bool, len(now.routes))
	for _, rt := range now.routes {
		there[[2]string{rt.operation.Method, rt.operation.Path}] = true
	}
	for _, rt := range before.routes {
		if method, path := rt.operation.Method, rt.operation.Path; !there[[2]string{method, path}] {
			m.calls.DeletePartialMatch(prometheus.Labels{"method": method, "route": path})
			m.latency.DeleteLabelValues(method, path)
		}
	}
}

// routeMetrics are those of one route, looked up once.
type routeMetrics struct {
	calls   [2][4]prometheus.Counter // by origin, then class from 2xx on
	latency prometheus.Observer
}

func (m *metrics) of(method, template string) *routeMetrics {
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
	// A stream has no status yet; it has begun well.
	m.calls[origin][max(0, status/100-2)].Inc()
	m.latency.Observe(took.Seconds())
}
