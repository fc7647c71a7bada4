package order

import "github.com/prometheus/client_golang/prometheus"

type metrics struct {
	waiting, places, full prometheus.Gauge
	gaps, missing         prometheus.Counter
}

func newMetrics(registerer prometheus.Registerer) *metrics {
	m := &metrics{
		waiting: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_order_waiting", Help: "Deliveries of ordered webhooks that have not ended: the first of each shipment, and those that wait behind one."}),
		places: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_order_events_early", Help: "Events that wait for one that was committed before them and has not come yet."}),
		full: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "waybill_order_accounts_full", Help: "Accounts whose further events stay on the bus, because so many of their deliveries wait for their turn."}),
		gaps: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_order_gaps_total", Help: "Deliveries that were sent with the mark that the one before them did not arrive."}),
		missing: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "waybill_order_places_missing_total", Help: "Events that did not come in time, so that later ones went on without them."}),
	}
	registerer.MustRegister(m.waiting, m.places, m.full, m.gaps, m.missing)
	return m
}
