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
			Name: "waybill_events_accepted_total", Help: "Events committed that came over REST, repeats not counted.",
		}),
		duplicates: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_duplicate_total", Help: "Events over REST whose id was accepted within 24 hours before.",
		}),
		unpublished: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_events_unpublished_total", Help: "Committed events that did not reach the bus at first and were left to the relay.",
		}),
		batch: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_accept_batch_events", Help: "Events that shared one commit.",
			Buckets: prometheus.ExponentialBuckets(1, 2, 13),
		}),
		latency: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "waybill_accept_commit_seconds", Help: "Time that a commit of events took.",
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
