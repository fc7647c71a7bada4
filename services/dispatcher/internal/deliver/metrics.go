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
	inFlight prometheus.Gauge
	queued   atomic.Pointer[atomic.Int64]
	circuits prometheus.Gauge
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
			Name: "waybill_deliveries_held_total", Help: "Deliveries put into a lane, by reason."}, []string{"reason"}),
		ended: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_deliveries_ended_total", Help: "Deliveries given up without another attempt, by reason."}, []string{"reason"}),
		disabled: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_webhooks_disabled_total", Help: "Webhooks that became inactive, by reason."}, []string{"reason"}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_attempt_seconds", Help: "Duration of attempts.", Buckets: seconds}),
		endToEnd: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_end_to_end_seconds", Help: "From acceptance to delivery, of deliveries that succeed at the first attempt.", Buckets: seconds}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_attempts_in_flight", Help: "Attempts under way."}),
		circuits: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_circuits_open", Help: "Webhooks to which only probes are sent."}),
	}
	registerer.MustRegister(m.outcomes, m.attempts, m.held, m.ended, m.disabled, m.latency, m.endToEnd, m.inFlight, m.circuits,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_deliveries_queued", Help: "Deliveries that wait for a slot of their webhook, a second at most."}, m.waiting))
	return m
}

func (m *Metrics) waiting() float64 {
	if n := m.queued.Load(); n != nil {
		return float64(n.Load())
	}
	return 0
}

func (m *Metrics) outcome(status domain.Status) { m.outcomes.WithLabelValues(string(status)).Inc() }

func (m *Metrics) attempt(r Response, took time.Duration) {
	m.latency.Observe(took.Seconds())
	class := r.Failure
	if r.Status > 0 {
		class = []string{"other", "1xx", "2xx", "3xx", "4xx", "5xx"}[min(r.Status/100, 5)]
	}
	m.attempts.WithLabelValues(class).Inc()
}
