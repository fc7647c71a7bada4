package deliver

import (
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"waybill.dev/shared/domain"
)

// Metrics of deliveries. Labels are bounded: never a URL or an id.
type Metrics struct {
	outcomes *prometheus.CounterVec
	attempts *prometheus.CounterVec
	held     *prometheus.CounterVec
	ended    *prometheus.CounterVec
	disabled *prometheus.CounterVec
	latency  prometheus.Histogram
	endToEnd prometheus.Histogram
	circuits prometheus.Gauge
	// The counters of the outcome of nearly every delivery.
	delivered prometheus.Counter
	answered  prometheus.Counter // with 2xx
	deliverer atomic.Pointer[Deliverer]
}

// NewMetrics registers the metrics of deliveries.
func NewMetrics(registerer prometheus.Registerer) *Metrics {
	seconds := []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 15, 30}
	m := &Metrics{
		outcomes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_deliveries_total", Help: "Outcomes that deliveries reached, by status."}, []string{"status"}),
		attempts: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_attempts_total", Help: "Attempts by outcome class: 2xx to 5xx, or why there was no answer."}, []string{"class"}),
		held: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_deliveries_held_total", Help: "Deliveries put into a hold queue, by reason."}, []string{"reason"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_deliveries_ended_total", Help: "Deliveries given up without another attempt, by reason."}, []string{"reason"}),
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_webhooks_disabled_total", Help: "Webhooks that became inactive, by reason."}, []string{"reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_attempt_seconds", Help: "Duration of attempts.", Buckets: seconds}),
		endToEnd: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_end_to_end_seconds", Help: "Time from acceptance to delivery, for deliveries that succeed at the first attempt.", Buckets: seconds}),
		circuits: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_circuits_open", Help: "Webhooks whose circuit is open."}),
	}
	m.startAtZero()
	m.delivered = m.outcomes.WithLabelValues(string(domain.StatusDelivered))
	m.answered = m.attempts.WithLabelValues(classes[2])
	registerer.MustRegister(m.outcomes, m.attempts, m.held, m.ended, m.disabled, m.latency, m.endToEnd, m.circuits,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_attempts_in_flight", Help: "Attempts in flight."}, m.gauge(func(d *Deliverer) int64 { return d.process.InFlight() })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_deliveries_queued", Help: "Deliveries that wait for a free place of their webhook, for a second at most, or of the dispatcher."}, m.gauge(func(d *Deliverer) int64 { return d.process.Waiting() })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_attempts_hanging", Help: "Attempts in flight without an answer for a second or longer."}, m.gauge(func(d *Deliverer) int64 { return d.process.Hanging() })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_deliveries_paced", Help: "Deliveries to failing webhooks that start a little later, so that a burst of them is spread."}, m.gauge(func(d *Deliverer) int64 { return d.pacer.Waiting() })),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_overloaded", Help: "1 while this dispatcher itself, not a receiver, can't keep up."}, m.gauge((*Deliverer).overloaded)))
	return m
}

// startAtZero makes the counters that alerts and dashboards read. Prometheus sees no increase in a
// counter that appears with its first count.
func (m *Metrics) startAtZero() {
	for _, status := range []domain.Status{domain.StatusDelivered, domain.StatusRetrying, domain.StatusFailed, domain.StatusHeld} {
		m.outcomes.WithLabelValues(string(status))
	}
	for _, class := range classes[2:] {
		m.attempts.WithLabelValues(class)
	}
	for _, reason := range []string{domain.ReasonCircuitOpen, domain.ReasonInactive, domain.ReasonUnreadable, domain.ReasonOverCap, domain.ReasonBehindShipment} {
		m.held.WithLabelValues(reason)
	}
	for _, reason := range []string{domain.ReasonWebhookDeleted, domain.ReasonRetention, domain.ReasonPull, domain.ReasonCancelled} {
		m.ended.WithLabelValues(reason)
	}
	for _, reason := range []domain.DisabledReason{domain.DisabledGone, domain.DisabledFailing} {
		m.disabled.WithLabelValues(string(reason))
	}
}

// overloaded returns 1 while the process is overloaded, otherwise 0.
func (d *Deliverer) overloaded() int64 {
	if d.process.Overload.Now() {
		return 1
	}
	return 0
}

// gauge returns a function that reads a number of the deliverer.
func (m *Metrics) gauge(count func(*Deliverer) int64) func() float64 {
	return func() float64 {
		if d := m.deliverer.Load(); d != nil {
			return float64(count(d))
		}
		return 0
	}
}

func (m *Metrics) countOutcome(status domain.Status) {
	if status == domain.StatusDelivered {
		m.delivered.Inc()
		return
	}
	m.outcomes.WithLabelValues(string(status)).Inc()
}

// classes are the classes of an answer, by the first digit of its status.
var classes = [...]string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"} //nolint:gochecknoglobals // a constant

func (m *Metrics) countAttempt(r Response, took time.Duration) {
	m.latency.Observe(took.Seconds())
	class := r.Failure
	switch {
	case r.Status >= 200 && r.Status <= 299:
		m.answered.Inc()
		return
	case r.Status > 0:
		class = classes[min(r.Status/100, 5)]
	}
	m.attempts.WithLabelValues(class).Inc()
}
