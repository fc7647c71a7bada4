package rollout

import "github.com/prometheus/client_golang/prometheus"

// metrics have no label for deployments or routes: there may be any number of these.
type metrics struct {
	refused, overLimit, noRoom prometheus.Counter
}

func newMetrics(r prometheus.Registerer, of *Rollout) *metrics {
	m := &metrics{
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_gateway_builds_refused_total", Help: "Builds that this gateway can't serve; what it served before goes on.",
		}),
		overLimit: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_gateway_over_limit_total", Help: "Requests answered with 503 because their deployment had too many in flight.",
		}),
		noRoom: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_gateway_no_room_total", Help: "Times that a deployment was not loaded because the tables of its account, or of all, that answer requests leave no room in memory.",
		}),
	}
	r.MustRegister(m.refused, m.overLimit, m.noRoom,
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_gateway_table_bytes", Help: "Memory that the routes of deployments take, as it is counted for its bound."}, func() float64 {
			return float64(of.used.Load())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_gateway_rate_limit_counts", Help: "Counts of callers for rate limits of deployments."}, func() float64 {
			return float64(of.counts.Used())
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_gateway_deployments", Help: "Deployments that are known."}, func() float64 {
			if known := of.byName.Load(); known != nil {
				return float64(len(*known))
			}
			return 0
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_gateway_tables", Help: "Deployments whose routes are in memory."}, func() float64 {
			of.mu.Lock()
			defer of.mu.Unlock()
			return float64(len(of.loaded))
		}),
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "waybill_gateway_version", Help: "Version of what is served; it is the same in all gateways when nothing changes."}, func() float64 {
			return float64(of.version.Load())
		}),
	)
	return m
}
