package tunnel

import "github.com/prometheus/client_golang/prometheus"

// metrics have no label for the tunnel or the service, because there may be any number of them.
type metrics struct {
	requests *prometheus.CounterVec
	refused  prometheus.Counter
}

// The ways of a request, for the metric.
const (
	wayOwn   = "own"   // over a connection of this process
	wayBus   = "bus"   // over one of another gateway
	wayNone  = "none"  // refused, or no gateway has a connection
	wayOther = "other" // for another gateway
)

func newMetrics(r prometheus.Registerer, of *Tunnels) *metrics {
	m := &metrics{
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "waybill_tunnel_requests_total", Help: "Requests to services behind tunnels, by the way that they took.",
		}, []string{"way"}),
		refused: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_tunnel_refused_total", Help: "Agents that were refused, because of their token, because there were too many, or because they connected too often.",
		}),
	}
	for _, way := range []string{wayOwn, wayBus, wayNone, wayOther} {
		m.requests.WithLabelValues(way)
	}
	r.MustRegister(m.requests, m.refused, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "waybill_tunnel_connections", Help: "Connections of agents that this gateway has.",
	}, func() float64 {
		of.mu.RLock()
		defer of.mu.RUnlock()
		return float64(len(of.connections()))
	}))
	return m
}
