package accept

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

type metrics struct {
	accepted, duplicates prometheus.Counter
	unpublished          prometheus.Counter
	batch                prometheus.Histogram
	latency              prometheus.Histogram
	failures             prometheus.Counter
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{
		accepted: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_accepted_total", Help: "Events over REST that were committed, without duplicates.",
		}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_duplicate_total", Help: "Events over REST whose id was already accepted within 24 hours.",
		}),
		unpublished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_unpublished_total", Help: "Committed events that did not reach the bus at first. The relay publishes them.",
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_accept_batch_events", Help: "Events in one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_accept_commit_seconds", Help: "Duration of a commit of events.",
			Buckets: prometheus.ExponentialBuckets(0.0005, 2, 14),
		}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_accept_failures_total", Help: "Commits of events that failed.",
		}),
	}
	r.MustRegister(m.accepted, m.duplicates, m.unpublished, m.batch, m.latency, m.failures)
	return m
}

func (m *metrics) commit(took time.Duration, events int, err error) {
	if err != nil {
		m.failures.Inc()
		return
	}
	m.latency.Observe(took.Seconds())
	m.batch.Observe(float64(events))
}
