package acme

import "github.com/prometheus/client_golang/prometheus"

// Results of an order.
const (
	orderIssued = "issued"
	orderFailed = "failed"
)

// metrics have no hostname: there may be any number of them.
type metrics struct {
	orders *prometheus.CounterVec
}

func newMetrics(r prometheus.Registerer) *metrics {
	m := &metrics{orders: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "waybill_gateway_certificate_orders_total", Help: "Certificates that were ordered at the authority, by result.",
	}, []string{"result"})}
	for _, result := range []string{orderIssued, orderFailed} {
		m.orders.WithLabelValues(result) // initialized to 0, so that Prometheus sees the first increment
	}
	r.MustRegister(m.orders)
	return m
}
