package web

import (
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_http_requests_total", Help: "Requests by method, route template and class of status.",
		}, []string{"method", "route", "class"}),
		latency: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "waybill_http_request_seconds", Help: "Time until a request is answered, by route template.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}, []string{"route"}),
	}
	r.MustRegister(m.requests, m.latency)
	return m
}

// ofRoute has the metrics of nearly all requests to a route. Like every counter with labels, they
// are created at the first request.
type ofRoute struct {
	good    func() prometheus.Counter // with the route's own method, answered with 2xx
	latency func() prometheus.Observer
}

func (m *metrics) of(r *Route) ofRoute {
	return ofRoute{
		good:    sync.OnceValue(func() prometheus.Counter { return m.requests.WithLabelValues(r.Method, r.Path, class(http.StatusOK)) }),
		latency: sync.OnceValue(func() prometheus.Observer { return m.latency.WithLabelValues(r.Path) }),
	}
}

// routed counts a request to a route.
func (m *metrics) routed(r *route, method string, status int, took time.Duration) {
	if status/100 == 2 && method == r.Method {
		r.metrics.good().Inc()
	} else {
		m.requests.WithLabelValues(knownMethod(method), r.Path, class(status)).Inc()
	}
	r.metrics.latency().Observe(took.Seconds())
}

// request counts a request that no route of ours has answered.
func (m *metrics) request(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(knownMethod(method), route, class(status)).Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}

func class(status int) string { return strconv.Itoa(status/100) + "xx" }

// knownMethod bounds the values of the method label of a metric.
func knownMethod(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete, http.MethodOptions:
		return method
	}
	return "other"
}
