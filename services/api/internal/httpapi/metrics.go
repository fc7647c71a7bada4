package httpapi

import (
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	requests *prometheus.CounterVec
	latency  *prometheus.HistogramVec
	rejected prometheus.Counter
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
		rejected: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_rejected_total", Help: "Events over REST that were refused as invalid; a batch counts whole.",
		}),
	}
	r.MustRegister(m.requests, m.latency, m.rejected)
	return m
}

func (m *metrics) request(method, route string, status int, took time.Duration) {
	m.requests.WithLabelValues(knownMethod(method), route, strconv.Itoa(status/100)+"xx").Inc()
	m.latency.WithLabelValues(route).Observe(took.Seconds())
}
