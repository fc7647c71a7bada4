package accept

import (
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// longest is the longest duration of this minute and the last one.
type longest struct {
	mu         sync.Mutex
	minute     int64
	this, last time.Duration
}

func (l *longest) add(now time.Time, took time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	l.this = max(l.this, took)
}

func (l *longest) of(now time.Time) time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.turn(now)
	return max(l.this, l.last)
}

// turn begins a new minute when one is over.
func (l *longest) turn(now time.Time) {
	minute := now.Unix() / 60
	switch minute {
	case l.minute:
		return
	case l.minute + 1:
		l.last = l.this
	default:
		l.last = 0
	}
	l.this, l.minute = 0, minute
}

type metrics struct {
	accepted, duplicates prometheus.Counter
	unpublished          prometheus.Counter
	batch                prometheus.Histogram
	latency              prometheus.Histogram
	failures             prometheus.Counter
	refused              *prometheus.CounterVec
	longest              longest
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
	m.refused = prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_accept_refused_total",
		Help: "Requests with events that were answered 503 although the store was there, by reason: busy (at once, because too many waited), queued (their time was over before a commit had them), committing (before their commit ended: they may be accepted).",
	}, []string{"reason"})
	for _, reason := range []string{atOnce, whileQueued, whileCommitting} {
		m.refused.WithLabelValues(reason)
	}
	r.MustRegister(m.accepted, m.duplicates, m.unpublished, m.batch, m.latency, m.failures, m.refused,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{
			Name: "waybill_accept_commit_longest_seconds", Help: "Duration of the longest commit of events in this minute and the last one.",
		}, func() float64 { return m.longest.of(time.Now()).Seconds() }))
	return m
}

func (m *metrics) commit(took time.Duration, events int, err error) {
	m.longest.add(time.Now(), took)
	if err != nil {
		m.failures.Inc()
		return
	}
	m.latency.Observe(took.Seconds())
	m.batch.Observe(float64(events))
}
