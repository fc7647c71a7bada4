package relay

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	leader      prometheus.Gauge
	republished prometheus.Counter
	alerts      prometheus.Counter
	requests    prometheus.Counter
	restored    prometheus.Counter
	losses      prometheus.Counter
	expired     prometheus.Counter
	// expiredEvents counts events that passed the retention before they were fanned out.
	expiredEvents prometheus.Counter
	unsettledAge  prometheus.Gauge
	rollupLag     prometheus.Gauge
	waiting       *prometheus.GaugeVec
	expiring      *prometheus.GaugeVec
	soonest       *prometheus.GaugeVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	m := &metrics{
		leader: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_relay_leader", Help: "1 while this process is the relay, otherwise 0.",
		}),
		republished:   counter("waybill_relay_republished_total", "Events published again because they were no longer on the bus."),
		alerts:        counter("waybill_relay_alerts_total", "Alerts published."),
		requests:      counter("waybill_relay_requests_total", "Tests, retries and replays that were sent to the dispatchers."),
		restored:      counter("waybill_relay_restored_total", "Schedules and held deliveries restored on a bus that had lost them."),
		losses:        counter("waybill_relay_bus_losses_total", "How often the relay found that streams were lost."),
		expired:       counter("waybill_deliveries_expired_total", "Deliveries that were not delivered when the retention ended."),
		expiredEvents: counter("waybill_events_expired_total", "Accepted events that were not settled when the retention ended."),
		unsettledAge: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_oldest_unsettled_seconds", Help: "Age of the oldest accepted event that is not settled; 0: there is none. Set by the relay only.",
		}),
		rollupLag: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_rollup_lag_seconds", Help: "Age of the oldest counts that are not merged into rollups; 0: there are none. Set by the relay only.",
		}),
		waiting: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "waybill_bus_waiting", Help: "Messages on the bus: events and records that wait, schedules, held deliveries, deliveries behind their shipment. Set by the relay only.",
		}, []string{"kind"}),
		expiring: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "waybill_expiring", Help: "Certificates, keys and secrets of all accounts that end within 14 days. Set by the relay only.",
		}, []string{"kind"}),
		soonest: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Name: "waybill_expiring_soonest_seconds", Help: "Time until the first of them ends; below 0: it has ended. Set by the relay only.",
		}, []string{"kind"}),
	}
	r.MustRegister(m.leader, m.republished, m.alerts, m.requests, m.restored, m.losses, m.expired, m.expiredEvents, m.unsettledAge, m.rollupLag, m.waiting, m.expiring, m.soonest)
	return m
}

func (m *metrics) backlog(b Backlog) {
	m.waiting.WithLabelValues("events").Set(float64(b.Events))
	m.waiting.WithLabelValues("records").Set(float64(b.Records))
	m.waiting.WithLabelValues("scheduled").Set(float64(b.Scheduled))
	m.waiting.WithLabelValues("held").Set(float64(b.Held))
	m.waiting.WithLabelValues("ordered").Set(float64(b.Ordered))
}

// reset forgets the metrics that only the leader may have.
func (m *metrics) reset() {
	m.leader.Set(0)
	m.unsettledAge.Set(0)
	m.rollupLag.Set(0)
	m.waiting.Reset()
	m.expiring.Reset()
	m.soonest.Reset()
}
